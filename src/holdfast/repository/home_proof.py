"""Proves that what a run wrote is still in its home, and withdraws what it wrote into another home in that place."""

from collections.abc import Set

from holdfast.checkpoint.manifest import digest_of
from holdfast.errors import DamagedJournal, Fenced, HomeReplaced, ObjectNotFound, StorageError, StorageUnreachable
from holdfast.repository.absence import is_listed
from holdfast.repository.chain import Chain, StoredFold, entry_key, read_chain, read_stored
from holdfast.repository.entry_bytes import StoredEntry
from holdfast.repository.names import FOLDS, JOURNAL
from holdfast.storage.interface import ObjectStore


def stands(store: ObjectStore, stored: StoredEntry) -> bool:
    """Whether the entry is in the home. False when a read and a listing agree that it is gone, or when another entry is
    there."""
    key = entry_key(stored.sequence)
    for _ in range(2):
        try:
            data = store.get(key)
        except ObjectNotFound:
            if is_listed(store, key):
                raise StorageUnreachable(f"could not read {key}: it is listed, but reported as missing") from None
            return False
        if digest_of(data) == stored.digest:
            return True
    return read_stored(store, key).digest == stored.digest  # raises when it is damaged


def is_whole(store: ObjectStore, keys: Set[str]) -> bool:
    """Whether all of a run's journal is there: a replaced home is this run's again, or is the one that the claim was
    based on. The newest entry alone does not prove that: a store that executes an append twice, or a run that has not
    noticed yet, may have written it into the home that replaced this one."""
    return keys <= {item.key for prefix in (JOURNAL, FOLDS) for item in store.list(prefix)}


def journal_without(void: StoredEntry | None, store: ObjectStore, readers: int, following: str) -> Chain:
    """The journal of this home, without `void` if it is not part of it. Then `void` is withdrawn, whichever run owns
    the job there: every reader would take an entry that does not follow its predecessor for damage.

    Without `void`, what stands under the key `following` may be what another thread of this run is appending at this
    moment: that thread withdraws it.
    """
    try:
        return read_chain(store, readers)
    except DamagedJournal:
        if void is None:
            return read_chain(store, readers, ignoring=following)
        try:
            chain = read_chain(store, readers, ignoring=entry_key(void.sequence))
        except DamagedJournal:
            withdraw(store, void)
            raise
        withdraw(store, void)
        return chain


def withdraw(store: ObjectStore, void: StoredEntry) -> None:
    """Delete it from a home that is not this run's, so that readers of its journal find no gap before it.

    Another entry may be there by now, if an unreachable home is reachable again.
    """
    key = entry_key(void.sequence)
    try:
        if store.get(key) == void.data:
            store.delete(key)
    except StorageError:
        return


def withdraw_fold(store: ObjectStore, fold: StoredFold) -> None:
    """A home with a fold and without entries would count as damaged."""
    try:
        if not any(store.list(JOURNAL)):
            store.delete(fold.key)
    except StorageError:
        return


def put_back(why: str) -> Fenced:
    return Fenced(f"the home was put back from a backup or replaced while this run wrote to it: {why}")


def home_replaced(store: ObjectStore, what: str) -> HomeReplaced:
    return HomeReplaced(
        f"{store.url} is not the home that this run has written to: it was emptied, replaced or put back; {what}",
        hint="put the home back as it was, or mount it again: the run goes on by itself; else stop the run",
    )


def what_is_there(chain: Chain) -> str:
    return f"its journal ends at entry {chain.tip.sequence}" if chain.tip else "it has no journal"
