"""Which decisions of its source a copy of a job lacks. Pure: compares two states and returns entries.

A copy resumes where its source would only if its journal holds the source's decisions: which checkpoints completed,
which timelines were abandoned, what was named, deleted and retired, which ids are used up. Each such entry is appended
to the target once, in the source's order. It is recognized by its content and its time.

Damage and repairs are not copied: they concern the bytes of one home, and a copy has its own bytes.
"""

from collections.abc import Callable, Collection, Iterator

import msgspec

from holdfast.identifiers import CheckpointId
from holdfast.repository.entries import (
    AnyEntry,
    CheckpointCompleted,
    CheckpointCorrupt,
    CheckpointFailedEntry,
    CheckpointRepaired,
    CheckpointStarted,
    SavepointDeleted,
    SavepointNamed,
    WentBack,
)
from holdfast.repository.state import JobState

Rename = SavepointNamed | SavepointDeleted


def missing(source: JobState, target: JobState, chosen: Collection[CheckpointId], *, whole: bool) -> list[AnyEntry]:
    """Entries of the source that the target lacks, in the source's order.

    Of completed checkpoints only the `chosen` ones. Entries that abandon a timeline are always included; names,
    deletions and the history of failures only with the `whole` job.
    """
    have = {*target.completed, *chosen}
    is_missing: dict[type, Callable[[AnyEntry], bool]] = {
        CheckpointCompleted: lambda entry: _is_new_checkpoint(entry, target, chosen),
        CheckpointCorrupt: lambda entry: _abandons_more(entry, source, target, have),
        CheckpointRepaired: lambda entry: _takes_up_again(entry, source, target),
        WentBack: lambda entry: _goes_back(entry, source, target, have),
    }
    if whole:
        renames = _renames(source, target, have)
        failures = {_failure(failed) for failed in target.failed}
        is_missing[SavepointNamed] = is_missing[SavepointDeleted] = lambda entry: entry in renames
        is_missing[CheckpointFailedEntry] = lambda entry: _failure(entry) not in failures
    found = [entry for _, entry in source.sequences if type(entry) in is_missing and is_missing[type(entry)](entry)]
    if not whole:
        # A single checkpoint is copied with its current name, not with the name it was taken with.
        found = [source.completed[e.id] if isinstance(e, CheckpointCompleted) else e for e in found]
    return [*found, *_last_word(source, target, found), *taken_id(source, target, found)]


def _is_new_checkpoint(entry: AnyEntry, target: JobState, chosen: Collection[CheckpointId]) -> bool:
    assert isinstance(entry, CheckpointCompleted)
    return entry.id in chosen and entry.id not in target.completed


def _abandons_more(entry: AnyEntry, source: JobState, target: JobState, have: Collection[CheckpointId]) -> bool:
    assert isinstance(entry, CheckpointCorrupt)
    abandoned = entry.passed_over and entry.id in source.abandoned
    return abandoned and entry.id in have and entry.id not in target.abandoned


def _takes_up_again(entry: AnyEntry, source: JobState, target: JobState) -> bool:
    assert isinstance(entry, CheckpointRepaired)
    return entry.returns and entry.id in target.abandoned and entry.id not in source.abandoned


def _goes_back(entry: AnyEntry, source: JobState, target: JobState, have: Collection[CheckpointId]) -> bool:
    """The last ones count even if the copy has none of the abandoned checkpoints: they record which request was
    done."""
    assert isinstance(entry, WentBack)
    if any(id in have and id not in target.abandoned for id in entry.abandoned):
        return True
    if entry is source.went_back_for_a_start and not _is_same(entry, target.went_back_for_a_start):
        return True
    return entry is source.went_back and not _is_same(entry, target.went_back)


def _last_word(source: JobState, target: JobState, found: list[AnyEntry]) -> Iterator[AnyEntry]:
    """An older request that is appended again must not be the last one."""
    requests = [entry for entry in found if isinstance(entry, WentBack)]
    last = requests[-1] if requests else target.went_back
    if source.went_back is not None and not _is_same(source.went_back, last):
        yield source.went_back


def taken_id(source: JobState, target: JobState, found: list[AnyEntry]) -> Iterator[AnyEntry]:
    """The copy never reuses an id that the source has used, even if that checkpoint was aborted, or is among `found`
    and cannot be copied."""
    known = [entry.id for entry in found if isinstance(entry, CheckpointCompleted)]
    if source.last_checkpoint <= max([target.last_checkpoint, *known]):
        return
    id = source.last_checkpoint
    if id in source.started:
        yield source.started[id]
    elif id in source.completed:
        yield _start_of(source.completed[id])


