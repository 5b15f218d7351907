"""Heaps of excerpts from public threads, and how the doctor does on each.

A coin decided which excerpt goes to which heap, before any rule was written for them. Rules may be written for the
first heap. The second was what nobody had tuned on until it was scored; since then rules were written for what it
showed to be missing, and a further draw put one excerpt of three into the first heap and the others into the third.
The same happened to the third. The fourth was collected as a whole, from topics that were chosen before anybody looked
at the rules, and scored before any rule was written for it. `python -m tests.doctor.wild` prints all.
"""

from __future__ import annotations

import hashlib
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.doctor.collection import Excerpt, Score, Verdict, examined, score

HERE = Path(__file__).parent / "wild"
DRAWN = ("first", "second", "third")
HEAPS = (*DRAWN, "fourth")
_DRAW = ("holdfast-16", ("first", "second"))
_DRAWN_AGAIN = ("holdfast-16-again", ("first", "third", "third"))


@dataclass(frozen=True)
class Seen:
    """`bare`: its lines do not begin as lines of a log do; `where`: the public page."""

    excerpt: Excerpt
    bare: bool
    where: str
    again: bool
    """Drawn with the others of the third heap."""


def heap(name: str) -> list[Seen]:
    told = tomllib.loads((HERE / "seen.toml").read_text())[name]
    return [
        Seen(
            Excerpt(each, HERE / name / f"{each}.log", says["first"]),
            says["bare"],
            says["seen"],
            says.get("again", False),
        )
        for each, says in told.items()
    ]


def coin(seen: Seen) -> str:
    seed, sides = _DRAWN_AGAIN if seen.again else _DRAW
    return sides[hashlib.sha256(f"{seed}:{seen.excerpt.name}".encode()).digest()[0] % len(sides)]


def verdicts(name: str) -> list[Verdict]:
    return [examined(seen.excerpt) for seen in heap(name)]


def line(name: str, result: Score) -> str:
    return f"{name} heap: precision {result.precision:.2f}, recall {result.recall:.2f} ({result})"


def main(names: list[str]) -> None:
    for name in names or HEAPS:
        found = verdicts(name)
        for verdict in found:
            if verdict.false_alarms or (verdict.excerpt.first and not verdict.hit):
                told = [(finding.severity, finding.code) for finding in verdict.findings]
                sys.stdout.write(
                    f"  {verdict.excerpt.name}: wanted {verdict.excerpt.first or 'nothing'}, told {told}\n"
                )
        sys.stdout.write(f"{line(name, score(found))}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
