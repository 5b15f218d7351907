"""Looks at what a home holds of a job, for whoever is going to collect."""

from collections.abc import Iterator, Mapping

from holdfast.checkpoint.manifest import Manifest, decode_manifest, manifest_key
from holdfast.errors import Corrupt, ObjectNotFound, StorageUnreachable
from holdfast.identifiers import CheckpointId
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.retention import keys_of
from holdfast.repository.state import JobState
from holdfast.storage.interface import ObjectStore, StoredObject


def listed_objects(store: ObjectStore) -> Iterator[StoredObject]:
    """Every blob and pack."""
    for prefix in ("blobs/", "packs/"):
        yield from store.list(prefix)


def retired_keys(store: ObjectStore, state: JobState, left: Mapping[CheckpointId, float]) -> dict[str, float]:
    """What the checkpoints in `left` name, each key with the longest time that is left to one of them."""
    keys: dict[str, float] = {}
    for id, seconds in left.items():
        entry = state.completed.get(id)
        manifest = _retired_manifest(store, entry) if entry is not None else None
        if entry is not None and manifest is not None:
            for key in keys_of(entry, manifest):
                keys[key] = max(seconds, keys.get(key, 0.0))
    return keys


def _retired_manifest(store: ObjectStore, entry: CheckpointCompleted) -> Manifest | None:
    """None when it is gone: nobody can be reading the checkpoint then.

    One that comes wrong is an error that passes, with the grace at the latest.
    """
    try:
        return decode_manifest(store.get(manifest_key(entry.manifest)), entry.manifest)
    except ObjectNotFound:
        return None
    except Corrupt as error:
        raise StorageUnreachable(f"could not read what checkpoint {entry.id} names: {error.message}") from error
