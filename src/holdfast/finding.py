"""Findings of the doctor, with their evidence and their fix. The names are public."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

Severity = Literal["critical", "warning", "info"]
Confidence = Literal["certain", "likely", "possible"]
"""certain: the runtime names the cause; likely: other lines point at it; possible: nothing speaks against it."""
RANK: dict[Severity, int] = {"critical": 0, "warning": 1, "info": 2}


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    line: int
    text: str


class Consequence(msgspec.Struct, frozen=True, kw_only=True):
    """A consequence of the finding's cause, which needs no fix of its own."""

    code: str
    symptom: str
    count: int
    first_seen: str | None
    last_seen: str | None
    evidence: tuple[Evidence, ...]
    counted: tuple[Evidence, ...] = ()


class Fixes(msgspec.Struct, frozen=True, kw_only=True):
    """The same fix for each engine."""

    flink: tuple[str, ...]
    spark: tuple[str, ...]
    holdfast: tuple[str, ...]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, why, and what to change; the names are public."""

    code: str
    severity: Severity
    symptom: str
    cause: str
    evidence: tuple[Evidence, ...]
    fix: tuple[str, ...]
    """Lines for the engine at hand; `fixes` has those for the others. A line that begins with `#` is advice."""
    count: int
    first_seen: str | None
    last_seen: str | None
    job: str | None = None
    engine: Literal["flink", "spark", "holdfast"] | None = None
    fixes: Fixes | None = None
    confidence: Confidence | None = None
    """How sure the cause is; None where it is computed from a job's own history."""
    other_causes: tuple[str, ...] = ()
    """Also supported by the logs, less than `cause`."""
    counted: tuple[Evidence, ...] = ()
    """The failures that make up this one, each with its root cause."""
    consequences: tuple[Consequence, ...] = ()
    references: tuple[str, ...] = ()


def worst_is_critical(findings: Iterable[Finding]) -> bool:
    return any(finding.severity == "critical" for finding in findings)
