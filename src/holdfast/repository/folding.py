"""Deletes what a fold stands for, by whoever owns the job or did when the fold became official."""

from itertools import islice

from holdfast.identifiers import Sequence
from holdfast.repository.chain import sequence_of
from holdfast.repository.entries import CHAINED_SINCE, AnyEntry
from holdfast.repository.names import FOLDS, JOURNAL, is_entry, is_fold
from holdfast.repository.state import JobState
from holdfast.storage.interface import ObjectStore


def guard_of(state: JobState) -> Sequence | None:
    """The claim behind the last entry of format 1, as long as the journal knows both.

    A run of a version before the folds that wakes up proves nothing: it believes in each place that it finds free. So
    the place behind its newest entry stays taken. Nobody has that claim as its newest entry: whoever made it has made
    another one behind it before it went on (`Journal.claim`).
    """
    before: AnyEntry | None = None
    for sequence, entry in tuple(state.sequences):
        if entry.format >= CHAINED_SINCE:
            return sequence if before is not None else None
        before = entry
    return None


def clear_folded(store: ObjectStore, upto: Sequence, limit: int | None = None, guard: Sequence | None = None) -> bool:
    """Delete entries up to `upto`, of which an official fold holds what is needed, then older folds. True when none is
    left; `limit` is how many at most. The entry `guard` stays.

    Nothing is deleted where that fold is not: then this is not the home in which it became official.
    In ascending order, each before the next is tried: whoever finds a place empty may conclude that the one before it
    is empty too, by which a run that slept recognises that it is fenced.
    """
    entries = {item.key: sequence_of(item.key) for item in store.list(JOURNAL) if is_entry(item.key)}
    keys = [key for key, sequence in entries.items() if sequence <= upto and sequence != guard]
    folds = {item.key: sequence_of(item.key) for item in store.list(FOLDS) if is_fold(item.key)}
    if max(folds.values(), default=0) < upto:
        return True
    keys += [key for key, sequence in folds.items() if sequence < upto]
    for key in islice(keys, limit):
        store.delete(key)
    return limit is None or len(keys) <= limit
