"""Deletes entries that a fold replaces. Called by the owner of the job, or by the owner at the time when the fold
became official."""

from collections.abc import Callable
from itertools import islice

from holdfast.identifiers import Sequence
from holdfast.repository.chain import sequence_of
from holdfast.repository.entries import CHAINED_SINCE, AnyEntry
from holdfast.repository.names import FOLDS, JOURNAL, is_entry, is_fold
from holdfast.repository.state import JobState
from holdfast.storage.interface import ObjectStore


def guard_of(state: JobState) -> Sequence | None:
    """The claim that follows the last entry of format 1, while the journal holds both.

    A run of a version without folds that stalled does not check its predecessor: it appends at any free place. So the
    place after its newest entry stays taken. That claim is never a run's newest entry: the run that wrote it appends a
    second claim before it continues (`Journal.claim`).
    """
    before: AnyEntry | None = None
    for sequence, entry in tuple(state.sequences):
        if entry.format >= CHAINED_SINCE:
            return sequence if before is not None else None
        before = entry
    return None


def clear_folded(
    store: ObjectStore,
    upto: Sequence,
    limit: int | None = None,
    guard: Sequence | None = None,
    prove: Callable[[], None] = lambda: None,
) -> bool:
    """Delete entries up to `upto`, which an official fold replaces, then older folds. True when none is left. Deletes
    at most `limit` entries and keeps the entry `guard`. `prove` is called before each deletion.

    Deletes nothing if that fold is missing: then this is not the home in which it became official. Deletes in ascending
    order, one after the other: if a place is empty, the place before it is empty too. By this a run that stalled
    recognizes that it is fenced.
    """
    entries = {item.key: sequence_of(item.key) for item in store.list(JOURNAL) if is_entry(item.key)}
    keys = [key for key, sequence in entries.items() if sequence <= upto and sequence != guard]
    folds = {item.key: sequence_of(item.key) for item in store.list(FOLDS) if is_fold(item.key)}
    if max(folds.values(), default=0) < upto:
        return True
    keys += [key for key, sequence in folds.items() if sequence < upto]
    for key in islice(keys, limit):
        prove()
        store.delete(key)
    return limit is None or len(keys) <= limit
