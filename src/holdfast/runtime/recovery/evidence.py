"""Whether a work directory still holds the bytes of its checkpoint, and what follows when Spark cannot read it.

An error while reading is a reason to look, not a verdict: what cannot be read now may be intact. A directory whose
bytes differ from the manifest is set aside, and the same checkpoint is restored. A checkpoint is damaged when its bytes
in the home are wrong, or missing by two witnesses, or when Spark refuses them twice although they are right.
"""

from __future__ import annotations

from enum import Enum, auto

from blake3 import blake3

from holdfast.checkpoint.manifest import Manifest, ManifestFile
from holdfast.checkpoint.relocation import names_places
from holdfast.errors import StorageUnreachable
from holdfast.runtime.ports import RunDirectory

_OURS = ("ledger/", "query/")
"""holdfast changes what it keeps there; Spark does not read it."""
REFUSALS = 2
"""So often must Spark refuse what is proved to be the checkpoint's before that proves the checkpoint unreadable."""


class Verdict(Enum):
    KEEP = auto()
    """Nothing is wrong with the directory, as far as can be known: try it again."""
    SET_ASIDE = auto()
    """The directory is to blame, or may be. Its checkpoint is not."""
    CHECKPOINT = auto()
    """The checkpoint itself cannot be read by Spark, right as its bytes are."""


def verdict(*, found_wrong: bool, different: bool, covered: bool, restored: bool, refusals: int) -> Verdict:
    """`found_wrong`: Spark says that it read something wrong. `covered`: every file of the directory's barrier was
    compared, else some are newer than the checkpoint. `refusals`: how often Spark has refused these bytes."""
    if different:
        return Verdict.SET_ASIDE
    if not covered:
        # What is newer than the checkpoint cannot be proved; without it nothing is lost that readers have seen.
        return Verdict.SET_ASIDE if found_wrong or refusals >= REFUSALS else Verdict.KEEP
    if not found_wrong:
        return Verdict.KEEP
    return Verdict.CHECKPOINT if restored and refusals >= REFUSALS else Verdict.SET_ASIDE


def difference(directory: RunDirectory, manifest: Manifest) -> str | None:
    """The first file that is not as the manifest says, None when there is none. Raises `StorageError` when that cannot
    be told.

    A directory that has gone on since may have lost files of the checkpoint in the usual way.
    """
    barrier = directory.newest_barrier()
    if barrier is None:
        raise StorageUnreachable(
            f"could not look at {directory.location}: it holds no batch any more", hint="is its disk mounted?"
        )
    same_barrier = barrier == manifest.barrier_batch_id
    for file in manifest.files():
        if names_places(file.path) or file.path.startswith(_OURS):
            continue
        found = _digest(directory, file)
        if found is None and same_barrier:
            return f"{file.path} is missing"
        if found is not None and found != file.digest:
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
