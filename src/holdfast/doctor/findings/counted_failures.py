"""Which checkpoints failed before Flink's tolerance was exceeded, and the root cause of each."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from holdfast.doctor.matching.case import CONTEXT, Case
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.matching.sightings import Sample, Sighting
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import root, whole

_CODE = CONTEXT + "counted-failure"
_KEPT = 20
_SHOWN = 10
_CHARACTERS = 240
_SLACK_MS = 2_000
"""The failure that exceeded the tolerance may be logged after the line that reports it."""

_EXPIRED = "expired before completing"
_NOT_COUNTED = (
    "not ready",
    "ubsumed",
    "uspend",
    "not running",
    "ot all required tasks",
    "too many",
    "minimum time between",
    "CancellationException",
    "Exceeded checkpoint tolerable",
)
_TASK_ENDED = re.compile(r"ask.{0,40}clos")
_COORDINATOR_ENDED = re.compile(r"oordinator.{0,20}shut")


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    if event.checkpoint is None or any(phrase in text for phrase in _NOT_COUNTED) or _ended(text):
        return None
    cause = _root_cause(event)
    if cause is None:
        return None
    return Clue(f"checkpoint {event.checkpoint}: {cause}"[:_CHARACTERS])


def _ended(text: str) -> bool:
    return bool(_TASK_ENDED.search(text) or _COORDINATOR_ENDED.search(text))


def _root_cause(event: LogEvent) -> str | None:
    """Flink sends exceptions from process to process by their text alone, as SerializedThrowable."""
    link = root(event)
    if link is None:
        return _EXPIRED if _EXPIRED in event.message else None
    name, message = link.class_name.rpartition(".")[2], " ".join(link.message.split())
    if name == "SerializedThrowable" or name == "CheckpointException":
        return message or None
    return f"{name}: {message}" if message and message != "null" else name


RULE = Rule(
    _CODE,
    (
        "Failed to trigger or complete checkpoint",
        "Decline checkpoint ",
        _EXPIRED,
        "asynchronous part of checkpoint",
        "Could not materialize checkpoint",
        "Could not finalize the pending checkpoint",
        "Could not complete snapshot",
        "IO-problem detected",
    ),
    _recognise,
    samples=_KEPT,
)


def failures_before(case: Case, exceeded: Sequence[Sighting]) -> list[Sample]:
    """Each checkpoint that failed since the last good one, once, oldest first; of many, the newest."""
    failed = sorted({sample for sighting in case.near(exceeded, _CODE) for sample in sighting.samples})
    completed = sorted(_moments(case.of(CONTEXT + "completed")))
    ends = _moments(exceeded)
    counted: dict[str, Sample] = {}
    for sample in failed:
        if any(_was_counted(sample.time, end, completed) for end in ends):
            checkpoint = sample.text.partition(":")[0]
            known = counted.get(checkpoint)
            counted[checkpoint] = sample if known is None or _is_more_specific(sample, known) else known
    return sorted(counted.values())[-_SHOWN:]


def _was_counted(failure: int, end: int, completed: Sequence[int]) -> bool:
    """A failure without a time may have been."""
    if failure < 0 or end < 0:
        return True
    if failure > end + _SLACK_MS:
        return False
    before = bisect_right(completed, end)
    return before == 0 or completed[before - 1] < failure


def _is_more_specific(sample: Sample, known: Sample) -> bool:
    """The message of the failed task is preferred to that of the coordinator that timed out."""
    return _EXPIRED in known.text and _EXPIRED not in sample.text


def _moments(sightings: Iterable[Sighting]) -> set[int]:
    return {sample.time for sighting in sightings for sample in (*sighting.samples, sighting.last)}
