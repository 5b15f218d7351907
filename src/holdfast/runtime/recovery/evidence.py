"""Whether a work directory still has the bytes of its checkpoint, and what follows when Spark cannot read it.

A read error is a reason to check, not proof: what cannot be read now may be intact. A directory whose bytes differ from
the manifest is set aside, and the same checkpoint is restored. A checkpoint is damaged when its bytes in the home are
wrong, when both a read and a listing miss them, or when Spark refuses them twice although they are right.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from blake3 import blake3

from holdfast.checkpoint.manifest import Manifest, ManifestFile
from holdfast.checkpoint.relocation import names_places
from holdfast.errors import StorageUnreachable
from holdfast.runtime.ports import RunDirectory

_OURS = ("ledger/", "query/", "plans/")
"""holdfast changes its own files there; Spark does not read them."""
REFUSALS = 2
"""How often Spark must refuse bytes that are proved right before their checkpoint counts as unreadable."""


class Verdict(Enum):
    KEEP = auto()
    """As far as can be determined, nothing is wrong with the directory: try it again."""
    SET_ASIDE = auto()
    """The directory is damaged, or may be. Its checkpoint is not."""
    CHECKPOINT = auto()
    """Spark cannot read the checkpoint itself, although its bytes are right."""


def verdict(*, found_wrong: bool, different: bool, covered: bool, restored: bool, refusals: int) -> Verdict:
    """`found_wrong`: Spark reports that it read wrong data. `covered`: every file of the directory's barrier was
    compared; otherwise some are newer than the checkpoint. `refusals`: how often Spark has refused these bytes."""
    if different:
        return Verdict.SET_ASIDE
    if not covered:
        # What is newer than the checkpoint cannot be verified; without it, nothing that readers have seen is lost.
        return Verdict.SET_ASIDE if found_wrong or refusals >= REFUSALS else Verdict.KEEP
    if not found_wrong:
        return Verdict.KEEP
    return Verdict.CHECKPOINT if restored and refusals >= REFUSALS else Verdict.SET_ASIDE


def difference(
    directory: RunDirectory, manifest: Manifest, is_our_id: Callable[[bytes], bool] = lambda metadata: False
) -> str | None:
    """The first file that differs from the manifest, None when there is none. Raises `StorageError` when that cannot be
    determined. `is_our_id` says whether Spark's file `metadata` has the id that holdfast has put there.

    In a directory in which later batches ran, Spark may have deleted files of the checkpoint as usual.
    """
    barrier = directory.newest_barrier()
    if barrier is None:
        raise StorageUnreachable(
            f"could not look at {directory.location}: it no longer holds a batch", hint="is its disk mounted?"
        )
    same_barrier = barrier == manifest.barrier_batch_id
    for file in manifest.files():
        if names_places(file.path) or file.path.startswith(_OURS):
            continue
        found = _digest(directory, file)
        if found is None and same_barrier:
            return f"{file.path} is missing"
        if found is not None and found != file.digest:
            if file.path == "metadata" and is_our_id(directory.read(file.path)):
                continue
            return f"{file.path} should have digest {file.digest}, found {found}"
    return None


def _digest(directory: RunDirectory, file: ManifestFile) -> str | None:
    hasher = blake3()
    try:
        for piece in directory.pieces(file.path):
            hasher.update(piece)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageUnreachable(f"could not read {directory.location}/{file.path}: {error}") from error
    return hasher.hexdigest()
