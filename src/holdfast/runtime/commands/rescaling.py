"""Gives a stopped job another number of state partitions: Spark repartitions a copy of its newest checkpoint.

Spark makes a batch of its own of that, which reads nothing and writes nothing. So the checkpoint must be the end of the
job's timeline. If the sink had the batch after it already, under the same id, rows would be lost or come twice. And no
directory that a run has left may be resumed in its place (`recovery/recovery.py`).

Nothing is written before the copy is repartitioned and its whole state was compared.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from holdfast.checkpoint.manifest import Manifest
from holdfast.errors import Conflict, Corrupt, InvalidSettings, NotFound, OwnedByAnotherRun
from holdfast.identifiers import BatchId
from holdfast.plans.log import plan_batches
from holdfast.repository.blobs import Blobs
from holdfast.repository.damage import load_manifest
from holdfast.repository.entries import CheckpointCompleted, Rescaled, RunEnded, RunStarted
from holdfast.repository.lines import line_begins, line_folder
from holdfast.repository.ownership import Heartbeat, current_process, read_heartbeat
from holdfast.repository.state import JobState
from holdfast.runtime.commands.copying import JobHome
from holdfast.runtime.commands.maintenance import maintenance
from holdfast.runtime.commands.recording import Progress, begun, completed, copied
from holdfast.runtime.job_folder import left_by
from holdfast.runtime.own_writer import may_have_more
from holdfast.runtime.recovery.memory import ahead, of_heartbeat
from holdfast.runtime.run.environment import Environment
from holdfast.sinks import ledger
from holdfast.sinks.protocol import StagedBatch
from holdfast.workdir import barriers
from holdfast.workdir.factory import work_directory
from holdfast.workdir.interface import WorkDirectory
from holdfast.workdir.query_record import held_facts
from holdfast.workdir.restorer import restore
from holdfast.workdir.soundness import damage

_ROCKSDB = "RocksDBStateStoreProvider"

Repartition = Callable[[WorkDirectory, BatchId], int]
"""Repartitions the state of that batch in the directory as the next batch. The number of rows of state, which were all
compared."""
Meter = Callable[[str, int], AbstractContextManager[Progress]]
"""Called with a title and the number of bytes."""


@dataclass(frozen=True)
class Rescalable:
    """The end of a job that can be rescaled there."""

    entry: CheckpointCompleted
    manifest: Manifest
    run: RunStarted
    """The last run that made batches."""
    ended: RunEnded

    @property
    def partitions(self) -> int:
        return int(self.manifest.spark.get("shuffle_partitions", "0"))

    @property
    def writer_has(self) -> BatchId | None:
        """The newest report of the query's own writer. The new batch gives it no rows."""
        earlier = self.entry.writer_has
        return self.ended.writer_has if self.ended.sequence > self.entry.sequence or earlier is None else earlier


def examine(target: JobHome, state: JobState) -> Rescalable:
    """Raises `HoldfastError` unless the newest checkpoint holds all that the job, its sink and its plans have."""
    entry = state.newest_of_the_line()
    if entry is None:
        raise NotFound(f"could not rescale {target}: it has no checkpoint", hint="start it and stop it cleanly first")
    run, ended = _last_run(target, state)
    if run.protects:
        raise Conflict(
            f"could not rescale {target}: holdfast does not run its query, and only reads {run.protects}",
            hint="run it with holdfast first, under the same job name: docs/protect.md",
        )
    _require_whole_history(target, state, entry)
    _require_no_more_batches(target, state, entry, run)
    if ended.needs_every_batch:
        raise InvalidSettings(
            f"could not rescale {target}: it writes with Spark's file sink, which needs an entry of every batch. The "
            "batch that rescaling adds would have none, and readers and the query itself would fail on it",
            hint="write with a sink of holdfast, Delta or foreachBatch, and rescale then",
        )
    end = Rescalable(entry, load_manifest(target.store, entry), run, ended)
    provider = end.manifest.spark.get("state_store_provider", _ROCKSDB)
    if not provider.endswith(_ROCKSDB):
        raise InvalidSettings(
            f"could not rescale {target}: its state store is {provider.rpartition('.')[2]}, and Spark repartitions "
            "only state in RocksDB",
            hint="the number of partitions of this state stays as it is",
        )
    return end


def require_change(target: JobHome, end: Rescalable, partitions: int) -> None:
    if not end.manifest.spark.get("operators") and len(end.manifest.shards) == 1:
        raise InvalidSettings(
            f"could not rescale {target}: its query keeps no state",
            hint="spark.sql.shuffle.partitions at its next start is enough",
        )
    if end.partitions == partitions:
        raise InvalidSettings(f"could not rescale {target}: its state has {partitions} partitions already")


def _last_run(target: JobHome, state: JobState) -> tuple[RunStarted, RunEnded]:
    run = state.last_to_leave_batches(state.runs)
    if run is None:
        raise _unfinished(target, "it has not run in this home yet")
    ended = state.ends.get(run.fencing_epoch)
    if ended is None:
        raise _unfinished(target, f"its last run, on host {run.host}, pid {run.pid}, has not recorded its end")
    return run, ended


