"""Exactly-once output to a Delta table.

    <table>/_delta_log/                                                  decides what readers see
    <table>/holdfast-<job>-<lineage>/<fencing_epoch>/<batch>-<unique>/   staged files; publishing does not move them

Two transaction ids of the table's log carry everything:

    holdfast:<job>:<lineage>         version = the newest published batch, -1 after a rewind to nothing
    holdfast-epoch:<job>:<lineage>   version = fencing_epoch of the newest run that opened the table

Invariants
  1. A commit of this sink lands directly on the version whose two transaction ids it has just checked, or not at all.
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

from holdfast.errors import Fenced, HoldfastError, InvalidSettings, StorageUnreachable
from holdfast.identifiers import BatchId
from holdfast.sinks.delta_log import Commit, DeltaLog, LiveFile, published_files
from holdfast.sinks.delta_partitions import column_names, partition_of, require_partition_columns
from holdfast.sinks.delta_statistics import delta_statistics
from holdfast.sinks.durable import storage_errors
from holdfast.sinks.place import local_place, owner_name
from holdfast.sinks.protocol import SinkContext, StagedBatch, StagedFile, Step, no_step
from holdfast.sinks.schemas import differences, fields_of, nullable
from holdfast.sinks.staging import lost, staged_files, write_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NOTHING = -1
"""The version of the transaction id that stands for "no batch"."""
_ATTEMPTS = 50
"""Commits of other writers that may come in between; each failed attempt means that one of them made progress."""
_HISTORY_STEP = 64


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
        self._opened: SinkContext | None = None

    def describe(self) -> str:
        return f"delta:{self._place}"

    def open(self, context: SinkContext, spark: SparkSession, schema: StructType) -> None:
        ours = fields_of(schema.json())
        require_partition_columns(ours, self._asked_partitions or ())
        with storage_errors(f"open {self.describe()}"):
            table = self._log.load_or_create(nullable(schema.json()), self._asked_partitions or ())
        self._step("table exists")
        self._require_fit(table, schema)
        self._partition_by = tuple(table.metadata().partition_columns)
        require_partition_columns(ours, self._partition_by)
        self._opened = context

        def fence(table: Any) -> Commit | None:
            if table.transaction_version(self._epoch_app) == context.fencing_epoch:
                return None
            return Commit({self._epoch_app: context.fencing_epoch})

        self._commit("open", fence)

    def published(self) -> BatchId | None:
        return self._published(self._log.load())

    def stage(self, batch: DataFrame, batch_id: BatchId) -> StagedBatch:
        directory = self._staging / str(self._context.fencing_epoch) / f"{batch_id}-{self._unique()}"
        write_parquet(batch, directory, self._partition_by)
        self._step("written")
        with storage_errors(f"stage batch {batch_id} for {self.describe()}"):
            files = staged_files(self._place, directory, delta_statistics)
        return StagedBatch(batch_id, self._context.fencing_epoch, files)

    def publish(self, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> None:
        def plan(table: Any) -> Commit | None:
            self._require_own_epoch("publish", table)
            published = self._published(table)
            if published is not None and published >= upto:
                return None
            batches = [b for b in ledger if (published is None or b.batch_id > published) and b.batch_id <= upto]
            return Commit(
                {self._app: upto},
                tuple(self._add(file) for batch in batches for file in batch.files),
                {"app": self._app, "published": upto, "files": {str(b.batch_id): len(b.files) for b in batches}},
            )

        self._commit("publish", plan)

    def rewind(self, upto: BatchId | None) -> None:
        target = _NOTHING if upto is None else upto

        def plan(table: Any) -> Commit | None:
            self._require_own_epoch("rewind", table)
            published = self._published(table)
            if published is None or published <= target:
                return None
            unwanted = self._own_live_files(table, after=target)
            self._require_whole(table, unwanted, target)
            now_ms = int(self._clock() * 1000)
            removals = tuple(self._log.remove(file, now_ms) for file in unwanted)
            note = {"app": self._app, "published": target, "rewound": True}
            return Commit({self._app: target}, removals, note)

        self._commit("rewind", plan)
        table = self._log.load()
        self._require_own_epoch("rewind", table)
        if self._own_live_files(table, after=target):
            raise self._cannot_take_back(target)

    def discard(self, keep: tuple[StagedBatch, ...]) -> None:
        table = self._log.load()
        self._require_own_epoch("discard", table)
        wanted = {file.path for batch in keep for file in batch.files}
        wanted |= {file.path for file in self._log.live_files(table)} | self._log.tombstones(table)
        directories = {self._batch_directory(path) for path in wanted}
        with storage_errors(f"discard what was staged for {self.describe()}"):
            for directory in self._staged_directories():
                if directory not in directories:
                    shutil.rmtree(directory, ignore_errors=True)
                    self._step("staged directory deleted")

    def _commit(self, operation: str, plan: Callable[[Any], Commit | None]) -> None:
        """Make `plan` come true: it is shown the newest table until it wants nothing more or its commit stands."""
        tried: int | None = None
        failure: Exception | None = None
        for _ in range(_ATTEMPTS):
            table = self._log.load()
            self._refuse_if_fenced(operation, table)
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
        return self._log.add(file.path, file.size, partition_of(file.path), status.st_mtime_ns // 1_000_000, file.stats)

    def _published(self, table: Any) -> BatchId | None:
        version = table.transaction_version(self._app)
        return None if version is None or version == _NOTHING else BatchId(version)

    def _own_live_files(self, table: Any, after: int) -> list[LiveFile]:
        prefix = f"{self._staging.name}/"
        return [f for f in self._log.live_files(table) if f.path.startswith(prefix) and _batch_of(f.path) > after]

    def _require_whole(self, table: Any, live: list[LiveFile], target: int) -> None:
        """Refuse to rewind when others have rewritten the rows to be taken back: they would stay visible."""
        limit = _HISTORY_STEP
        while True:
            history = table.history(limit)
            expected, complete = published_files(history, self._app, target)
            if complete or len(history) < limit:
                break
            limit *= 4
        for batch, count in expected.items():
            if sum(1 for file in live if _batch_of(file.path) == batch) < count:
                raise self._cannot_take_back(target)

    def _cannot_take_back(self, target: int) -> HoldfastError:
        return HoldfastError(
            f"could not rewind {self.describe()} to batch {target}: another writer (OPTIMIZE, DELETE, UPDATE) has "
            "rewritten rows of later batches, so they cannot be told apart any more",
            hint=f"restore the table to a version before that, or delete the rows of job {self._context.job!r} by hand",
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

    def _refuse_if_fenced(self, operation: str, table: Any) -> None:
        newest = table.transaction_version(self._epoch_app)
        own = self._context.fencing_epoch
        if newest is not None and newest > own:
            raise Fenced(
                f"could not {operation} {self.describe()} as run {own} of job {self._context.job!r}: "
                f"run {newest} has opened it since",
                hint="stop this run; the newer one owns the job",
            )

    def _require_own_epoch(self, operation: str, table: Any) -> None:
        self._refuse_if_fenced(operation, table)
        if table.transaction_version(self._epoch_app) != self._context.fencing_epoch:
            raise HoldfastError(
                f"could not {operation} {self.describe()}: the table no longer knows this run; it was replaced",
                hint="bring the table back, or start the job under a new name",
            )

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
    def _app(self) -> str:
        return f"holdfast:{self._context.job}:{self._context.lineage}"

    @property
    def _epoch_app(self) -> str:
        return f"holdfast-epoch:{self._context.job}:{self._context.lineage}"

    @property
    def _context(self) -> SinkContext:
        if self._opened is None:
            raise HoldfastError(f"{self.describe()} was used before it was opened")
        return self._opened


def _directories(parent: Path) -> list[Path]:
    return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []


def _batch_of(path: str) -> int:
    """The batch that staged a file: holdfast-<job>-<lineage>/<fencing_epoch>/<batch>-<unique>/…"""
    return int(path.split("/")[2].partition("-")[0])
