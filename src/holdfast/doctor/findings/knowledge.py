"""What is known about one kind of trouble: its symptoms, its causes, what to change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdfast.doctor.matching.case import Case
from holdfast.doctor.matching.clues import Rule
from holdfast.doctor.matching.sightings import Sample, Sighting
from holdfast.finding import Severity

Sightings = Sequence[Sighting]


@dataclass(frozen=True, slots=True)
class Fix:
    """Lines to copy, for each engine. A line that begins with `#` is advice, anything else is configuration."""

    flink: tuple[str, ...] = ()
    spark: tuple[str, ...] = ()
    holdfast: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Support:
    """How strongly the log supports a cause (0: not at all), and the evidence."""

    weight: int
    evidence: Sightings = ()


Weigh = Callable[[Case, Sightings], Support]
MakeFix = Callable[[Case, Sightings], Fix]


@dataclass(frozen=True, slots=True)
class Cause:
    name: str
    text: str
    fix: Fix | MakeFix
    weigh: Weigh
    tell: str = ""
    """How to find out whether it is this one, where nothing in the logs does: a command, or a metric."""
    is_open: bool = False
    """It only says that the exception shows why."""

    def fix_for(self, case: Case, seen: Sightings) -> Fix:
        return self.fix if isinstance(self.fix, Fix) else self.fix(case, seen)


def _severity_as_is(case: Case, seen: Sightings, severity: Severity) -> Severity:
    del case, seen
    return severity


def _nothing(case: Case, seen: Sightings) -> Sequence[Sample]:
    del case, seen
    return ()


def _all_of_them(case: Case, seen: Sightings) -> Sightings:
    del case
    return seen


@dataclass(frozen=True, slots=True)
class Knowledge:
    """One kind of trouble.

    `causes` are ranked by what the log supports; of equals, the earlier one wins, so the last should always apply.
    """

    code: str
    severity: Severity
    symptom: str
    rules: tuple[Rule, ...]
    causes: tuple[Cause, ...]
    references: tuple[str, ...] = ()
    seen_as: str = ""
    """The code of the rule that recognises it, if that belongs to another finding."""
    by_variant: bool = False
    """Each variant is a separate finding."""
    heals: bool = False
    """Only a warning once a later checkpoint completed."""
    enough: Callable[[Case, Sightings], Sightings] = field(default=_all_of_them)
    """The sightings that make a finding; none when they are too few."""
    grade: Callable[[Case, Sightings, Severity], Severity] = field(default=_severity_as_is)
    counts: Callable[[Case, Sightings], Sequence[Sample]] = field(default=_nothing)
    """The failures that make up this one."""


def always(weight: int = 1) -> Weigh:
    def weigh(case: Case, seen: Sightings) -> Support:
        del case, seen
        return Support(weight)

    return weigh


def for_variant(*variants: str, weight: int = 50) -> Weigh:
    """Supported when the finding itself has one of these variants."""

    def weigh(case: Case, seen: Sightings) -> Support:
        del case
        found = [sighting for sighting in seen if sighting.key.variant in variants]
        return Support(weight if found else 0, found)

    return weigh


def for_context(code: str, *variants: str, weight: int = 40) -> Weigh:
    """Supported when something else in the same job's logs, near the trouble, indicates it."""

    def weigh(case: Case, seen: Sightings) -> Support:
        found = case.near(seen, code, *variants)
        return Support(weight if found else 0, found)

    return weigh
