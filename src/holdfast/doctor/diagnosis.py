"""From what was seen in logs to findings. Deterministic, whatever the order of the sightings."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.doctor.sightings import Sighting


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    line: int
    text: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, why, and what to change; the names are public."""

    code: str
    severity: str
    cause: str
    evidence: tuple[Evidence, ...]
    fix: tuple[str, ...]
    count: int
    first_seen: str | None
    last_seen: str | None


def diagnose(sightings: Iterable[Sighting]) -> tuple[Finding, ...]:
    """Worst and first cause first."""
    del sightings
    return ()
