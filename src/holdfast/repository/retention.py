"""Which checkpoints and journal entries may go: planned from the journal's state, pure.

A checkpoint that goes is retired in the journal first. Its objects are deleted when no retained checkpoint names them
and its grace is over; `repository/collection.py` says which those are.
"""

from collections.abc import Container, Sequence
from datetime import UTC, datetime

from holdfast.checkpoint.manifest import Manifest, manifest_key
from holdfast.identifiers import CheckpointId
from holdfast.identifiers import Sequence as SequenceNumber
from holdfast.repository.entries import (
    CheckpointCompleted,
    CheckpointCorrupt,
    CheckpointRepaired,
    CheckpointsRetired,
    CheckpointStarted,
    RequestAnswered,
    Retention,
    RunEnded,
    RunStarted,
    SavepointDeleted,
    SavepointNamed,
    WentBack,
)
from holdfast.repository.state import JobState

HISTORY_KEPT = 500
"""Entries of the journal that stay for people to read, whatever they say."""

_HOUR = "%Y-%m-%d %H"
_DAY = "%Y-%m-%d"


def checkpoints_to_retire(state: JobState, rule: Retention) -> tuple[CheckpointId, ...]:
    """Completed checkpoints that the rule does not keep. Savepoints stay. Damaged ones, and those of a line that was
    given up, do not count as kept; they go when enough that count are newer.

    A checkpoint that the rule gives up once it gives up for ever, whatever completes later. So it does not matter how
    often the rule is applied.
    """
    plain = [entry for entry in state.retained() if entry.checkpoint_kind == "checkpoint"]
    sound = [entry for entry in plain if entry.id not in state.corrupt and entry.id not in state.abandoned]
    newest = {entry.id for entry in sound[-rule.retained :]}
    keep = newest | _newest_of_each(sound, _HOUR, rule.keep_hourly) | _newest_of_each(sound, _DAY, rule.keep_daily)
    oldest = min(newest) if len(newest) == rule.retained else CheckpointId(0)
    return tuple(e.id for e in plain if e.id not in keep and (e in sound or e.id < oldest))


def _newest_of_each(entries: Sequence[CheckpointCompleted], period: str, count: int) -> set[CheckpointId]:
    """The newest checkpoint of each of the `count` newest periods, in UTC, that have one."""
    newest: dict[str, CheckpointId] = {}
    for entry in reversed(entries):
        name = entry.at.astimezone(UTC).strftime(period)
        if name not in newest and len(newest) == count:
            break
        newest.setdefault(name, entry.id)
    return set(newest.values())


def in_grace(state: JobState, grace_s: float, now: datetime) -> dict[CheckpointId, float]:
    """Retired checkpoints that somebody may still be reading, and for how many more seconds.

    A clock that was set can make the grace shorter or start it anew; it never makes it last longer than that.
    """
    left = {id: grace_s - max(0.0, (now - at).total_seconds()) for id, at in state.retired_at.items()}
    return {id: seconds for id, seconds in left.items() if seconds > 0.0}


def keys_of(entry: CheckpointCompleted, manifest: Manifest) -> frozenset[str]:
    return frozenset({manifest_key(entry.manifest), *(file.key for file in manifest.files())})


def entries_to_trim(state: JobState, graced: Container[CheckpointId]) -> frozenset[SequenceNumber]:
    """Journal entries that say nothing any more.

    Never `run-started` (a stalled run must find it), the entry before one (a stalled run that wrote it may not know
    yet, and writes it again where it finds the place free), the newest entry, the highest id, what a retained
    checkpoint needs, or what names the objects of a checkpoint in its grace.
    """
    keep_from = len(state.sequences) - HISTORY_KEPT
    last_of_a_run = {run.sequence - 1 for run in state.runs}
    return frozenset(
        sequence
        for index, (sequence, entry) in enumerate(state.sequences)
        if index < keep_from and sequence not in last_of_a_run and not _needed(state, entry, graced)
    )


def _needed(state: JobState, entry: object, graced: Container[CheckpointId]) -> bool:
    match entry:
        case RunStarted() | RunEnded():
            return isinstance(entry, RunStarted) or entry in (state.ended, state.pipeline_ended)
        case CheckpointCompleted():
            return entry.id not in state.retired or entry.id in graced or entry.id == state.last_checkpoint
        case CheckpointStarted():
            return entry.id == state.last_checkpoint
        case CheckpointCorrupt() | CheckpointRepaired():
            return entry.id in state.completed and entry.id not in state.retired
        case SavepointNamed() | SavepointDeleted():
            return entry.id in state.completed and entry.id not in state.retired
        case CheckpointsRetired():
            return any(id in state.completed for id in entry.ids)
        case WentBack():
            return entry is state.went_back or any(id in state.completed for id in entry.abandoned)
        case RequestAnswered():
            return entry is state.newest_answer
    return False
