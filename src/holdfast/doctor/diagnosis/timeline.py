"""Causes and consequences in one job: the first cause is a finding, its consequences are attached to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.doctor.findings.knowledge import Knowledge
from holdfast.doctor.matching.case import Case
from holdfast.doctor.matching.sightings import Sample, Sighting
from holdfast.doctor.matching.spans import Spans

_REACH_MS = 60 * 60 * 1000
"""How long after its cause a consequence may appear."""
_SLACK_MS = 2 * 60 * 1000
"""Clocks of hosts differ, and log lines are written with a delay."""

_FAILED_CHECKPOINTS = ("snapshot-write-failed", "metadata-exists", "checkpoint-expired")
_LOST_WORKERS = ("out-of-memory", "executor-lost")
_REFUSED = ("class-path-broken", "access-denied", "source-refused", "resources-refused")
_LOST_WORK = (
    "local-disk-full",
    "kafka-transaction-failed",
    "table-commit-failed",
    "input-changed",
    "readers-collide",
    "shuffle-lost",
    "leader-lost",
    "rpc-unanswered",
)
_UNABLE_TO_START = ("state-unreadable", "incompatible-change", "offset-out-of-range", "concurrent-stream-log")

FOLLOWS_FROM: dict[str, tuple[str, ...]] = {
    "executor-lost": ("out-of-memory",),
    "shuffle-lost": _LOST_WORKERS,
    "rpc-unanswered": (*_LOST_WORKERS, "leader-lost"),
    "leader-lost": ("out-of-memory",),
    "input-changed": ("access-denied",),
    "access-denied": ("snapshot-write-failed", "state-unreadable", "kafka-commit-failed"),
    "table-commit-failed": (*_LOST_WORKERS, *_REFUSED, "input-changed"),
    "kafka-transaction-failed": (*_LOST_WORKERS, *_FAILED_CHECKPOINTS),
    "checkpoint-expired": (*_LOST_WORKERS, "snapshot-write-failed"),
    "snapshot-write-failed": _LOST_WORKERS,
    "discarded-checkpoint-failed-task": _LOST_WORKERS,
    "tolerable-failures-exceeded": (*_FAILED_CHECKPOINTS, *_LOST_WORKERS),
    "tasks-not-running": (
        *_UNABLE_TO_START,
        *_REFUSED,
        *_LOST_WORK,
        *_LOST_WORKERS,
        *_FAILED_CHECKPOINTS,
        "discarded-checkpoint-failed-task",
        "tolerable-failures-exceeded",
    ),
    "kafka-reconnect-loop": ("kafka-commit-failed",),
    "kafka-idle-consumers": ("kafka-commit-failed",),
    "kafka-commit-failed": (*_LOST_WORKERS,),
    "restart-loop": (
        *_UNABLE_TO_START,
        *_REFUSED,
        *_LOST_WORK,
        *_LOST_WORKERS,
        *_FAILED_CHECKPOINTS,
        "discarded-checkpoint-failed-task",
        "tolerable-failures-exceeded",
        "kafka-reconnect-loop",
    ),
    "job-failed": (
        *_UNABLE_TO_START,
        *_REFUSED,
        *_LOST_WORK,
        *_LOST_WORKERS,
        *_FAILED_CHECKPOINTS,
        "discarded-checkpoint-failed-task",
        "tolerable-failures-exceeded",
        "kafka-reconnect-loop",
        "kafka-commit-failed",
        "tasks-not-running",
        "restart-loop",
    ),
    "batch-falls-behind": (*_LOST_WORKERS, "snapshot-write-failed"),
}
"""What each trouble may be a consequence of; an earlier cause in a row is preferred."""


@dataclass(slots=True)
class Trouble:
    """Sightings that make one finding, or one consequence of another."""

    knowledge: Knowledge
    variant: str
    sightings: list[Sighting]
    consequences: list[Trouble] = field(default_factory=list)

    @property
    def code(self) -> str:
        return self.knowledge.code

    @property
    def first(self) -> Sample:
        return min(sighting.samples[0] for sighting in self.sightings)

    @property
    def last(self) -> Sample:
        return max(sighting.last for sighting in self.sightings)

    @property
    def count(self) -> int:
        return sum(sighting.count for sighting in self.sightings)


def troubles(case: Case, knowledge: Sequence[Knowledge]) -> list[Trouble]:
    """The troubles of one job that follow from nothing else, each with what follows from it."""
    return _linked([trouble for known in knowledge for trouble in _of_one_kind(case, known)])


def _of_one_kind(case: Case, known: Knowledge) -> list[Trouble]:
    seen = list(known.enough(case, case.of(known.seen_as or known.code)))
    if not seen:
        return []
    if not known.by_variant:
        return [Trouble(known, "", seen)]
    variants = sorted({sighting.key.variant for sighting in seen})
    return [Trouble(known, variant, [s for s in seen if s.key.variant == variant]) for variant in variants]


def _linked(found: list[Trouble]) -> list[Trouble]:
    standing: list[Trouble] = []
    for effect in found:
        left = list(effect.sightings)
        for cause in _possible_causes(effect, found):
            explained, left = _explained(Spans(cause.sightings), left)
            if explained:
                cause.consequences.append(Trouble(effect.knowledge, effect.variant, explained))
        if len(left) == len(effect.sightings):
            standing.append(effect)
        elif left:
            standing.append(Trouble(effect.knowledge, effect.variant, left, effect.consequences))
        else:
            _hand_over(effect, found)
    return standing


def _hand_over(effect: Trouble, found: list[Trouble]) -> None:
    """What followed from a consequence follows from its cause."""
    causes = [trouble for trouble in found if any(c.knowledge is effect.knowledge for c in trouble.consequences)]
    if causes and effect.consequences:
        causes[0].consequences.extend(effect.consequences)


def _possible_causes(effect: Trouble, found: list[Trouble]) -> list[Trouble]:
    order = FOLLOWS_FROM.get(effect.code, ())
    causes = [trouble for trouble in found if trouble.code in order]
    return sorted(causes, key=lambda trouble: (order.index(trouble.code), trouble.first, trouble.variant))


def _explained(cause: Spans, effects: Sequence[Sighting]) -> tuple[list[Sighting], list[Sighting]]:
    """What may follow from the cause, and what may not."""
    explained: list[Sighting] = []
    left: list[Sighting] = []
    for effect in effects:
        (explained if cause.touch(effect, _REACH_MS, _SLACK_MS) else left).append(effect)
    return explained, left
