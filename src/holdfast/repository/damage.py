"""How the owner of a job handles damage: it repairs what it can, marks the rest, and clears old marks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.checkpoint.manifest import Manifest, decode_manifest, manifest_key
from holdfast.checkpoint.packed_plans import is_packed_plans
from holdfast.errors import Corrupt, NewerFormat, ObjectNotFound
from holdfast.identifiers import BatchId, CheckpointId
from holdfast.repository.entries import CheckpointCompleted, CheckpointCorrupt, CheckpointRepaired
from holdfast.repository.inventory import objects_of
from holdfast.repository.journal import Journal
from holdfast.repository.repair import LocalFiles, Repair
from holdfast.repository.verification import CorruptObject, verify
from holdfast.storage.interface import ObjectStore


@dataclass(frozen=True)
class DamageHandled:
    repaired: Mapping[str, str]
    """Key → where its bytes were found."""
    marked: tuple[CheckpointId, ...]
    """Found damaged; recovery does not choose them any more."""
    cleared: tuple[CheckpointId, ...]
    """Marked earlier, and intact again."""


def mark_corrupt(
    journal: Journal,
    id: CheckpointId,
    detail: str,
    *,
    passed_over: bool,
    published: BatchId | None = None,
    refused: bool = False,
) -> None:
    """`published`: the newest published batch, if known. `refused`: Spark could not read it although its bytes are
    right."""
    journal.append(
        lambda stamp: CheckpointCorrupt(
            **stamp,
            id=id,
            detail=detail,
            passed_over=passed_over,
            published=published,
            refused=refused,
        )
    )


def mark_repaired(journal: Journal, id: CheckpointId, detail: str, *, returns: bool = False) -> None:
    journal.append(lambda stamp: CheckpointRepaired(**stamp, id=id, detail=detail, returns=returns))


def load_manifest(store: ObjectStore, entry: CheckpointCompleted) -> Manifest:
    """Reads twice before it reports damage: a wrong read does not prove wrong bytes in the store. Raises `Corrupt` also
    when the manifest is missing, because the journal says that it exists."""
    key = manifest_key(entry.manifest)
    try:
        try:
            return decode_manifest(store.get(key), entry.manifest)
        except Corrupt:
            return decode_manifest(store.get(key), entry.manifest)
    except ObjectNotFound as error:
        raise Corrupt(f"could not read {key}: it is missing") from error


def readable_manifests(store: ObjectStore, entries: Sequence[CheckpointCompleted]) -> dict[CheckpointId, Manifest]:
    """Omits manifests that are missing, damaged or of a newer version: which objects they name is unknown here."""
    manifests = {}
    for entry in entries:
        try:
            manifests[entry.id] = load_manifest(store, entry)
        except (Corrupt, NewerFormat):
            continue
    return manifests


def checkpoints_naming(
    damage: Mapping[str, str], retained: Sequence[CheckpointCompleted], manifests: Mapping[CheckpointId, Manifest]
) -> dict[CheckpointId, str]:
    """Every checkpoint that cannot be restored without a damaged key, with its first damage.

    Not only the verified one: the next checkpoint reuses objects of any undamaged one.
    """
    found = {}
    for entry in retained:
        if wrong := sorted(_needed_by(entry, manifests.get(entry.id)) & damage.keys()):
            found[entry.id] = damage[wrong[0]]
    return found


def _needed_by(entry: CheckpointCompleted, manifest: Manifest | None) -> frozenset[str]:
    """Where only plans are is left out: nearly every checkpoint names the same ones, and is restored without them."""
    files = manifest.files() if manifest else ()
    return frozenset({manifest_key(entry.manifest), *(file.key for file in files if not is_packed_plans(file.path))})


def handle_damage(
    store: ObjectStore,
    journal: Journal,
    found: Sequence[CorruptObject],
    directories: Sequence[LocalFiles],
    *,
    repair: bool,
) -> DamageHandled:
    """Handle what a verification found, as owner of the job. Marks earlier damage that is gone as repaired."""
    retained = journal.state.retained()
    manifests = readable_manifests(store, retained)
    damage = {item.key: f"{item.path}: expected {item.expected}, found {item.found}" for item in found}
    whole = {item.key for item in found if item.key == item.path}
    repaired = {}
    if repair:
        objects = objects_of(manifests)
        repairing = Repair(store, objects, directories)
        for key in sorted(whole & objects.keys()):
            if where := repairing.put_right(objects[key]):
                repaired[key] = where
    left = {key: detail for key, detail in damage.items() if key not in repaired}
    marked = checkpoints_naming(left, retained, manifests)
    for id, detail in marked.items():
        if id not in journal.state.corrupt:
            mark_corrupt(journal, id, detail, passed_over=False)
    return DamageHandled(repaired, tuple(marked), _clear(store, journal, [e for e in retained if e.id not in marked]))


def _clear(store: ObjectStore, journal: Journal, entries: Sequence[CheckpointCompleted]) -> tuple[CheckpointId, ...]:
    """Damaged checkpoints that were never passed over and now verify without damage."""
    state = journal.state
    candidates = [entry for entry in entries if entry.id in state.corrupt and entry.id not in state.passed_over]
    sound = [entry.id for entry in candidates if verify(store, entry.id, entry.manifest).sound]
    for id in sound:
        mark_repaired(journal, id, "every byte was read and is right again")
    return tuple(sound)
