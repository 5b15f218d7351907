"""A simulated sink: staged rows are invisible, one atomic commit shows them, an older run's commit is refused.

Every commit is optimistic: look, wait, commit if nobody else has, else look again. Readers look after every change.
Before each, what the sink's own record says is compared with what the table holds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.errors import Conflict, Fenced, StorageFull, StorageUnreachable
from holdfast.identifiers import AttemptId, BatchId, FencingEpoch, JobName
from holdfast.sinks import ledger as ledgers
from holdfast.sinks import staging
from holdfast.sinks.committed import Written
from holdfast.sinks.protocol import (
    RewindPlan,
    SinkContext,
    SinkState,
    StagedBatch,
    StagedFile,
    fingerprint,
    require_no_older,
)
from tests.simulation.checkers import Checkers
from tests.simulation.store import Faults
from tests.simulation.table import Table
from tests.simulation.world import Process, World


class SimulatedSink:
    def __init__(self, world: World, table: Table, process: Process, faults: Faults, checkers: Checkers) -> None:
        self._world = world
        self._table = table
        self._process = process
        self._faults = faults
        self._checkers = checkers
        self._context = SinkContext(JobName("job"), FencingEpoch(0), "", AttemptId(""))
        self._opened: int | None = None
        self._accepting = False
        self._as_it_is = False
        """Whether a person takes the table for what it is: what others did to rows is in nobody's way then."""
        self._files = 0

    def describe(self) -> str:
        return "simulated"

    def look(self, context: SinkContext, spark: object, schema: object) -> SinkState:
        self._trouble("look")
        self._as_it_is = context.accept
        self._checkers.saw(self._process, self._table)
        self._require_ours(context)
        table = self._table
        return SinkState(table.life, FencingEpoch(table.epoch), table.claim, table.published)

    def open(self, context: SinkContext, spark: object, schema: object) -> None:
        self._context, self._opened, self._as_it_is = context, None, context.accept
        require_no_older(context, self._table.epoch, "the table")
        life = fingerprint(context.lineage)

        def fence() -> None:
            if self._table.life not in (None, life):
                self._table.begin_life()
            self._table.epoch, self._table.life = context.fencing_epoch, life
            self._table.claim = fingerprint(context.claim)
            self._opened = self._table.id
            self._accepting = context.accept
            if context.accept:
                self._table.accept()

        self._commit("open", fence)

    def published(self) -> BatchId | None:
        self._trouble("look")
        self._checkers.saw(self._process, self._table)
        return self._table.published

    def stage_rows(self, rows: tuple[int, ...], batch_id: BatchId) -> StagedBatch:
        """One file per task; what the tasks wrote is counted as the real sinks do."""
        files = []
        for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            self._files += 1
            path = f"{self._epoch}-{batch_id}-{self._files}"
            self._world.hesitate()
            if part and self._world.chance(self._faults.vanishing):
                self._world.note(f"sink: {path} VANISHES")
                continue
            self._table.staged[path] = part
            files.append(StagedFile(path, len(part), len(part)))
        staging._require_all(Path("/simulated"), Written(len(rows), {}), files, [])
        return StagedBatch(batch_id, self._epoch, tuple(files))

    def publish(self, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> None:
        if self._table.published is not None and self._table.published >= upto:
            return

        if any(begin <= self._world.now < end for begin, end in self._faults.sink_full):
            raise StorageFull(f"could not publish {upto}: no space left")

        def show() -> None:
            if not self._accepting:
                ledgers.require_unbroken(self._table.published, upto, ledger)
            done = -1 if self._table.published is None else self._table.published
            if self._accepting:
                shown = [self._staged(f.path) for b in ledger if done < b.batch_id <= upto for f in b.files]
                self._table.disown(min((row for rows in shown for row in rows), default=self._table.high))
            for batch in ledger:
                if done < batch.batch_id <= upto:
                    rows = tuple(row for file in batch.files for row in self._staged(file.path))
                    self._checkers.shown(self._table, rows)
                    self._table.visible.append((batch.batch_id, rows))
                    self._table.record[batch.batch_id] = rows
                    self._table.made_by[batch.batch_id] = batch.fencing_epoch
            self._table.published = max(upto, BatchId(done))
            if self._accepting:
                self._checkers.accepted(self._table, upto)
                self._accepting = False
            self._checkers.published(self._process, self._table, upto, self._epoch)

        self._commit(f"publish {upto}", show)

    def first_made_after(self, run: FencingEpoch) -> BatchId | None:
        self._trouble("ask who made what")
        made = self._table.made_by
        return min((batch for batch in self._table.record if made.get(batch, 0) > run), default=None)

    def lost(self, batches: tuple[StagedBatch, ...]) -> tuple[str, ...]:
        self._trouble("look for what is staged")
        return tuple(file.path for batch in batches for file in batch.files if file.path not in self._table.staged)

    def plan_rewind(self, upto: BatchId | None) -> RewindPlan:
        self._trouble("plan a rewind")
        self._checkers.saw(self._process, self._table)
        return self._plan(upto)

    def _plan(self, upto: BatchId | None) -> RewindPlan:
        table = self._table
        batches = [batch for batch in table.record if upto is None or batch > upto]
        rows = table.rows_after(upto)
        return RewindPlan(len(batches), len(batches), len(rows), None if self._as_it_is else table.obstacle(upto))

    def rewind(self, upto: BatchId | None) -> None:
        if self._table.published is None or (upto is not None and self._table.published <= upto):
            return

        def take_back() -> None:
            obstacle = self._plan(upto).obstacle
            if obstacle is not None:
                raise Conflict(f"could not take back what was published after batch {upto}: {obstacle}", hint=_HINT)
            self._checkers.taken_back(self._process, self._table, upto)
            kept = [(batch, rows) for batch, rows in self._table.visible if upto is not None and batch <= upto]
            self._table.visible, self._table.published = kept, upto
            self._table.deleted -= self._table.rows_after(upto)  # they are made anew
            for batch in [batch for batch in self._table.record if upto is None or batch > upto]:
                del self._table.record[batch]
            if self._accepting and upto is not None:
                self._checkers.accepted(self._table, upto)
                self._accepting = False
            self._checkers.published(self._process, self._table, upto, self._epoch)

        self._commit(f"rewind {upto}", take_back)

    def discard(self, keep: tuple[StagedBatch, ...]) -> None:
        kept = {file.path for batch in keep for file in batch.files}
        for path in sorted(path for path in self._table.staged if path not in kept and self._may_discard(path)):
            self._trouble("discard")
            self._require_owner()
            self._table.staged.pop(path, None)

    def _may_discard(self, path: str) -> bool:
        """What newer runs staged is theirs."""
        return int(path.partition("-")[0]) <= self._epoch

    def forget(self, upto: BatchId) -> None:
        """The table's log says as much here."""

    @property
    def _epoch(self) -> FencingEpoch:
        return self._context.fencing_epoch

    def _staged(self, path: str) -> tuple[int, ...]:
        self._checkers.require(path in self._table.staged, f"staged file {path} is published and does not exist")
        return self._table.staged[path]

    def _commit(self, what: str, change: Callable[[], None]) -> None:
        while True:
            version = self._table.version, self._table.id
            self._require_owner()
            self._prove()
            self._trouble(what)
            if version == (self._table.version, self._table.id):
                break
        self._world.note(f"sink: {what}")
        change()
        self._table.committed()
        self._trouble(what)

    def _prove(self) -> None:
        """What was published is there, or was taken out by somebody who may do that."""
        table = self._table
        self._require_ours(self._context)
        if self._opened is not None and self._opened != table.id:
            raise Conflict(f"the table is number {table.id}, and this run opened number {self._opened}", hint=_HINT)
        if self._opened is None and self._context.accept:
            return
        if table.restored and not self._is_new_life:
            raise Conflict("somebody has put the table back to an older version", hint=_HINT)
        there = set(table.rows()) | table.deleted
        for batch, rows in table.record.items():
            lost = [row for row in rows if row not in there]
            if lost and not self._is_new_life:
                raise Conflict(f"batch {batch} is published by the record, the table has no row {lost[0]}", hint=_HINT)

    def _require_ours(self, context: SinkContext) -> None:
        if self._table.life is None and self._table.foreign and not context.accept:
            raise Conflict("the table holds rows of somebody else, and this job has written none of them", hint=_HINT)

    def _require_owner(self) -> None:
        table, context = self._table, self._context
        if table.life not in (None, fingerprint(context.lineage)):
            if self._opened is not None:
                raise Fenced("another life of the job has opened the sink")
            if not context.new_life:
                raise Conflict(
                    f"the table holds the output of life {table.life}, and this is {context.lineage}", hint=_OTHER_LIFE
                )
            return
        if table.epoch > self._epoch:
            raise Fenced(f"run {table.epoch} has opened the sink")
        if self._opened is not None and table.epoch < self._epoch:
            raise Conflict(f"the table does not know run {self._epoch} any more", hint=_HINT)
        if table.epoch == self._epoch and table.claim not in (None, fingerprint(context.claim)):
            raise Conflict(f"another run with number {table.epoch} has opened the sink", hint=_OTHER_HOME)

    @property
    def _is_new_life(self) -> bool:
        return self._opened is None and self._table.life != fingerprint(self._context.lineage)

    def _trouble(self, what: str) -> None:
        self._world.sleep(self._world.random.random() * 0.01)
        if self._world.chance(self._faults.crash):
            self._world.note(f"sink: CRASH at {what}")
            self._world.crash(self._process)
        if self._world.chance(self._faults.stall):
            self._world.stall(self._process, 0.5 + self._world.random.random() * 15.0)
        self._world.hesitate()
        if self._world.chance(self._faults.before):
            self._world.note(f"sink: ERROR at {what}")
            raise StorageUnreachable(f"could not {what}: no connection")


_HINT = "put the table back as it was, or go on with what is there: --accept-sink"
_OTHER_LIFE = "give the home of that life, or begin a new one: --new-life"
_OTHER_HOME = "put the newest home back, or go on from this one: --accept-older-home"
