"""Makes a checkpoint of a directory in which plain Spark keeps a query: the query becomes a job.

The directory is only read. It must be at rest: nobody may plan or commit a batch while it is copied, and the first
start of the job looks again (`runtime/run/original.py`). A batch that is planned there and not committed is part of the
checkpoint. Spark repeats it with the same rows, so a sink that has it already skips it, and loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from holdfast.checkpoint.layout import SnapshotPlan
from holdfast.checkpoint.query_facts import QueryFacts
from holdfast.errors import Conflict, Corrupt, InvalidSettings, NotFound
from holdfast.identifiers import BatchId, CheckpointId
from holdfast.plans.query_id import query_id
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import Adopted
from holdfast.repository.state import JobState
from holdfast.runtime.commands.copying import JobHome
from holdfast.runtime.commands.maintenance import maintenance
from holdfast.runtime.commands.recording import Progress, begun, completed, copied
from holdfast.runtime.run.environment import Environment
from holdfast.runtime.work_marker import read_marker
from holdfast.snapshot.carrier import ShardCopy, ShardDeclined
from holdfast.storage.durable import storage_errors
from holdfast.workdir import barriers
from holdfast.workdir.interface import WorkDirectory
from holdfast.workdir.query_record import held_facts
from holdfast.workdir.soundness import damage

_LOGS = ("offsets", "commits")


@dataclass(frozen=True)
class Original:
    """A checkpoint directory of plain Spark, as it was found."""

    directory: WorkDirectory
    query: str
    """The id by which sinks know its batches."""
    barrier: BatchId
    """The newest committed batch."""
    planned: BatchId
    """The newest planned batch: the barrier, or the one after it."""
    plan: SnapshotPlan
    facts: QueryFacts
    logs: frozenset[str]
    """The entries of its logs. They change with every batch."""

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.plan.files())

    @property
    def partitions(self) -> int:
        """State stores: the shards without the one of the logs."""
        return len(self.plan.shards) - 1


def examine(directory: WorkDirectory, above: WorkDirectory) -> Original:
    """`above` is the folder that it lies in. Raises `HoldfastError` when it is no checkpoint directory of plain Spark,
    or not a sound one."""
    shown = directory.location
    with storage_errors(f"read {shown}"):
        if not directory.exists("metadata"):
            raise NotFound(
                f"could not adopt {shown}: it is not a checkpoint directory of Spark: it has no file metadata",
                hint="give the checkpointLocation of the query, with offsets/, commits/ and metadata in it",
            )
        _require_plain(directory, above)
        barrier = barriers.newest_barrier(directory)
        if barrier is None:
            raise InvalidSettings(
                f"could not adopt {shown}: the query has committed no batch yet",
                hint="there is nothing to take over: start the job with holdfast in a new place",
            )
        logs = entries_of(directory)
        if (damaged := damage(directory)) is not None:
            raise Corrupt(
                f"could not adopt {shown} at batch {barrier}: {damaged}",
                hint="restore the directory from a copy; plain Spark would not resume from it either",
            )
        planned = barriers.planned_batches(directory, barrier)
        return Original(
            directory=directory,
            query=query_id(directory.read("metadata").decode()),
            barrier=barrier,
            planned=max((*planned, barrier)),
            plan=barriers.plan(directory, barrier, planned=planned),
            facts=held_facts(directory, barrier),
            logs=logs,
        )


def entries_of(directory: WorkDirectory) -> frozenset[str]:
    return frozenset(f"{log}/{name}" for log in _LOGS for name in directory.names(log) if name.isdigit())


def _require_plain(directory: WorkDirectory, above: WorkDirectory) -> None:
    """A run directory of holdfast lies in the folder of its job, beside the marker."""
    if (marker := read_marker(above)) is not None:
        raise Conflict(
            f"could not adopt {directory.location}: it is a work directory of job {marker.job!r} of {marker.home}",
            hint=f"the job has checkpoints already: holdfast checkpoints --home {marker.home} --job {marker.job}",
        )


def require_at_rest(original: Original) -> None:
    """Raises `Conflict` when a batch was planned or committed since the directory was examined."""
    with storage_errors(f"read {original.directory.location}"):
        changed = sorted(entries_of(original.directory) ^ original.logs)
    if changed:
        raise _runs(original, f"{changed[-1]} has changed meanwhile")


def _runs(original: Original, seen: str) -> Conflict:
    return Conflict(
        f"could not adopt {original.directory.location}: a query runs there, {seen}",
        hint="stop that query, wait until its process is gone, and try again",
    )


def require_possible(original: Original, target: JobHome, state: JobState) -> None:
    """A job that has run, or that was made of something else, is not changed. Adopting again before the first start
    is: the query may have run on meanwhile."""
    another = f"could not adopt {original.directory.location} as {target}: "
    hint = "give it another name: --job NAME"
    if (pipeline := state.pipeline) is not None:
        raise Conflict(f"{another}that job has run, last on host {pipeline.host}, pid {pipeline.pid}", hint=hint)
    for entry in state.retained():
        if entry.adopted is None or entry.adopted.query_id != original.query:
            raise Conflict(f"{another}that job has checkpoint {entry.id}, which was made of something else", hint=hint)


def is_adopted(original: Original, state: JobState) -> CheckpointId | None:
    """The checkpoint that holds the directory as it is now."""
    newest = state.newest_of_the_line()
    if newest is None or newest.adopted is None:
        return None
    there = (newest.adopted.query_id, newest.barrier_batch_id, newest.adopted.planned)
    return newest.id if there == (original.query, original.barrier, original.planned) else None


def adopt(
    original: Original,
    target: JobHome,
    progress: Callable[[int], AbstractContextManager[Progress]],
    around: Environment | None = None,
) -> CheckpointId:
    """The new checkpoint. `progress` is called with the number of bytes.

    Raises `Conflict` when a query runs in the directory, or the job is another one; `OwnedByAnotherRun`, `Fenced` and
    `StorageError` as any maintenance. The checkpoint exists when the journal has it, after all of its objects.
    """
    require_possible(original, target, target.state())
    with maintenance(target.job, target.home, target.store, "adopt into", around) as journal:
        require_possible(original, target, journal.state)
        started = begun(journal, original.barrier)
        with progress(original.bytes) as advance:
            copies = _copied(original, Blobs(target.store, journal.fencing_epoch), advance)
        require_at_rest(original)
        adopted = Adopted(original.directory.url, original.query, original.planned)
        completed(target, journal, started, copies, original.facts, adopted=adopted)
    return started.id


def _copied(original: Original, blobs: Blobs, advance: Progress) -> tuple[ShardCopy, ...]:
    try:
        return copied(original.directory, original.plan, blobs, advance)
    except ShardDeclined as error:
        raise _runs(original, str(error)) from error
