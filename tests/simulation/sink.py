"""A simulated sink: staged rows are invisible, one atomic commit shows them, an older run's commit is refused.

Every commit is optimistic: look, wait, commit if nobody else has, else look again. Readers look after every change.
Before each, what the sink's own record says is compared with what the table holds.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import Conflict, Fenced, StorageUnreachable
from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.sinks.ledger import require_unbroken
from holdfast.sinks.protocol import RewindPlan, SinkContext, SinkState, StagedBatch, StagedFile, fingerprint
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
        self._epoch = FencingEpoch(0)
        self._opened: int | None = None
        self._files = 0
        self._may_leave_out = False

    def describe(self) -> str:
        return "simulated"

    def look(self, context: SinkContext, spark: object, schema: object) -> SinkState:
        self._trouble("look")
        table = self._table
        return SinkState(table.life, FencingEpoch(table.epoch), table.claim, table.published)

    def open(self, context: SinkContext, spark: object, schema: object) -> None:
        self._epoch = context.fencing_epoch
        self._may_leave_out = context.accept

        def fence() -> None:
            self._table.epoch = self._epoch
            self._opened = self._table.id
            self._table.life, self._table.claim = fingerprint(context.lineage), fingerprint(context.claim)

        self._commit("open", fence)

    def published(self) -> BatchId | None:
        self._trouble("look")
        return self._table.published

    def stage_rows(self, rows: tuple[int, ...], batch_id: BatchId) -> StagedBatch:
        self._files += 1
        path = f"{self._epoch}-{batch_id}-{self._files}"
        self._world.hesitate()
        self._table.staged[path] = rows
        return StagedBatch(batch_id, self._epoch, (StagedFile(path, len(rows), len(rows)),))

    def publish(self, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> None:
        if self._table.published is not None and self._table.published >= upto:
            return

        def show() -> None:
            if not self._may_leave_out:
                require_unbroken(self._table.published, upto, ledger)
            done = -1 if self._table.published is None else self._table.published
            for batch in ledger:
                if done < batch.batch_id <= upto:
                    rows = tuple(row for file in batch.files for row in self._staged(file.path))
                    self._checkers.shown(self._table, rows)
                    self._table.visible.append((batch.batch_id, rows))
                    self._table.record[batch.batch_id] = rows
            self._table.published = max(upto, BatchId(done))
            self._checkers.published(self._process, self._table, upto, self._epoch)

        self._commit(f"publish {upto}", show)
        self._may_leave_out = False

    def plan_rewind(self, upto: BatchId | None) -> RewindPlan:
        self._trouble("plan a rewind")
        going = [rows for batch, rows in self._table.visible if upto is None or batch > upto]
        return RewindPlan(len(going), len(going), sum(map(len, going)))

    def rewind(self, upto: BatchId | None) -> None:
        if self._table.published is None or (upto is not None and self._table.published <= upto):
            return

        def take_back() -> None:
            self._checkers.taken_back(self._process, upto)
            kept = [(batch, rows) for batch, rows in self._table.visible if upto is not None and batch <= upto]
            self._table.visible, self._table.published = kept, upto
            for batch in [batch for batch in self._table.record if upto is None or batch > upto]:
                del self._table.record[batch]
            self._checkers.published(self._process, self._table, upto, self._epoch)

        self._commit(f"rewind {upto}", take_back)

    def discard(self, keep: tuple[StagedBatch, ...]) -> None:
        kept = {file.path for batch in keep for file in batch.files}
        for path in sorted(path for path in self._table.staged if path not in kept):
            self._trouble("discard")
            self._require_owner()
            self._table.staged.pop(path, None)

    def forget(self, upto: BatchId) -> None:
        pass

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
        if self._opened is not None and self._opened != table.id:
            raise Conflict(f"the table is number {table.id}, and this run opened number {self._opened}", hint=_HINT)
        there = set(table.rows()) | table.deleted
        for batch, rows in table.record.items():
            lost = [row for row in rows if row not in there]
            if lost:
                raise Conflict(
                    f"batch {batch} is published by the record and the table has no row {lost[0]}", hint=_HINT
                )

    def _require_owner(self) -> None:
        if self._table.epoch > self._epoch:
            raise Fenced(f"run {self._table.epoch} has opened the sink")

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
