"""What a copy of a job lacks of its source's decisions. Pure: two states in, entries out.

A copy resumes where its source would only if it knows what the source decided: which checkpoints completed, which lines
of batches were abandoned, what was named, deleted and retired, which ids are taken. Each such entry is appended at the
target in the source's order, once: it is recognised by what it says and when it was said.

That bytes were found damaged, or were repaired, is no decision: it is about bytes in one home, and a copy has its own.
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

    Of completed checkpoints only the `chosen` ones. What abandons a line of batches always comes too; names, deletions
    and the history of failures only with the `whole` job.
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
        # One checkpoint is taken as what it is now, whatever it was made as.
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
    """The last one counts even if the copy has nothing that it abandoned: it says which request was carried out."""
    assert isinstance(entry, WentBack)
    if any(id in have and id not in target.abandoned for id in entry.abandoned):
        return True
    return entry is source.went_back and not _is_same(entry, target.went_back)


def _last_word(source: JobState, target: JobState, found: list[AnyEntry]) -> Iterator[AnyEntry]:
    """An older request that had to be appended again must not be the last one."""
    requests = [entry for entry in found if isinstance(entry, WentBack)]
    last = requests[-1] if requests else target.went_back
    if source.went_back is not None and not _is_same(source.went_back, last):
        yield source.went_back


def taken_id(source: JobState, target: JobState, found: list[AnyEntry]) -> Iterator[AnyEntry]:
    """An id that the source has used, for a checkpoint that was perhaps aborted, is never used again by the copy, nor
    when the checkpoint among those `found` cannot be brought."""
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
    """The last word of the source about each checkpoint's name, unless the copy has heard it: then what it calls the
    checkpoint now was decided there."""
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
    """What the source does not keep any more. Only as long as something newer stays: a source that lost its checkpoints
    is no reason to lose the copies. And, whatever is copied, what lies on a line of batches that it abandoned."""
    entries = [entry for entry in _kept_here_only(source, target) if entry.checkpoint_kind == "checkpoint"]
    return tuple(entry.id for entry in entries if whole or _is_on_abandoned_timeline(source, entry.id))


def to_unname(source: JobState, target: JobState) -> list[CheckpointCompleted]:
    """Savepoints of the source that it has deleted and retired so long ago that its journal says nothing of them. One
    that was named in the copy stays."""
    brought = {
        (entry.id, entry.name)
        for _, entry in target.sequences
        if (isinstance(entry, CheckpointCompleted) and entry.name)
        or (isinstance(entry, SavepointNamed) and _is_replayed(entry, target))
    }
    return [entry for entry in _kept_here_only(source, target) if (entry.id, entry.name) in brought]


def _is_replayed(entry: SavepointNamed, target: JobState) -> bool:
    """Of all commands, only the copy of a whole job claims it with a retention, which is the source's."""
    writers = [run for run in target.runs if run.fencing_epoch == entry.fencing_epoch]
    return any(run.purpose == "maintenance" and run.retention is not None for run in writers)


def _kept_here_only(source: JobState, target: JobState) -> list[CheckpointCompleted]:
    retained = {entry.id for entry in source.retained()}
    newest = max((entry.id for entry in target.restorable() if entry.id in retained), default=0)
    here_only = [entry for entry in target.retained() if entry.id not in retained]
    return [entry for entry in here_only if entry.id < newest or _is_on_abandoned_timeline(source, entry.id)]


def _is_on_abandoned_timeline(source: JobState, id: CheckpointId) -> bool:
    """Of a checkpoint that the source had retired before it gave that line up, so that no entry names it."""
    for _, entry in source.sequences:
        if isinstance(entry, WentBack) and entry.chosen < id < max(entry.abandoned, default=0):
            return True
    passed_over, left = source.passed_over, source.restorable()
    newest = max(source.completed, default=0)
    return newest in passed_over and bool(left) and left[0].id < id < newest


def as_copied(entry: AnyEntry) -> AnyEntry:
    """The entry as it may stand in another journal, where numbers are others. `at` stays: it says when it happened."""
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
