"""Exactly-once output to a Delta table.

    <table>/_delta_log/                                                  decides what readers see
    <table>/holdfast-<job>-<lineage>/<fencing_epoch>/<batch>-<unique>/   staged files; publishing does not move them

    <table>/_holdfast/<job>/                                             what each published batch consists of

Five transaction ids of the table's log carry everything (`delta_ledger.py`), all of them in every commit of this sink.

Invariants
  1. A commit of this sink lands directly on the version whose transaction ids it has just checked, or not at all.
     So an older run can commit nothing after a newer run's epoch, and no batch can be added twice.
  2. The files of a batch and the new published batch are in one commit: readers see a checkpoint whole.
  3. A file that any readable version of the table refers to is never deleted here; VACUUM does that.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import Conflict, HoldfastError, StorageError
from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.sinks.attempts import Attempts, remove_all
from holdfast.sinks.committed import write_parquet
from holdfast.sinks.delta_fit import require_fit, require_staged_fit
from holdfast.sinks.delta_ledger import NOTHING, DeltaLedger, read_ledger, replace, transactions
from holdfast.sinks.delta_log import Commit, DeltaLog
from holdfast.sinks.delta_ownership import Ownership
from holdfast.sinks.delta_partitions import (
    MARKED,
    column_names,
    partition_of,
    require_partition_columns,
    with_marked_values,
)
from holdfast.sinks.delta_place import batch_directory, directories_of_batches, require_free, staging_folder
from holdfast.sinks.delta_published import DeltaPublished
from holdfast.sinks.delta_statistics import delta_statistics
from holdfast.sinks.ledger import require_unbroken
from holdfast.sinks.place import local_place
from holdfast.sinks.protocol import (
    RewindPlan,
    SinkContext,
    SinkState,
    StagedBatch,
    StagedFile,
    Step,
    no_step,
    require_no_older,
    require_one_name,
)
from holdfast.sinks.published_record import Page, recorded
from holdfast.sinks.same_place import SamePlace
from holdfast.sinks.schemas import Field, fields_of, nullable
from holdfast.sinks.staging import lost, require_opened, require_size, size_of, staged_files
from holdfast.storage.durable import storage_errors
from holdfast.storage.unique import unique_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class _OneRun:
    """The table as one run knows it."""

    context: SinkContext
    owner: Ownership
    published: DeltaPublished


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
        unique: Callable[[], str] = lambda: unique_name()[:12],
        clock: Callable[[], float] = time.time,  # noqa: TID251
    ) -> None:
        self._place = local_place("delta", place)
        self._asked_partitions = column_names(partition_by)
        self._partition_by: tuple[str, ...] = ()
        self._log = DeltaLog(self._place)
        self._same_place = SamePlace(self._place, self.describe())
        self._step = step
        self._unique = unique
        self._clock = clock
        self._attempts = Attempts()
        self._known: _OneRun | None = None
        self._fields: Sequence[Field] = ()
        self._may_leave_out = False
        """Whether the next publish may skip batches that the ledger does not have."""

    def describe(self) -> str:
        return f"delta:{self._place}"

    def look(self, context: SinkContext, spark: SparkSession, schema: StructType) -> SinkState:
        self._known = self._as_run(context)
        self._fields = fields_of(schema.json())
        require_partition_columns(self._fields, self._asked_partitions or ())
        with storage_errors(f"look at {self.describe()}"):
            self._same_place.require(spark)
            table = self._log.load_if_there()
            if table is None:
                self._published.require_never_there()
                require_free(self._place, self.describe())
                return SinkState()
            self._require_fit("open", table)
            ledger = self._owner.ledger(table)
            if ledger is None:
                self._published.require_never_there(table)
            else:
                self._published.proved(table, ledger, live=True)
            found = SinkState() if ledger is None else ledger.state()
            others = tuple(self._owner.other_names(table))
            beside = require_one_name(context, found.fencing_epoch, others, self.describe())
        return msgspec.structs.replace(found, beside=beside)

    def open(self, context: SinkContext, spark: SparkSession, schema: StructType) -> None:
        require_no_older(context, self.look(context, spark, schema).fencing_epoch, self.describe())
        with storage_errors(f"open {self.describe()}"):
            table = self._log.load_or_create(nullable(schema.json()), self._asked_partitions or ())
        self._step("table exists")
        self._partition_by = tuple(table.metadata().partition_columns)
        self._may_leave_out = context.accept

        def fence(table: Any) -> Commit | None:
            self._require_fit("open", table)
            before = self._owner.ledger(table)
            require_no_older(context, before.fencing_epoch if before else FencingEpoch(0), self.describe())
            self._owner.require_may_open(before)
            self._owner.opens(table)
            wanted = self._published.carried_over(table, before, self._owner.claimed())
            if read_ledger(table, context.job) == wanted:
                return None
            return self._commit_of(wanted, legacy=self._owner.legacy_epoch(table))

        self._commit("open", fence)

    def published(self) -> BatchId | None:
        ledger = self._owner.ledger(self._log.load())
        return None if ledger is None else ledger.newest

    def stage(self, batch: DataFrame, batch_id: BatchId) -> StagedBatch:
        name = f"{batch_id}-{self._unique()}{MARKED if self._partition_by else ''}"
        directory = self._staging / str(self._context.fencing_epoch) / name
        with self._attempts.staging(batch_id, directory):
            try:
                self._require_opened(batch_id)  # Spark's writer creates missing folders
                written = write_parquet(with_marked_values(batch, self._partition_by), directory, self._partition_by)
                self._step("written")
                with storage_errors(f"stage batch {batch_id} for {self.describe()}"):
                    files = staged_files(self._place, directory, written, delta_statistics)
                self._require_opened(batch_id)
            except HoldfastError:
                with suppress(StorageError):
                    self._owner.own_ledger("stage", self._log.load())  # a newer run discards what older ones stage
                raise
        return StagedBatch(batch_id, self._context.fencing_epoch, files)

    def _require_opened(self, batch_id: BatchId) -> None:
        require_opened(batch_id, self.describe(), self._published.record.place_of(self._context.fencing_epoch))

    def publish(self, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> None:
        def plan(table: Any) -> Commit | None:
            before = self._owner.own_ledger("publish", table)
            if before.published >= upto:
                return None
            checked = self._published.proved(table, before)
            self._require_fit("publish", table)
            if not self._may_leave_out:
                require_unbroken(before.newest, upto, ledger)
            batches = [batch for batch in ledger if before.published < batch.batch_id <= upto]
            earlier = [batch for batch in batches if batch.fencing_epoch != self._context.fencing_epoch]
            require_staged_fit(self.describe(), self._place, earlier, table)
            partitions = tuple(table.metadata().partition_columns)
            added = tuple(self._add(file, partitions) for batch in batches for file in batch.files)
            self._published.remember(checked)
            return self._planned(before, Page(upto, tuple(map(recorded, batches)), before.page), added)

        self._commit("publish", plan)
        self._may_leave_out = False
        self._remove_unnamed(self._attempts.superseded(upto))

    def _remove_unnamed(self, directories: list[Path]) -> None:
        """Remove the directories of which the table's log names no file, not even a deleted one."""
        if directories:
            table = self._log.load()
            named = {file.path for file in self._log.live_files(table)} | self._log.tombstones(table)
            used = {batch_directory(self._place, path) for path in named}
            remove_all(directory for directory in directories if directory not in used)

    def first_made_after(self, run: FencingEpoch) -> BatchId | None:
        with storage_errors(f"look at {self.describe()}"):
            table = self._log.load_if_there()
            ledger = None if table is None else self._owner.ledger(table)
            return None if ledger is None else self._published.first_made_after(run, table, ledger)

    def lost(self, batches: tuple[StagedBatch, ...]) -> tuple[str, ...]:
        with storage_errors(f"look at {self.describe()}"):
            files = [file for batch in batches for file in batch.files]
            return tuple(file.path for file in files if size_of(self._place / file.path) != file.size)

    def plan_rewind(self, upto: BatchId | None) -> RewindPlan:
        with storage_errors(f"look at {self.describe()}"):
            table = self._log.load_if_there()
            ledger = None if table is None else self._owner.ledger(table)
            return RewindPlan() if ledger is None else self._published.rewinding(table, ledger, _number(upto))[0]

    def rewind(self, upto: BatchId | None) -> None:
        target = _number(upto)

        def plan(table: Any) -> Commit | None:
            before = self._owner.own_ledger("rewind", table)
            if before.published <= target:
                return None
            checked = self._published.proved(table, before)
            rewinding, unwanted = self._published.rewinding(table, before, target)
            if rewinding.obstacle is not None:
                raise self._cannot_take_back(target, rewinding.obstacle)
            now_ms = int(self._clock() * 1000)
            removed = tuple(self._log.remove(file, now_ms) for file in unwanted)
            self._published.rewound(checked, target)
            return self._planned(before, Page(target, (), before.page), removed)

        self._commit("rewind", plan)

    def _planned(self, before: DeltaLedger, page: Page, actions: tuple[Any, ...]) -> Commit:
        """The page is written before the commit that makes it valid."""
        with storage_errors(f"record what is published in {self.describe()}"):
            number = self._published.record.write(page)
        self._step("recorded")
        return self._commit_of(replace(before, page.upto, number), actions)

    def _commit_of(
        self, ledger: DeltaLedger, actions: tuple[Any, ...] = (), legacy: Mapping[str, int] | None = None
    ) -> Commit:
        job = self._context.job
        return Commit({**transactions(job, ledger), **(legacy or {})}, actions, {"job": job})

    def discard(self, keep: tuple[StagedBatch, ...]) -> None:
        with storage_errors(f"discard what was staged for {self.describe()}"):
            pages = self._published.record.pages()
        self._attempts.forget()
        table = self._log.load()
        ledger = self._owner.own_ledger("discard", table)
        wanted = {file.path for batch in keep for file in batch.files}
        wanted |= {file.path for file in self._log.live_files(table)} | self._log.tombstones(table)
        directories = {batch_directory(self._place, path) for path in wanted}
        with storage_errors(f"discard what was staged for {self.describe()}"):
            for directory in directories_of_batches(self._staging, self._context.fencing_epoch):
                if directory not in directories:
                    shutil.rmtree(directory, ignore_errors=True)
                    self._step("staged directory deleted")
            self._published.record.keep_only(ledger.page, pages)

    def forget(self, upto: BatchId) -> None:
        with storage_errors(f"shorten the record of {self.describe()}"):
            self._published.record.forget(upto)

    def _add(self, file: StagedFile, partitions: tuple[str, ...]) -> Any:
        path = self._place / file.path
        try:
            status = path.stat()
        except FileNotFoundError as error:
            raise lost(f"publish to {self.describe()}", path) from error
        require_size(f"publish to {self.describe()}", path, status.st_size, file)
        values = partition_of(file.path)
        if set(values) != set(partitions):
            raise Conflict(
                f"could not publish to {self.describe()}: {file.path} was staged for partitions by "
                f"{', '.join(values) or 'nothing'}, the table has {', '.join(partitions) or 'nothing'}",
                hint="restore the table's partitions: the waiting output is then published by itself",
            )
        return self._log.add(file.path, file.size, values, status.st_mtime_ns // 1_000_000, file.stats)

    def _cannot_take_back(self, target: int, obstacle: str) -> Conflict:
        return Conflict(
            f"could not rewind {self.describe()} to batch {target}: {obstacle}",
            hint="go on from the newest checkpoint, or take the rows of later batches out of the table by hand and "
            "start with --accept-sink",
        )

    def _commit(self, operation: str, plan: Callable[[Any], Commit | None]) -> None:
        self._log.commit(operation, self.describe(), plan, self._step)

    def _require_fit(self, operation: str, table: Any) -> None:
        """Checked on exactly the version that the commit lands on."""
        require_fit(f"{operation} {self.describe()}", self._fields, table, self._asked_partitions)

    def _as_run(self, context: SinkContext) -> _OneRun:
        own, described = staging_folder(context), self.describe()
        return _OneRun(
            context,
            Ownership(context, self._place, described),
            DeltaPublished(context, self._place, described, self._log, f"{own}/"),
        )

    @property
    def _staging(self) -> Path:
        return self._place / staging_folder(self._context)

    @property
    def _context(self) -> SinkContext:
        return self._used.context

    @property
    def _owner(self) -> Ownership:
        return self._used.owner

    @property
    def _published(self) -> DeltaPublished:
        return self._used.published

    @property
    def _used(self) -> _OneRun:
        if self._known is None:
            raise HoldfastError(f"{self.describe()} was used before it was opened")
        return self._known


def _number(batch: BatchId | None) -> int:
    return NOTHING if batch is None else batch
