"""Whether a job may go on with a directory, compared with what the home has of it. Nothing is written.

The history of a directory is its batches: `offsets/N` says what batch N reads. A checkpoint of the job belongs to it
when the directory still has the offsets that the checkpoint ends with, and has committed them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.checkpoint.manifest import Manifest, digest_of
from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, Digest, JobName
from holdfast.job_log import log
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.state import JobState
from holdfast.runtime.protecting.watching import another_query
from holdfast.workdir.interface import WorkDirectory

ManifestOf = Callable[[CheckpointCompleted], Manifest]


@dataclass(frozen=True)
class FoundDirectory:
    """The directory, as it was found at the start."""

    files: WorkDirectory
    query: str
    barrier: BatchId
    """The newest committed batch."""
    metadata: Digest
    """Of the file that names the query."""


@dataclass(frozen=True)
class Fit:
    newest: CheckpointCompleted | None
    """The checkpoint behind which the job goes on; None for a job without any."""
    left: CheckpointCompleted | None = None
    """The newest checkpoint of the history that the user leaves; None when none is left."""


def fit(job: JobName, state: JobState, found: FoundDirectory, manifest_of: ManifestOf, *, accept_older: bool) -> Fit:
    """Raises `Conflict` when the directory is not one with which the job goes on."""
    _require_no_pipeline(job, state, found)
    newest = state.newest_of_the_line()
    if newest is None:
        return Fit(None)
    manifest = manifest_of(newest)
    if _digest_in(manifest, "metadata") != found.metadata:
        raise another_query(job, found.files.location, manifest.spark.get("query", "another one"), found.query)
    if _has(found, manifest) is not False:
        return Fit(newest)
    if not accept_older:
        raise _older(job, newest, found)
    held = (entry for entry in state.restorable() if _has(found, manifest_of(entry)))
    if (shared := next(held, None)) is None:
        raise _nothing_shared(job, found)
    return Fit(shared, left=newest)


def _require_no_pipeline(job: JobName, state: JobState, found: FoundDirectory) -> None:
    for run in state.runs:
        end = state.ends.get(run.fencing_epoch)
        if run.purpose == "pipeline" and not run.protects and not (end is not None and end.never_ran):
            raise Conflict(
                f"could not protect {found.files.location} as job {job!r}: holdfast has run that job itself, last on "
                f"{run.host}, pid {run.pid}: its own runs take its checkpoints",
                hint="protect the directory under a name of its own: --job NAME",
            )


def _has(found: FoundDirectory, manifest: Manifest) -> bool | None:
    """None when the directory does not tell any more: Spark deletes the offsets of old batches."""
    barrier = manifest.barrier_batch_id
    if found.barrier < barrier:
        return False
    try:
        offsets = found.files.read(f"offsets/{barrier}")
    except FileNotFoundError:
        log.info("%s no longer has batch %s: it is taken for the same history", found.files.location, barrier)
        return None
    return digest_of(offsets) == _digest_in(manifest, f"offsets/{barrier}")


def _digest_in(manifest: Manifest, path: str) -> str | None:
    return next((file.digest for file in manifest.files() if file.path == path), None)


def _older(job: JobName, newest: CheckpointCompleted, found: FoundDirectory) -> Conflict:
    batch = newest.barrier_batch_id
    why = f"ends with batch {found.barrier}" if found.barrier < batch else f"has another batch {batch}"
    return Conflict(
        f"could not protect {found.files.location} as job {job!r}: checkpoint {newest.id} was taken at batch "
        f"{batch}, and the directory {why}: it is an older copy, or was restored from an older checkpoint",
        hint=f"put the newest state there: holdfast restore {job} DIR; or, if the query is to go on from this one: "
        "--accept-older-directory, once, which leaves the newer checkpoints",
    )


def _nothing_shared(job: JobName, found: FoundDirectory) -> Conflict:
    return Conflict(
        f"could not protect {found.files.location} as job {job!r}: none of its checkpoints is of this directory's "
        "history",
        hint="protect it under a name of its own: --job NAME",
    )