def _start_of(entry: CheckpointCompleted) -> CheckpointStarted:
    same = ("sequence", "attempt", "fencing_epoch", "id", "checkpoint_kind", "name", "barrier_batch_id")
    fields = {name: getattr(entry, name) for name in same}
    return CheckpointStarted(**fields, at=entry.triggered_at)


def _renames(source: JobState, target: JobState, have: Collection[CheckpointId]) -> list[Rename]:
    """The source's newest entry about each checkpoint's name, unless the copy has it already: then the current name was
    decided in the copy."""
    last: dict[CheckpointId, Rename] = {}
    for _, entry in source.sequences:
        if isinstance(entry, SavepointNamed | SavepointDeleted) and entry.id in have:
            last[entry.id] = entry
    heard = {_rename(entry) for _, entry in target.sequences if isinstance(entry, SavepointNamed | SavepointDeleted)}
    return [entry for entry in last.values() if _rename(entry) not in heard and not _is_named_so(entry, target)]


def _is_named_so(entry: Rename, target: JobState) -> bool:
    there = target.completed.get(entry.id)
    wanted = entry.name if isinstance(entry, SavepointNamed) else None
    return there is not None and there.name == wanted


def _rename(entry: Rename) -> tuple[object, ...]:
    return (type(entry), entry.id, entry.name, entry.at)


def _failure(entry: AnyEntry) -> tuple[object, ...]:
    assert isinstance(entry, CheckpointFailedEntry)
    return (entry.id, entry.triggered_at)


def _is_same(one: WentBack, other: WentBack | None) -> bool:
    return other is not None and (one.chosen, one.abandoned, one.asked, one.at) == (
        other.chosen,
        other.abandoned,
        other.asked,
        other.at,
    )


def to_retire(source: JobState, target: JobState, *, whole: bool) -> tuple[CheckpointId, ...]:
    """Checkpoints that the source does not keep any more, but only if a newer one stays: a source that lost its
    checkpoints must not delete the copies. Also, whatever is copied, checkpoints on a timeline that the source
    abandoned."""
    entries = [entry for entry in _kept_here_only(source, target) if entry.checkpoint_kind == "checkpoint"]
    return tuple(entry.id for entry in entries if whole or _is_on_abandoned_timeline(source, entry.id))


def to_unname(source: JobState, target: JobState) -> list[CheckpointCompleted]:
    """Savepoints that the source deleted and retired so long ago that its journal does not mention them. A savepoint
    that was named in the copy stays."""
    brought = {
        (entry.id, entry.name)
        for _, entry in target.sequences
        if (isinstance(entry, CheckpointCompleted) and entry.name)
        or (isinstance(entry, SavepointNamed) and _is_replayed(entry, target))
    }
    return [entry for entry in _kept_here_only(source, target) if (entry.id, entry.name) in brought]


def _is_replayed(entry: SavepointNamed, target: JobState) -> bool:
    """Only the command that copies a whole job claims it with a retention, which is the source's."""
    writers = [run for run in target.runs if run.fencing_epoch == entry.fencing_epoch]
    return any(run.purpose == "maintenance" and run.retention is not None for run in writers)


def _kept_here_only(source: JobState, target: JobState) -> list[CheckpointCompleted]:
    retained = {entry.id for entry in source.retained()}
    newest = max((entry.id for entry in target.restorable() if entry.id in retained), default=0)
    here_only = [entry for entry in target.retained() if entry.id not in retained]
    return [entry for entry in here_only if entry.id < newest or _is_on_abandoned_timeline(source, entry.id)]


def _is_on_abandoned_timeline(source: JobState, id: CheckpointId) -> bool:
    """For a checkpoint that the source retired before it abandoned the timeline, so that no entry names it."""
    for _, entry in source.sequences:
        if isinstance(entry, WentBack) and entry.chosen < id < max(entry.abandoned, default=0):
            return True
    passed_over, left = source.passed_over, source.restorable()
    newest = max(source.completed, default=0)
    return newest in passed_over and bool(left) and left[0].id < id < newest


def as_copied(entry: AnyEntry) -> AnyEntry:
    """The entry for another journal, which has other numbers. `at` stays: it is the time of the decision."""
    return msgspec.structs.replace(entry, head=None) if isinstance(entry, CheckpointFailedEntry) else entry


def decision_text(entry: AnyEntry) -> str | None:
    """The decision in words, None when it is reported elsewhere."""
    match entry:
        case WentBack():
            return f"went back to checkpoint {entry.chosen}, as asked: {entry.asked}"
        case CheckpointCorrupt():
            return f"passed over checkpoint {entry.id}"
        case CheckpointRepaired():
            return f"took checkpoint {entry.id} again, which had been passed over"
        case SavepointNamed():
            return f"named checkpoint {entry.id} {entry.name!r}"
        case SavepointDeleted():
            return f"deleted savepoint {entry.name!r}"
    return None
