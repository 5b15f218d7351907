"""How often the doctor is right, on the collection of log excerpts in `tests/doctor`."""

from __future__ import annotations

from collections.abc import Sequence

from bench.ratio import Ratio
from tests.doctor.collection import Verdict, examined, excerpts, score

EXPECTED = 0.95


def measure() -> list[Verdict]:
    return [examined(excerpt) for excerpt in excerpts()]


def rows(verdicts: Sequence[Verdict]) -> list[tuple[str, str]]:
    result = score(verdicts)
    healthy = sum(not verdict.excerpt.first for verdict in verdicts)
    fixed = sum(verdict.hit and verdict.excerpt.fix in verdict.findings[0].fix for verdict in verdicts)
    return [
        ("excerpts", f"{len(verdicts)}, of which {healthy} are healthy or misleading"),
        ("right first finding", f"{result.hits} of {result.troubles}"),
        ("with the right fix", f"{fixed} of {result.troubles}"),
        ("false alarms", str(result.false_alarms)),
        *((f"wrong: {v.excerpt.name}", v.first or "nothing found") for v in verdicts if v.excerpt.first and not v.hit),
    ]


def ratios(verdicts: Sequence[Verdict]) -> list[Ratio]:
    result = score(verdicts)
    return [
        Ratio("doctor: precision", result.precision, more_is_better=True, expected=EXPECTED),
        Ratio("doctor: recall", result.recall, more_is_better=True, expected=EXPECTED),
    ]
