"""Two heaps of excerpts from public threads, and how the doctor does on each.

A coin decided which excerpt goes to which heap, before any rule was written for them. Rules may be written for the
first heap; the second says how well the doctor does on what nobody tuned it for: `python -m tests.doctor.wild`
prints both.
"""

from __future__ import annotations

import hashlib
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.doctor.collection import Excerpt, Score, Verdict, examined, score

HERE = Path(__file__).parent / "wild"
HEAPS = ("first", "second")
_SEED = "holdfast-16"


@dataclass(frozen=True)
class Seen:
    """`bare`: its lines do not begin as lines of a log do; `where`: the public page."""

    excerpt: Excerpt
    bare: bool
    where: str


def heap(name: str) -> list[Seen]:
    told = tomllib.loads((HERE / "seen.toml").read_text())[name]
    return [
        Seen(Excerpt(each, HERE / name / f"{each}.log", says["first"]), says["bare"], says["seen"])
        for each, says in told.items()
    ]


def coin(name: str) -> str:
    return HEAPS[hashlib.sha256(f"{_SEED}:{name}".encode()).digest()[0] & 1]


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
