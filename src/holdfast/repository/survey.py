"""Lists the objects of a job in its home, and plans which of them may be deleted. Reads only."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from holdfast.checkpoint.manifest import Manifest, decode_manifest, manifest_key
from holdfast.errors import Corrupt, NewerFormat, ObjectNotFound, StorageUnreachable
from holdfast.identifiers import CheckpointId, FencingEpoch
from holdfast.repository.absence import absent_among, proven_absent
from holdfast.repository.collection import (
    SparsePack,
    Unneeded,
    Why,
    is_of_earlier_run,
    sparse_packs,
    stale_temporaries,
    unneeded_objects,
)
from holdfast.repository.damage import readable_manifests
from holdfast.repository.entries import CheckpointCompleted, Retention
from holdfast.repository.lines import unneeded_plans
from holdfast.repository.names import (
    BLOBS,
    FOLDERS,
    MANIFESTS,
    PACKS,
    PLANS,
    is_blob_or_pack,
    is_foreign,
    is_manifest,
    is_plan,
)
from holdfast.repository.retention import checkpoints_to_retire, in_grace, keys_of
from holdfast.repository.state import JobState
from holdfast.storage.interface import ObjectStore, StoredObject


@dataclass(frozen=True)
class Found:
    """The objects that exist. A manifest's key does not name its writer, so a command that deletes must list before it
    claims."""

    objects: tuple[StoredObject, ...]
    manifests: tuple[StoredObject, ...]
    temporaries: tuple[StoredObject, ...]
    plans: tuple[StoredObject, ...] = ()
    foreign: tuple[StoredObject, ...] = ()
    """Objects with a name that holdfast never uses. They are reported and kept."""


@dataclass(frozen=True)
class CollectionPlan:
    retire: tuple[CheckpointId, ...]
    objects: tuple[Unneeded, ...]
    sparse: tuple[SparsePack, ...]
    """Packs that the running job is going to repack by itself."""
    unreadable: tuple[CheckpointId, ...]
    """Checkpoints whose manifest cannot be read. While there is one, no blob, pack or manifest is planned for
    deletion."""
    missing: tuple[str, ...] = ()
    """Keys that retained checkpoints name and the home has lost."""
    foreign: tuple[str, ...] = ()
    """Names that are none of holdfast's: never read, never deleted."""


def look(store: ObjectStore) -> Found:
    listed = [item for folder in FOLDERS for item in store.list(folder)]
    return Found(
        objects=tuple(item for item in listed if is_blob_or_pack(item.key)),
        manifests=tuple(item for item in listed if is_manifest(item.key)),
        temporaries=tuple(store.temporaries()),
        plans=tuple(item for item in listed if is_plan(item.key)),
        foreign=tuple(item for item in listed if is_foreign(item.key)),
    )


def listed_objects(store: ObjectStore) -> Iterator[StoredObject]:
    """Every blob and pack."""
    for prefix in (BLOBS, PACKS):
        yield from (item for item in store.list(prefix) if is_blob_or_pack(item.key))


def listed_manifests(store: ObjectStore) -> Iterator[StoredObject]:
    yield from (item for item in store.list(MANIFESTS) if is_manifest(item.key))


def listed_plans(store: ObjectStore) -> Iterator[StoredObject]:
    yield from (item for item in store.list(PLANS) if is_plan(item.key))


