"""Exactly-once output to a Delta table.

    <table>/_delta_log/                                                  decides what readers see
    <table>/holdfast-<job>-<lineage>/<fencing_epoch>/<batch>-<unique>/   staged files; publishing does not move them

    <table>/_holdfast/<job>/                                             what each published batch consists of

Five transaction ids of the table's log carry everything (`delta_ledger.py`), all of them in every commit of this sink.

Invariants
  1. A commit of this sink lands directly on the version whose transaction ids it has just checked, or not at all.
     So an older run can commit nothing after a newer one's epoch, and no batch can be added twice.
  2. The files of a batch and the new published batch are in one commit: readers see a checkpoint whole.
  3. A file that any readable version of the table refers to is never deleted here; VACUUM does that.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import Conflict, Fenced, HoldfastError, InvalidSettings, StorageUnreachable
from holdfast.identifiers import BatchId
from holdfast.sinks.delta_ledger import NOTHING, DeltaLedger, read_ledger, replace, transactions
from holdfast.sinks.delta_log import Commit, DeltaLog, LiveFile
from holdfast.sinks.delta_partitions import (
    MARKED,
    column_names,
    partition_of,
    require_partition_columns,
    with_marked_values,
)
from holdfast.sinks.delta_statistics import delta_statistics
from holdfast.sinks.durable import storage_errors
from holdfast.sinks.ledger import require_unbroken
from holdfast.sinks.place import local_place, owner_name
from holdfast.sinks.protocol import (
    RewindPlan,
    SinkContext,
    SinkState,
    StagedBatch,
    StagedFile,
    Step,
    fingerprint,
    no_step,
)
from holdfast.sinks.published_record import Page, PublishedRecord, recorded
from holdfast.sinks.same_place import require_same_place
from holdfast.sinks.schemas import differences, fields_of, nullable
from holdfast.sinks.staging import lost, require_size, staged_files, write_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ATTEMPTS = 50
"""Commits of other writers that may come in between; each failed attempt means that one of them made progress."""


class Delta:
    """Exactly-once output to the Delta table at `place`, created when absent; other writers may share it.

    `partition_by` names columns of type string, integer, date or boolean. It must match an existing table; left out,
    a new table has no partitions and an existing one keeps its own.
    """

    def __init__(
        self,
        place: str | Path,
        partition_by: str | Sequence[str] | None = None,
        *,
        step: Step = no_step,
        unique: Callable[[], str] = lambda: uuid.uuid4().hex[:12],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._place = local_place("delta", place)
        self._asked_partitions = column_names(partition_by)
        self._partition_by: tuple[str, ...] = ()
        self._log = DeltaLog(self._place)
        self._step = step
        self._unique = unique
        self._clock = clock
        self._known: SinkContext | None = None
        self._may_leave_out = False
        """Whether the next publish may leave batches out that the ledger does not have."""

    def describe(self) -> str:
        return f"delta:{self._place}"

    def look(self, context: SinkContext, spark: SparkSession, schema: StructType) -> SinkState:
        self._known = context
        require_partition_columns(fields_of(schema.json()), self._asked_partitions or ())
        with storage_errors(f"look at {self.describe()}"):
            table = self._log.load_if_there()
        if table is None:
            return SinkState()
        self._require_fit(table, schema)
        require_partition_columns(fields_of(schema.json()), tuple(table.metadata().partition_columns))
        ledger = self._ledger(table)
        return SinkState() if ledger is None else ledger.state()

    def open(self, context: SinkContext, spark: SparkSession, schema: StructType) -> None:
        self.look(context, spark, schema)
        with storage_errors(f"open {self.describe()}"):
            table = self._log.load_or_create(nullable(schema.json()), self._asked_partitions or ())
        self._step("table exists")
        with storage_errors(f"try {self.describe()} from the executors"):
            require_same_place(spark, self._place, self.describe())
        self._require_fit(table, schema)
        self._partition_by = tuple(table.metadata().partition_columns)
        self._may_leave_out = context.accept
        own = DeltaLedger(fingerprint(context.lineage), context.fencing_epoch, _claim(context))

        def fence(table: Any) -> Commit | None:
            before = self._ledger(table)
            self._require_may_open(before)
            wanted = own if before is None or before.life != own.life else replace(own, before.published, before.page)
            if read_ledger(table, context.job) == wanted:
                return None
            return Commit(transactions(context.job, wanted))

        self._commit("open", fence)

    def published(self) -> BatchId | None:
        ledger = self._ledger(self._log.load())
        return None if ledger is None else ledger.newest

    def stage(self, batch: DataFrame, batch_id: BatchId) -> StagedBatch:
        name = f"{batch_id}-{self._unique()}{MARKED if self._partition_by else ''}"
        directory = self._staging / str(self._context.fencing_epoch) / name
        produced = write_parquet(with_marked_values(batch, self._partition_by), directory, self._partition_by)
        self._step("written")
        with storage_errors(f"stage batch {batch_id} for {self.describe()}"):
            try:
                files = staged_files(self._place, directory, produced, delta_statistics)
            except HoldfastError:
                self._own_ledger("stage", self._log.load())  # a newer run discards what older ones stage
                raise
        return StagedBatch(batch_id, self._context.fencing_epoch, files)

    def publish(self, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> None:
        def plan(table: Any) -> Commit | None:
            before = self._own_ledger("publish", table)
            if before.published >= upto:
                return None
            if not self._may_leave_out:
                require_unbroken(before.newest, upto, ledger)
            batches = [batch for batch in ledger if before.published < batch.batch_id <= upto]
            added = tuple(self._add(file) for batch in batches for file in batch.files)
            return self._planned(table, before, Page(upto, tuple(map(recorded, batches)), before.page), added)

        self._commit("publish", plan)
        self._may_leave_out = False

    def plan_rewind(self, upto: BatchId | None) -> RewindPlan:
        with storage_errors(f"look at {self.describe()}"):
            table = self._log.load_if_there()
        ledger = None if table is None else self._ledger(table)
        return RewindPlan() if ledger is None else self._rewinding(table, ledger, _number(upto))[0]

    def rewind(self, upto: BatchId | None) -> None:
        target = _number(upto)

        def plan(table: Any) -> Commit | None:
            before = self._own_ledger("rewind", table)
            if before.published <= target:
                return None
            rewinding, unwanted = self._rewinding(table, before, target)
            if rewinding.obstacle is not None:
                raise self._cannot_take_back(target, rewinding.obstacle)
            now_ms = int(self._clock() * 1000)
            removed = tuple(self._log.remove(file, now_ms) for file in unwanted)
            return self._planned(table, before, Page(target, (), before.page), removed)

        self._commit("rewind", plan)

    def _planned(self, table: Any, before: DeltaLedger, page: Page, actions: tuple[Any, ...]) -> Commit:
        """The page is written before the commit that makes it true."""
        with storage_errors(f"record what is published in {self.describe()}"):
            number = self._record.write(page)
        self._step("recorded")
        return Commit(transactions(self._context.job, replace(before, page.upto, number)), actions)

    def _rewinding(self, table: Any, ledger: DeltaLedger, target: int) -> tuple[RewindPlan, list[LiveFile]]:
        with storage_errors(f"read what is published in {self.describe()}"):
            known = self._record.read(ledger.page, target, ledger.published)
        live = {file.path: file for file in self._log.live_files(table)}
        files = [file for batch in known.batches for file in batch.files]
        rows = sum(file.rows for file in files)
        obstacle = None
        if not known.complete:
            obstacle = f"what the batches after {target} consist of is not known any more"
        elif any(file.path not in live for file in files):
            obstacle = (
                "another writer (OPTIMIZE, DELETE, UPDATE) has rewritten rows of later batches, so they cannot be told "
                "apart any more"
            )
        plan = RewindPlan(max(0, ledger.published - target), len(files), rows, obstacle)
        return plan, [live[file.path] for file in files if file.path in live]

    def discard(self, keep: tuple[StagedBatch, ...]) -> None:
        table = self._log.load()
        ledger = self._own_ledger("discard", table)
        wanted = {file.path for batch in keep for file in batch.files}
        wanted |= {file.path for file in self._log.live_files(table)} | self._log.tombstones(table)
        directories = {self._batch_directory(path) for path in wanted}
        with storage_errors(f"discard what was staged for {self.describe()}"):
            for directory in self._staged_directories():
                if directory not in directories:
                    shutil.rmtree(directory, ignore_errors=True)
                    self._step("staged directory deleted")
            self._record.keep_only(ledger.page)

    def forget(self, upto: BatchId) -> None:
        with storage_errors(f"shorten the record of {self.describe()}"):
            self._record.forget(upto)

    def _commit(self, operation: str, plan: Callable[[Any], Commit | None]) -> None:
        """Make `plan` come true: it is shown the newest table until it wants nothing more or its commit stands."""
        tried: int | None = None
        failure: Exception | None = None
        for _ in range(_ATTEMPTS):
            table = self._log.load()
            wanted = plan(table)
            self._step(f"{operation}: planned")
            if wanted is None:
                break
            if failure is not None and table.version() == tried:
                break  # it failed, and not because another commit was first
            tried, failure = table.version(), self._log.try_commit(table, wanted)
            if failure is None:
                self._step(f"{operation}: committed")
                wanted, table = None, self._log.load()
                break
        if wanted is not None:
            raise StorageUnreachable(f"could not {operation} {self.describe()}: {failure}") from failure
        with storage_errors(f"flush the log of {self.describe()}"):
            self._log.flush(table.version())

    def _add(self, file: StagedFile) -> Any:
        path = self._place / file.path
        try:
            status = path.stat()
        except FileNotFoundError as error:
            raise lost(f"publish to {self.describe()}", path) from error
        require_size(f"publish to {self.describe()}", path, status.st_size, file)
        return self._log.add(file.path, file.size, partition_of(file.path), status.st_mtime_ns // 1_000_000, file.stats)

    def _cannot_take_back(self, target: int, obstacle: str) -> Conflict:
        return Conflict(
            f"could not rewind {self.describe()} to batch {target}: {obstacle}",
            hint="go on from the newest checkpoint, or take the rows of later batches out of the table by hand and "
            "start with --accept-sink",
        )

    def _require_fit(self, table: Any, schema: StructType) -> None:
        self._log.require_ordinary(table)
        if lines := differences(fields_of(schema.json()), fields_of(table.schema().to_json())):
            raise InvalidSettings(
                f"could not open {self.describe()}: the query's columns do not fit the table's:\n  "
                + "\n  ".join(lines),
                hint="change the query, change the table, or write to a new one",
            )
        existing = tuple(table.metadata().partition_columns)
        if self._asked_partitions is not None and self._asked_partitions != existing:
            shown = ", ".join(existing) or "nothing"
            raise InvalidSettings.of(
                "partition_by", list(self._asked_partitions), f"the table is partitioned by {shown}"
            )

    def _ledger(self, table: Any) -> DeltaLedger | None:
        return read_ledger(table, self._context.job)

    def _require_may_open(self, found: DeltaLedger | None) -> None:
        if found is None:
            return
        context = self._context
        if found.life != fingerprint(context.lineage):
            if not context.new_life:
                raise Conflict(
                    f"could not open {self.describe()} as job {context.job!r}: it holds the output of another life of "
                    f"that job, published up to batch {found.newest}; this home has never written to it",
                    hint="start with the home of that life, or begin a new one, which adds every row once more: "
                    "--new-life",
                )
            return
        self._refuse_if_fenced("open", found)
        if found.fencing_epoch == context.fencing_epoch and _differ(found.claim, _claim(context)):
            raise Conflict(
                f"could not open {self.describe()} as run {context.fencing_epoch} of job {context.job!r}: another run "
                "with that number has opened it; the home was put back from a backup",
                hint="put the newest home back, or go on from this one: --accept-older-home",
            )

    def _refuse_if_fenced(self, operation: str, found: DeltaLedger) -> None:
        own = self._context
        newer = found.fencing_epoch > own.fencing_epoch
        if newer or found.life != fingerprint(own.lineage):
            raise Fenced(
                f"could not {operation} {self.describe()} as run {own.fencing_epoch} of job {own.job!r}: "
                f"run {found.fencing_epoch}{'' if newer else ' of another life of the job'} has opened it since",
                hint="stop this run; the newer one owns the job",
            )

    def _own_ledger(self, operation: str, table: Any) -> DeltaLedger:
        found = self._ledger(table)
        own = self._context
        if found is not None:
            self._refuse_if_fenced(operation, found)
            if found.fencing_epoch == own.fencing_epoch and _differ(found.claim, _claim(own)):
                raise Fenced(
                    f"could not {operation} {self.describe()}: another run with the number {own.fencing_epoch} has "
                    "opened it since; the home was put back from a backup",
                    hint="stop this run; the other one owns the job",
                )
        if found is None or found.fencing_epoch != own.fencing_epoch:
            raise Conflict(
                f"could not {operation} {self.describe()}: the table no longer knows run {own.fencing_epoch} of job "
                f"{own.job!r}; it was replaced",
                hint="bring the table back, or start again with --accept-sink to go on from what is there",
            )
        return found

    def _staged_directories(self) -> Iterator[Path]:
        for epoch in _directories(self._staging):
            if epoch.name.isdecimal() and int(epoch.name) <= self._context.fencing_epoch:
                yield from _directories(epoch)

    def _batch_directory(self, path: str) -> Path:
        return self._place.joinpath(*path.split("/")[:3])

    @property
    def _staging(self) -> Path:
        return self._place / f"holdfast-{owner_name(self._context)}"

    @property
    def _record(self) -> PublishedRecord:
        return PublishedRecord(self._place, self._context.job)

    @property
    def _context(self) -> SinkContext:
        if self._known is None:
            raise HoldfastError(f"{self.describe()} was used before it was opened")
        return self._known


def _number(batch: BatchId | None) -> int:
    return NOTHING if batch is None else batch


def _claim(context: SinkContext) -> int:
    return fingerprint(context.claim) if context.claim else 0


def _differ(one: int, other: int) -> bool:
    """Whether two claims are known, and two."""
    return bool(one and other and one != other)


def _directories(parent: Path) -> list[Path]:
    """Without what a symbolic link leads to: that is not ours to delete."""
    if parent.is_symlink() or not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.is_dir() and not path.is_symlink())
