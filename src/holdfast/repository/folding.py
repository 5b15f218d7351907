"""Deletes what a fold stands for, by whoever owns the job or did when the fold became official."""

from itertools import islice

from holdfast.identifiers import Sequence
from holdfast.repository.chain import sequence_of
from holdfast.repository.names import FOLDS, JOURNAL, is_entry, is_fold
from holdfast.storage.interface import ObjectStore


def clear_folded(store: ObjectStore, upto: Sequence, limit: int | None = None) -> bool:
    """Delete entries up to `upto`, of which an official fold holds what is needed, then older folds. True when none is
    left; `limit` is how many at most.

    Nothing is deleted where that fold is not: then this is not the home in which it became official.
    In ascending order, each before the next is tried: whoever finds a place empty may conclude that the one before it
    is empty too, by which a run that slept recognises that it is fenced.
    """
    keys = [item.key for item in store.list(JOURNAL) if is_entry(item.key) and sequence_of(item.key) <= upto]
    folds = {item.key: sequence_of(item.key) for item in store.list(FOLDS) if is_fold(item.key)}
    if max(folds.values(), default=0) < upto:
        return True
    keys += [key for key, sequence in folds.items() if sequence < upto]
    for key in islice(keys, limit):
        store.delete(key)
    return limit is None or len(keys) <= limit
