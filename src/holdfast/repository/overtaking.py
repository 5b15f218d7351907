"""Whether another run has claimed the job since a state was read, for those that must then stop. Reads only."""

from holdfast.errors import Fenced, FencedByMaintenance, HomeReplaced, ObjectNotFound, StorageUnreachable
from holdfast.identifiers import Sequence
from holdfast.repository.absence import is_listed
from holdfast.repository.chain import entry_key, next_place, read_stored
from holdfast.repository.entries import RunStarted
from holdfast.repository.state import JobState
from holdfast.storage.interface import ObjectStore


def newer_run(store: ObjectStore, state: JobState) -> Fenced | None:
    """Names the run that has claimed the job since `state`, None when there is none. Reads only; thread-safe.

    Skips entries of the owner that are not in `state`: an append with an unknown outcome may exist, and the claim after
    it.
    """
    place = Sequence(state.head + 1)
    while True:
        try:
            entry = read_stored(store, entry_key(place)).entry
        except ObjectNotFound:
            return None
        if isinstance(entry, RunStarted) and entry.sequence > state.fencing_epoch:
            return fenced_by(entry)
        if state.run is None or entry.claim != state.run.attempt:
            return None
        place = next_place(entry)


def require_unchanged(store: ObjectStore, state: JobState) -> None:
    """For callers that do not own the job. Raises `Fenced` when a run has claimed the job since `state`, and
    `HomeReplaced` when the newest entry of `state` is gone: then it came from another home."""
    if fenced := newer_run(store, state):
        raise fenced
    sequence, entry = state.sequences[-1]
    key = entry_key(sequence)
    try:
        standing = read_stored(store, key).entry
    except ObjectNotFound:
        if is_listed(store, key):
            raise StorageUnreachable(f"could not read {key}: it is listed, but reported as missing") from None
        standing = None
    if standing != entry:
        raise HomeReplaced(
            f"{store.url} is not the home that was read before: entry {sequence} of its journal is gone or differs",
            hint="check whether the home is mounted, or was restored from a backup; then try again",
        )


def fenced_by(entry: RunStarted) -> Fenced:
    """What a run raises that finds this claim behind its own."""
    return (Fenced if entry.purpose == "pipeline" else FencedByMaintenance)(owner_text(entry))


def owner_text(entry: RunStarted) -> str:
    who = "run" if entry.purpose == "pipeline" else "maintenance"
    at = entry.at.isoformat()
    return f"{who} {entry.fencing_epoch} on host {entry.host} (pid {entry.pid}) owns the job since {at}"
