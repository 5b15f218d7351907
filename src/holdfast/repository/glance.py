"""A cheap check of the checkpoints that a start may resume from: do their objects exist? Reads none of their bytes.

It finds deleted and truncated objects. `holdfast verify` and the scrub find wrong bytes.
"""

from collections.abc import Iterator, Mapping

from holdfast.checkpoint.manifest import Manifest, manifest_key
from holdfast.errors import Corrupt, NewerFormat
from holdfast.identifiers import CheckpointId
from holdfast.repository.damage import load_manifest
from holdfast.repository.inventory import objects_of
from holdfast.repository.state import JobState
from holdfast.repository.survey import listed_manifests, listed_objects
from holdfast.storage.interface import ObjectStore, StoredObject

_ASKED_ONE_BY_ONE = 32


def found_damaged(store: ObjectStore, state: JobState) -> dict[CheckpointId, str]:
    """Damage of restorable checkpoints: of all whose manifest is gone, and of the newest ones up to the first that is
    complete. Raises `StorageError` when it cannot check them."""
    candidates = state.restorable()
    if not candidates:
        return {}
    listed = {item.key for item in listed_manifests(store)}
    damaged = {
        entry.id: f"{manifest_key(entry.manifest)} is gone"
        for entry in candidates
        if manifest_key(entry.manifest) not in listed and not store.exists(manifest_key(entry.manifest))
    }
    for entry in candidates:
        if entry.id in damaged:
            continue
        try:
            why = _first_wrong(store, load_manifest(store, entry))
        except Corrupt as error:
            why = error.message
        except NewerFormat:
            why = None
        if why is None:
            break
        damaged[entry.id] = why
    return damaged


def _first_wrong(store: ObjectStore, manifest: Manifest) -> str | None:
    objects = objects_of({manifest.checkpoint: manifest})
    there = _sizes(store, objects)
    for key, needed in objects.items():
        if key not in there:
            if not store.exists(key):
                return f"{key} is gone"
        elif there[key] < needed.size:
            return f"{key} has {there[key]} bytes of {needed.size}"
    return None


def _sizes(store: ObjectStore, objects: Mapping[str, object]) -> dict[str, int]:
    return {item.key: item.size for item in _listed(store, objects) if item.key in objects}


def _listed(store: ObjectStore, objects: Mapping[str, object]) -> Iterator[StoredObject]:
    if len(objects) > _ASKED_ONE_BY_ONE:
        yield from listed_objects(store)
    else:
        for key in objects:
            yield from store.list(key)
