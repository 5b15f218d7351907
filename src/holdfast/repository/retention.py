"""Which checkpoints and journal entries may be dropped. Pure: plans from the journal's state.

A checkpoint is first retired in the journal, with the time. Its objects are deleted when no retained checkpoint names
them and its grace is over, even if the owner changes; `repository/collection.py` selects them. The grace protects
readers. The clock decides only how long objects stay, never whether they are needed.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.checkpoint.manifest import Manifest, manifest_key
from holdfast.identifiers import CheckpointId
from holdfast.identifiers import Sequence as SequenceNumber
from holdfast.repository.entries import (
    CHAINED_SINCE,
    CheckpointCompleted,
    CheckpointCorrupt,
    CheckpointRepaired,
    CheckpointsRetired,
    CheckpointStarted,
    PlansLate,
    RequestAnswered,
    Retention,
    RollbackRequested,
    RunEnded,
    RunStarted,
    SavepointDeleted,
    SavepointNamed,
    WentBack,
)
from holdfast.repository.state import JobState

HISTORY_KEPT = 500
"""How many of the newest journal entries stay as history, of whatever kind."""
RUNS_KEPT = 20
ANSWERS_KEPT = 20
"""The newest of each kind stay, besides those that are needed."""
FOLD_SHARE = 2
"""A fold must drop at least `HISTORY_KEPT` divided by this: it rewrites all entries that it keeps."""

_HOUR = "%Y-%m-%d %H"
_DAY = "%Y-%m-%d"


def checkpoints_to_retire(state: JobState, rule: Retention) -> tuple[CheckpointId, ...]:
    """Completed checkpoints that the rule does not keep. Savepoints stay, and so does the one to which the next start
    goes back. Damaged and abandoned ones do not count as kept; they are retired when enough usable ones are newer.

    A checkpoint that the rule drops once stays dropped, whatever completes later. So it does not matter how often the
    rule is applied.
    """
    plain = [entry for entry in state.retained() if entry.checkpoint_kind == "checkpoint"]
    sound = [entry for entry in plain if entry.id not in state.corrupt and entry.id not in state.abandoned]
    newest = {entry.id for entry in sound[-rule.retained :]}
    keep = newest | _newest_of_each(sound, _HOUR, rule.keep_hourly) | _newest_of_each(sound, _DAY, rule.keep_daily)
    oldest = min(newest) if len(newest) == rule.retained else CheckpointId(0)
    if state.rollback is not None and state.rollback.chosen is not None:
        keep |= {state.rollback.chosen}
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
    """Retired checkpoints in their grace, with the seconds until it ends.

    A clock change can shorten the grace or restart it; it never makes the grace longer than that.
    """
    left = {id: grace_s - max(0.0, (now - at).total_seconds()) for id, at in state.retired_at.items()}
    return {id: seconds for id, seconds in left.items() if seconds > 0.0}


def keys_of(entry: CheckpointCompleted, manifest: Manifest) -> frozenset[str]:
    return frozenset({manifest_key(entry.manifest), *(file.key for file in manifest.files())})


@dataclass(frozen=True)
class FoldPlan:
    dropped: frozenset[SequenceNumber]
    answers_lost_upto: SequenceNumber
    """Answers to requests up to this entry are dropped, by this fold or an earlier one."""


def plan_fold(state: JobState, graced: Container[CheckpointId]) -> FoldPlan | None:
    """What a fold would drop from the journal; None while it would drop too little.

    A journal that begins with entries that prove nothing is folded at once.
    """
    dropped = entries_to_drop(state, graced)
    unproved = state.folded is None and any(entry.format < CHAINED_SINCE for _, entry in state.sequences)
    if len(dropped) * FOLD_SHARE < max(1, HISTORY_KEPT) and not unproved:
        return None
    lost = [n for n, entry in state.sequences if n in dropped and isinstance(entry, RequestAnswered)]
    before = state.folded.answers_lost_upto if state.folded else SequenceNumber(0)
    return FoldPlan(dropped, max([before, *lost]))


def entries_to_drop(state: JobState, graced: Container[CheckpointId]) -> frozenset[SequenceNumber]:
    """Journal entries that are not needed any more.

    Never the newest entry, which the next one follows, the highest id, entries that a retained checkpoint needs,
    entries that name the objects of a checkpoint in its grace, or the newest runs and answers.
    """
    keep_from = len(state.sequences) - max(1, HISTORY_KEPT)
    needed = _Needed(state, graced)
    return frozenset(
        sequence
        for index, (sequence, entry) in enumerate(state.sequences)
        if index < keep_from and not needed.needs(entry)
    )


class _Needed:
    def __init__(self, state: JobState, graced: Container[CheckpointId]) -> None:
        self._state = state
        self._graced = graced
        pipelines = [run.fencing_epoch for run in state.runs if run.purpose == "pipeline"]
        newest = [run.fencing_epoch for run in state.runs[-max(1, RUNS_KEPT) :]]
        self._runs = {*pipelines[-2:], *newest, *(entry.fencing_epoch for entry in state.retained())}
        """The two newest of the pipeline: where the newest one resumed depends on the one before."""
        self._answers = set(list(state.answers)[-max(1, ANSWERS_KEPT) :])

    def needs(self, entry: object) -> bool:
        state = self._state
        match entry:
            case RunStarted() | RunEnded():
                return entry.fencing_epoch in self._runs
            case CheckpointCompleted():
                return entry.id not in state.retired or entry.id in self._graced or entry.id == state.last_checkpoint
            case CheckpointStarted():
                return entry.id == state.last_checkpoint
            case CheckpointCorrupt() | CheckpointRepaired() | SavepointNamed() | SavepointDeleted():
                return entry.id in state.completed and entry.id not in state.retired
            case CheckpointsRetired():
                return any(id in state.completed for id in entry.ids)
            case WentBack():
                last = entry is state.went_back or entry is state.went_back_for_a_start
                return last or any(id in state.completed for id in entry.abandoned)
            case RollbackRequested():
                return entry is state.rollback
            case RequestAnswered():
                return entry.request in self._answers
            case PlansLate():
                return entry is state.plans_late
        return False