def plan_collection(
    store: ObjectStore,
    found: Found,
    state: JobState,
    rule: Retention | None,
    now: datetime,
    running: FencingEpoch | None = None,
) -> CollectionPlan:
    """Without a rule nothing is retired. Of the objects of a `running` run only those of retired checkpoints count:
    others that no manifest names may be in use."""
    retire = checkpoints_to_retire(state, rule) if rule is not None else ()
    kept = [entry for entry in state.retained() if entry.id not in retire]
    manifests = readable_manifests(store, kept)
    needed = {key for entry in kept if entry.id in manifests for key in keys_of(entry, manifests[entry.id])}
    retired = _retired(store, found, state, rule.grace_s if rule is not None else 0.0, now, retire)
    stored = [*found.objects, *found.manifests]
    if running is not None:
        stored = [item for item in stored if item.key in retired or is_of_earlier_run(item.key, running)]
    unreadable = tuple(entry.id for entry in kept if entry.id not in manifests)
    unneeded = [] if unreadable else [*unneeded_objects(stored, needed, retired)]
    unneeded += _plans(found, state, rule) if running is None else []
    return CollectionPlan(
        retire=retire,
        objects=(*unneeded, *stale_temporaries(found.temporaries, now.timestamp())),
        sparse=_sparse(found, kept, manifests),
        unreadable=unreadable,
        missing=tuple(sorted(absent_among(store, sorted(_missing(found, kept, manifests))))),
        foreign=tuple(item.key for item in found.foreign),
    )


def _plans(found: Found, state: JobState, rule: Retention | None) -> list[Unneeded]:
    """Plans of batches that no recovery repeats any more. A run deletes its own."""
    if rule is None:
        return []
    keys = unneeded_plans((item.key for item in found.plans), state, rule.retained)
    return [Unneeded(item.key, item.size, Why.RETIRED) for item in found.plans if item.key in keys]


def _missing(
    found: Found, kept: list[CheckpointCompleted], manifests: Mapping[CheckpointId, Manifest]
) -> frozenset[str]:
    """Keys that kept checkpoints name and the listing does not show."""
    named = frozenset(file.key for entry in kept if entry.id in manifests for file in manifests[entry.id].files())
    return named - {item.key for item in found.objects}


def _retired(
    store: ObjectStore,
    found: Found,
    state: JobState,
    grace_s: float,
    now: datetime,
    retire: tuple[CheckpointId, ...],
) -> dict[str, float]:
    """Keys that retired checkpoints name, and those about to be retired, as far as their manifests still exist."""
    there = {item.key for item in found.manifests}
    left = dict.fromkeys(retire, grace_s)
    graced = in_grace(state, grace_s, now)
    for id in state.retired:
        if id in state.completed and manifest_key(state.completed[id].manifest) in there:
            left[id] = graced.get(id, 0.0)
    return retired_keys(store, state, left)


def _sparse(
    found: Found, kept: list[CheckpointCompleted], manifests: Mapping[CheckpointId, Manifest]
) -> tuple[SparsePack, ...]:
    newest = next((manifests[entry.id] for entry in reversed(kept) if entry.id in manifests), None)
    if newest is None:
        return ()
    sizes = {item.key: item.size for item in found.objects if item.key.startswith("packs/")}
    savepoints = [entry for entry in kept if entry.name and entry.id in manifests]
    pinned = {key for entry in savepoints for key in keys_of(entry, manifests[entry.id])}
    return sparse_packs(newest, sizes, pinned)


def retired_keys(store: ObjectStore, state: JobState, left: Mapping[CheckpointId, float]) -> dict[str, float]:
    """Keys that the checkpoints in `left` name, each with the longest time left to one of them.

    A missing or damaged manifest protects nothing, since no restore can use it. During the grace, however, a wrong read
    may succeed the next time, so this raises `StorageUnreachable`, at the latest until the grace ends. For a manifest
    of a newer version it always does: the manifest is intact, and only that version can read it.
    """
    keys: dict[str, float] = {}
    for id, seconds in left.items():
        entry = state.completed.get(id)
        if entry is None:
            continue
        try:
            named = keys_of(entry, decode_manifest(store.get(manifest_key(entry.manifest)), entry.manifest))
        except ObjectNotFound as error:
            if proven_absent(store, manifest_key(entry.manifest)):
                continue
            raise StorageUnreachable(f"could not read what checkpoint {id} names: {error.message}") from error
        except NewerFormat as error:
            raise StorageUnreachable(f"could not tell what checkpoint {id} names: {error.message}") from error
        except Corrupt as error:
            if seconds <= 0 or id not in state.retired:
                continue
            raise StorageUnreachable(f"could not read what checkpoint {id} names: {error.message}") from error
        for key in named:
            keys[key] = max(seconds, keys.get(key, 0.0))
    return keys