def _require_whole_history(target: JobHome, state: JobState, entry: CheckpointCompleted) -> None:
    if state.rollback is not None:
        raise _unfinished(target, f"it is to go back to checkpoint {state.rollback.chosen} at its next start")
    if line_begins(state):
        raise _unfinished(target, f"it went back to checkpoint {entry.id}, and has no checkpoint since")
    if entry.id in state.corrupt:
        detail = state.corrupt[entry.id].detail
        raise Corrupt(
            f"could not rescale {target}: its newest checkpoint {entry.id} is damaged: {detail}",
            hint="holdfast verify --all --mark, which brings back what is sound; or start it and stop it cleanly first",
        )
    heartbeat = read_heartbeat(target.store)
    if heartbeat is not None and (why := ahead(state, of_heartbeat(heartbeat))) is not None:
        raise _unfinished(target, f"the home is older than the heartbeat beside it, which {why}")
    if heartbeat is not None and _reported(heartbeat, entry) > entry.barrier_batch_id:
        raise _unfinished(target, f"its last run has reported batch {_reported(heartbeat, entry)}")


def _reported(heartbeat: Heartbeat, entry: CheckpointCompleted) -> BatchId:
    """The newest batch that the heartbeat reports; -1 when it reports none of this line."""
    if heartbeat.report is None or heartbeat.report.batch is None or heartbeat.head < entry.line:
        return BatchId(-1)
    return heartbeat.report.batch


def _require_no_more_batches(target: JobHome, state: JobState, entry: CheckpointCompleted, run: RunStarted) -> None:
    barrier = entry.barrier_batch_id
    after = f"after its newest checkpoint {entry.id}, at batch {barrier},"
    planned = max(plan_batches(target.store, line_folder(state)), default=barrier)
    if planned > barrier:
        raise _unfinished(target, f"{after} the home has a plan of batch {planned}")
    if not run.sink and may_have_more(state, barrier, local=False, repeats=False, claimed=False):
        raise _unfinished(target, f"{after} its own writer may have batches")
    if (left := _left_here(run)) is not None and left > barrier:
        raise _unfinished(target, f"{after} the work directory {run.work} has batch {left}")


def _left_here(run: RunStarted) -> BatchId | None:
    """The newest committed batch in the run's directory, where that can be seen from here."""
    if run.process.host != current_process().host or not run.work:
        return None
    directory = left_by(work_directory(run.work), run.fencing_epoch)
    return None if directory is None else barriers.newest_barrier(directory)


def _unfinished(target: JobHome, why: str) -> Conflict:
    return Conflict(
        f"could not rescale {target}: {why}",
        hint="start it and stop it cleanly first: start it with the trigger available-now, which ends by itself, or "
        f"holdfast stop {target.job}",
    )


def rescale(
    target: JobHome,
    end: Rescalable,
    partitions: int,
    scratch: WorkDirectory,
    repartition: Repartition,
    meter: Meter,
    around: Environment,
) -> CheckpointCompleted:
    """The new checkpoint. Raises `Corrupt` when the old one does not verify, what `repartition` raises, and what
    maintenance raises; the job is then as it was."""
    with meter(f"restoring checkpoint {end.entry.id}", end.manifest.bytes_total) as advance:
        restore(target.store, end.manifest, scratch, progress=advance)
    around.step("restored")
    rows = repartition(scratch, end.entry.barrier_batch_id)
    around.step("repartitioned")
    with maintenance(target.job, target.home, target.store, "rescale", around) as journal:
        around.step("claimed")
        _require_same(target, end, journal.state)
        barrier, made_by = BatchId(end.entry.barrier_batch_id + 1), end.manifest.fencing_epoch
        if end.run.sink:
            # The sink publishes without gaps. By another run than the manifest names it would seem to be run again.
            ledger.write(scratch, StagedBatch(barrier, made_by, ()))
        if (damaged := damage(scratch)) is not None:
            raise Corrupt(f"could not rescale {target}: what Spark has written is not sound: {damaged}")
        plan = barriers.plan(scratch, barrier)
        started = begun(journal, barrier)
        around.step("begun")
        with meter("copying", sum(file.size for file in plan.files())) as advance:
            copies = copied(scratch, plan, Blobs(target.store, journal.fencing_epoch), advance)
        around.step("copied")
        entry = completed(
            target,
            journal,
            started,
            copies,
            held_facts(scratch, barrier),
            rescaled=Rescaled(end.entry.id, end.partitions, partitions, rows),
            writer_has=end.writer_has,
            made_by=made_by,
        )
        around.step("completed")
    return entry


def _require_same(target: JobHome, end: Rescalable, state: JobState) -> None:
    """Another run, or another home, may have come in between."""
    if state.lineage != end.run.lineage:
        raise Conflict(f"could not rescale {target}: the home has another job of that name now")
    try:
        now = examine(target, state)
    except Conflict as error:
        raise _went_on(target) from error
    if (now.entry.id, now.run.fencing_epoch) != (end.entry.id, end.run.fencing_epoch):
        raise _went_on(target)


def _went_on(target: JobHome) -> OwnedByAnotherRun:
    return OwnedByAnotherRun(
        f"could not rescale {target}: it has gone on since its checkpoint was copied", hint="stop it, and try again"
    )
