"""The collection of log excerpts, and how well the doctor does on it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.scanning import placed, scan
from holdfast.doctor.reading.blocks import Piece
from holdfast.finding import Finding

HERE = Path(__file__).parent
CASES = HERE / "cases"


@dataclass(frozen=True)
class Excerpt:
    name: str
    path: Path
    first: str
    """The code of the first finding; empty when there must be no critical one."""
    fix: str = ""
    also: tuple[str, ...] = ()
    """Further critical findings that are right."""
    held_out: bool = False
    """Written when the rules were done."""


@dataclass(frozen=True)
class Verdict:
    excerpt: Excerpt
    findings: tuple[Finding, ...]

    @property
    def first(self) -> str:
        return self.findings[0].code if self.findings else ""

    @property
    def hit(self) -> bool:
        return bool(self.excerpt.first) and self.first == self.excerpt.first

    @property
    def false_alarms(self) -> int:
        """Critical findings that are wrong, and a first finding that is."""
        allowed = {self.excerpt.first, *self.excerpt.also}
        wrong = {finding.code for finding in self.findings if finding.severity == "critical"} - allowed
        if self.excerpt.first and self.first and self.first != self.excerpt.first:
            wrong.add(self.first)
        return len(wrong)


@dataclass(frozen=True)
class Score:
    hits: int
    troubles: int
    false_alarms: int

    @property
    def precision(self) -> float:
        return self.hits / max(1, self.hits + self.false_alarms)

    @property
    def recall(self) -> float:
        return self.hits / max(1, self.troubles)


def score(verdicts: Iterable[Verdict]) -> Score:
    verdicts = list(verdicts)
    return Score(
        hits=sum(verdict.hit for verdict in verdicts),
        troubles=sum(bool(verdict.excerpt.first) for verdict in verdicts),
        false_alarms=sum(verdict.false_alarms for verdict in verdicts),
    )


def excerpts() -> list[Excerpt]:
    expected = tomllib.loads((HERE / "expected.toml").read_text())
    return [
        Excerpt(
            name,
            CASES / f"{name}.log",
            says["first"],
            says.get("fix", ""),
            tuple(says.get("also", ())),
            says.get("held_out", False),
        )
        for name, says in expected.items()
    ]


@cache
def examined(excerpt: Excerpt) -> Verdict:
    return Verdict(excerpt, diagnose(placed([scan(Piece(str(excerpt.path)), RULES)])))
