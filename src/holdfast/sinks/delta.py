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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import Conflict, Fenced, HoldfastError, InvalidSettings, StorageError, StorageUnreachable
from holdfast.identifiers import BatchId, FencingEpoch, JobName
from holdfast.sinks.attempts import Attempts, remove_all
from holdfast.sinks.committed import write_parquet
from holdfast.sinks.delta_commits import foreign_since_own
from holdfast.sinks.delta_fit import (
    APPEND_ONLY,
    demands,
    has_deletion_vectors,
    is_append_only,
    misfits,
    staged_misfits,
)
from holdfast.sinks.delta_ledger import NOTHING, DeltaLedger, read_ledger, replace, transactions
from holdfast.sinks.delta_legacy import epoch_app, legacy_batches, legacy_ledger, legacy_lineage, made_as
from holdfast.sinks.delta_log import Commit, DeltaLog, LiveFile
from holdfast.sinks.delta_partitions import (
    MARKED,
    column_names,
    partition_of,
    require_partition_columns,
    with_marked_values,
)
from holdfast.sinks.delta_place import require_free
from holdfast.sinks.delta_proof import Checked, checked_anew, judged, last_checked, require_descendant, require_live
from holdfast.sinks.delta_statistics import delta_statistics
from holdfast.sinks.files_columns import schema_in
from holdfast.sinks.ledger import require_unbroken
from holdfast.sinks.place import local_place, owner_name
from holdfast.sinks.protocol import (
    OtherName,
    RewindPlan,
    SinkContext,
    SinkState,
    StagedBatch,
    StagedFile,
    Step,
    fingerprint,
    no_step,
    require_no_older,
    require_one_name,
)
from holdfast.sinks.published_record import (
    HIDDEN,
    Page,
    PublishedRecord,
    Recorded,
    RecordedBatch,
    RecordedFile,
    recorded,
)
from holdfast.sinks.same_place import SamePlace
from holdfast.sinks.schemas import Field, fields_of, nullable
from holdfast.sinks.staging import lost, require_opened, require_size, size_of, staged_files
from holdfast.storage.durable import storage_errors
from holdfast.storage.unique import unique_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ATTEMPTS = 50
"""How many commits of other writers may come in between; each failed attempt means that one of them made progress."""


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
        self._known: SinkContext | None = None
        self._fields: Sequence[Field] = ()
        self._checked: Checked | None = None
        self._may_leave_out = False
        """Whether the next publish may skip batches that the ledger does not have."""

    def describe(self) -> str:
        return f"delta:{self._place}"

    def look(self, context: SinkContext, spark: SparkSession, schema: StructType) -> SinkState:
        self._known = context
        self._fields = fields_of(schema.json())
        require_partition_columns(self._fields, self._asked_partitions or ())
        with storage_errors(f"look at {self.describe()}"):
            self._same_place.require(spark)
            table = self._log.load_if_there()
            if table is None:
                self._require_never_there()
                require_free(self._place, self.describe())
                return SinkState()
            self._require_fit("open", table)
            ledger = self._ledger(table)
            if ledger is None:
                self._require_never_there(table)
            else:
                self._proved(table, ledger, live=True)
            found = SinkState() if ledger is None else ledger.state()
            others = tuple(self._other_names(table))
            beside = require_one_name(context, found.fencing_epoch, others, self.describe())
        return msgspec.structs.replace(found, beside=beside)

    def _other_names(self, table: Any) -> Iterator[OtherName]:
        for folder in sorted((self._place / HIDDEN).glob("*/")):
            other = None if folder.name == self._context.job else read_ledger(table, JobName(folder.name))
            if other is not None and other.life == fingerprint(self._context.lineage):
                yield OtherName(folder.name, other.fencing_epoch, other.newest)

    def open(self, context: SinkContext, spark: SparkSession, schema: StructType) -> None:
        require_no_older(context, self.look(context, spark, schema).fencing_epoch, self.describe())
        with storage_errors(f"open {self.describe()}"):
            table = self._log.load_or_create(nullable(schema.json()), self._asked_partitions or ())
        self._step("table exists")
        self._partition_by = tuple(table.metadata().partition_columns)
        self._checked, self._may_leave_out = None, context.accept
        own = DeltaLedger(fingerprint(context.lineage), context.fencing_epoch, _claim(context))

        def fence(table: Any) -> Commit | None:
            self._require_fit("open", table)
            before = self._ledger(table)
            require_no_older(context, before.fencing_epoch if before else FencingEpoch(0), self.describe())
            self._require_may_open(before)
            if before is None or before.life != own.life:
                wanted, checked = own, checked_anew(table, DeltaLedger(own.life, FencingEpoch(0), 0), NOTHING)
            else:
                wanted, checked = self._carried_over(table, before, own)
            self._remember(checked)
            if read_ledger(table, context.job) == wanted:
                return None
            return self._commit_of(wanted, legacy=self._legacy_epoch(table))

        self._commit("open", fence)

    def published(self) -> BatchId | None:
        ledger = self._ledger(self._log.load())
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
                    self._own_ledger("stage", self._log.load())  # a newer run discards what older ones stage
                raise
        return StagedBatch(batch_id, self._context.fencing_epoch, files)

    def _require_opened(self, batch_id: BatchId) -> None:
        require_opened(batch_id, self.describe(), self._record.place_of(self._context.fencing_epoch))

    def publish(self, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> None:
        def plan(table: Any) -> Commit | None:
            before = self._own_ledger("publish", table)
            if before.published >= upto:
                return None
            checked = self._proved(table, before)
            self._require_fit("publish", table)
            if not self._may_leave_out:
                require_unbroken(before.newest, upto, ledger)
            batches = [batch for batch in ledger if before.published < batch.batch_id <= upto]
            self._require_staged_fit(table, batches)
            partitions = tuple(table.metadata().partition_columns)
            added = tuple(self._add(file, partitions) for batch in batches for file in batch.files)
            self._remember(checked)
            return self._planned(before, Page(upto, tuple(map(recorded, batches)), before.page), added)

        self._commit("publish", plan)
        self._may_leave_out = False
        self._remove_unnamed(self._attempts.superseded(upto))

    def _require_staged_fit(self, table: Any, batches: Sequence[StagedBatch]) -> None:
        """What an earlier run staged has the columns of its query, which may have been changed since, with the table.
        All files of a run have the same columns."""
        earlier = [batch for batch in batches if batch.files and batch.fencing_epoch != self._context.fencing_epoch]
        for file in {batch.fencing_epoch: batch.files[0] for batch in earlier}.values():
            schema = schema_in(self._place / file.path) if size_of(self._place / file.path) == file.size else None
            if schema is not None and (lines := staged_misfits(fields_of(schema), table)):
                raise Conflict(
                    f"could not publish to {self.describe()}: {file.path} was staged by an earlier run, for other "
                    "columns:\n  " + "\n  ".join(lines),
                    hint="give the table these columns back, with the query that staged them: then what waits is "
                    "published by itself; or make its batches anew: --from-checkpoint, one before them",
                )

    def _remove_unnamed(self, directories: list[Path]) -> None:
        """Remove the directories of which the table's log names no file, not even a deleted one."""
        if directories:
            table = self._log.load()
            named = {file.path for file in self._log.live_files(table)} | self._log.tombstones(table)
            used = {self._batch_directory(path) for path in named}
            remove_all(directory for directory in directories if directory not in used)

    def first_made_after(self, run: FencingEpoch) -> BatchId | None:
        with storage_errors(f"look at {self.describe()}"):
            table = self._log.load_if_there()
            ledger = None if table is None else self._ledger(table)
            if ledger is None:
                return None
            made = [(batch.batch_id, batch.made_by) for batch in self._recorded(table, ledger, NOTHING).batches]
            # For batches that the record no longer holds, the file names tell, unless another writer rewrote the files.
            own = f"{self._staging.name}/"
            made += [made_as(file.path) for file in self._log.live_files(table) if file.path.startswith(own)]
            return min((batch for batch, epoch in made if epoch > run and batch <= ledger.published), default=None)

    def lost(self, batches: tuple[StagedBatch, ...]) -> tuple[str, ...]:
        with storage_errors(f"look at {self.describe()}"):
            files = [file for batch in batches for file in batch.files]
            return tuple(file.path for file in files if size_of(self._place / file.path) != file.size)

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
            checked = self._proved(table, before)
            rewinding, unwanted = self._rewinding(table, before, target)
            if rewinding.obstacle is not None:
                raise self._cannot_take_back(target, rewinding.obstacle)
            now_ms = int(self._clock() * 1000)
            removed = tuple(self._log.remove(file, now_ms) for file in unwanted)
            self._remember(msgspec.structs.replace(checked, published=target, rewritten=min(checked.rewritten, target)))
            return self._planned(before, Page(target, (), before.page), removed)

        self._commit("rewind", plan)

    def _planned(self, before: DeltaLedger, page: Page, actions: tuple[Any, ...]) -> Commit:
        """The page is written before the commit that makes it valid."""
        with storage_errors(f"record what is published in {self.describe()}"):
            number = self._record.write(page)
        self._step("recorded")
        return self._commit_of(replace(before, page.upto, number), actions)

    def _commit_of(
        self, ledger: DeltaLedger, actions: tuple[Any, ...] = (), legacy: Mapping[str, int] | None = None
    ) -> Commit:
        job = self._context.job
        return Commit({**transactions(job, ledger), **(legacy or {})}, actions, {"job": job})

    def _rewinding(self, table: Any, ledger: DeltaLedger, target: int) -> tuple[RewindPlan, list[LiveFile]]:
        """The plan of a rewind, and its files. With `accept`, missing files are ignored, and files that the record no
        longer holds are recognized by their names."""
        known = self._recorded(table, ledger, target)
        live = {file.path: file for file in self._log.live_files(table)}
        files = [file for batch in known.batches for file in batch.files]
        named = self._named_after(target, live) if self._context.accept else []
        unwanted = list(dict.fromkeys([*(file.path for file in files if file.path in live), *named]))
        return self._plan_without(table, ledger, target, known, [live[path] for path in unwanted])

    def _named_after(self, target: int, live: Mapping[str, LiveFile]) -> list[str]:
        own = f"{self._staging.name}/"
        return [path for path in live if path.startswith(own) and made_as(path)[0] > target]

    def _plan_without(
        self, table: Any, ledger: DeltaLedger, target: int, known: Recorded, unwanted: list[LiveFile]
    ) -> tuple[RewindPlan, list[LiveFile]]:
        files = [file for batch in known.batches for file in batch.files]
        there = {file.path for file in unwanted}
        obstacle = None
        if is_append_only(table):
            obstacle = f"the table takes no deletions ({APPEND_ONLY}=true)"
        elif has_deletion_vectors(table) and (marked := self._log.with_deletion_vectors(table) & there):
            obstacle = f"another writer has deleted rows of later batches (deletion vectors of {len(marked)} files)"
        elif not known.complete and not self._context.accept:
            obstacle = f"what all batches after {target} consist of is not recorded in {self._place}/{HIDDEN}"
        elif len(there) < len(files) and not self._context.accept:
            obstacle = (
                f"another writer (OPTIMIZE, DELETE, UPDATE) has rewritten {len(files) - len(there)} of the "
                f"{len(files)} files of later batches, so their rows cannot be told apart any more"
            )
        gone = sum(file.rows for file in files if file.path not in there)
        plan = RewindPlan(
            max(0, ledger.published - target), len(unwanted), sum(file.rows for file in unwanted), obstacle, gone
        )
        return plan, unwanted

    def _recorded(self, table: Any, ledger: DeltaLedger, after: int) -> Recorded:
        with storage_errors(f"read what is published in {self.describe()}"):
            if read_ledger(table, self._context.job) is None:
                batches = tuple(batch for batch in self._legacy_batches(table, ledger) if batch.batch_id > after)
                return Recorded(batches, len(batches) == ledger.published - after)
            return self._record.read(ledger.page, after, ledger.published)

    def discard(self, keep: tuple[StagedBatch, ...]) -> None:
        with storage_errors(f"discard what was staged for {self.describe()}"):
            pages = self._record.pages()
        self._attempts.forget()
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
            self._record.keep_only(ledger.page, pages)

    def forget(self, upto: BatchId) -> None:
        with storage_errors(f"shorten the record of {self.describe()}"):
            self._record.forget(upto)

    def _require_never_there(self, table: Any = None) -> None:
        """Refuse to create a ledger where this lineage of the job had a table, and the present table does not have its
        ledger."""
        last = last_checked(self._record.place(), fingerprint(self._context.lineage))
        if last is not None and last.published != NOTHING and not self._context.accept:
            if table is not None:
                require_descendant(self.describe(), table, None, last)
            raise Conflict(
                f"could not use {self.describe()}: there is no table any more; it was table {last.id} at version "
                f"{last.version} with batches up to {last.published}",
                hint="bring the table back, or go on with a new one, without the rows of these batches: --accept-sink",
            )

    def _proved(self, table: Any, ledger: DeltaLedger, *, live: bool = False) -> Checked:
        """Proves that the published rows of this lineage are there. Reads only."""
        life = fingerprint(self._context.lineage)
        if ledger.life != life:
            return checked_anew(table, ledger, NOTHING)
        last = self._checked or last_checked(self._record.place(), life)
        if self._context.accept and self._checked is None:
            return checked_anew(table, ledger, ledger.published)
        commits: Sequence[Mapping[str, Any]]
        if last is None:
            commits = foreign_since_own(self._log.history(table), self._context.job)
        else:
            require_descendant(self.describe(), table, ledger, last)
            commits = self._log.commits_since(table, last.version)
        rewrote = judged(self.describe(), commits, ledger)
        rewritten = ledger.published if rewrote or last is None else last.rewritten
        if live and rewritten < ledger.published:
            self._require_live(table, ledger, rewritten)
        return checked_anew(table, ledger, rewritten)

    def _require_live(self, table: Any, ledger: DeltaLedger, after: int) -> None:
        known = self._record.read(ledger.page, after, ledger.published)
        files = [file for batch in known.batches for file in batch.files]
        require_live(self.describe(), self._place, files, {file.path: file for file in self._log.live_files(table)})

    def _remember(self, checked: Checked) -> None:
        """Called before the commit: a commit after the checked version is our own, or is checked the next time."""
        with storage_errors(f"record what was checked of {self.describe()}"):
            if checked != self._checked:
                self._record.remember_place(self._context.fencing_epoch, checked.values())
        self._checked = checked

    def _carried_over(self, table: Any, before: DeltaLedger, own: DeltaLedger) -> tuple[DeltaLedger, Checked]:
        checked = self._proved(table, before)
        page = before.page
        if before.published != NOTHING and read_ledger(table, self._context.job) is None:
            page = self._record.write(Page(before.published, self._legacy_batches(table, before)))
        return replace(own, before.published, page), checked

    def _legacy_batches(self, table: Any, ledger: DeltaLedger) -> tuple[RecordedBatch, ...]:
        lineage = legacy_lineage(self._place, table, self._context)
        files = [RecordedFile(file.path, file.size, file.rows) for file in self._log.live_files(table)]
        history = self._log.history(table)
        return legacy_batches(history, files, self._context.job, lineage or "", ledger.published)

    def _legacy_epoch(self, table: Any) -> Mapping[str, int]:
        """Fences a run of version 0.1.0 that is still alive, too."""
        app = epoch_app(self._context.job, self._context.lineage)
        return {} if table.transaction_version(app) is None else {app: self._context.fencing_epoch}

    def _commit(self, operation: str, plan: Callable[[Any], Commit | None]) -> None:
        """Call `plan` with the newest table and commit its result, until it returns None or the commit succeeds."""
        tried: int | None = None
        failure: Exception | None = None
        for _ in range(_ATTEMPTS):
            table = self._log.load()
            with storage_errors(f"{operation} {self.describe()}"):
                wanted = plan(table)
            self._step(f"{operation}: planned")
            if wanted is None:
                break
            if failure is not None and table.version() == tried:
                break  # it failed, but not because of another commit
            tried, failure = table.version(), self._log.try_commit(table, wanted)
            if failure is None:
                self._step(f"{operation}: committed")
                wanted, table = None, self._log.load()
                break
        if wanted is not None:
            raise StorageUnreachable(f"could not {operation} {self.describe()}: {failure}") from failure
        with storage_errors(f"flush the log of {self.describe()}"):
            self._log.flush(table.version())

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
                hint="give the table its partitions back; then what waits is published by itself",
            )
        return self._log.add(file.path, file.size, values, status.st_mtime_ns // 1_000_000, file.stats)

    def _cannot_take_back(self, target: int, obstacle: str) -> Conflict:
        return Conflict(
            f"could not rewind {self.describe()} to batch {target}: {obstacle}",
            hint="go on from the newest checkpoint, or take the rows of later batches out of the table by hand and "
            "start with --accept-sink",
        )

    def _require_fit(self, operation: str, table: Any) -> None:
        """Checked on exactly the version that the commit lands on."""
        lines = [*demands(table), *misfits(self._fields, table)]
        if lines:
            raise InvalidSettings(
                f"could not {operation} {self.describe()}: the table asks what this sink does not do, or the query's "
                "columns do not fit:\n  " + "\n  ".join(lines),
                hint="change the query, change the table, or write to a new one",
            )
        existing = tuple(table.metadata().partition_columns)
        require_partition_columns(self._fields, existing)
        if self._asked_partitions is not None and self._asked_partitions != existing:
            shown = ", ".join(existing) or "nothing"
            raise InvalidSettings.of(
                "partition_by", list(self._asked_partitions), f"the table is partitioned by {shown}"
            )

    def _ledger(self, table: Any) -> DeltaLedger | None:
        found = read_ledger(table, self._context.job)
        if found is None and (lineage := legacy_lineage(self._place, table, self._context)) is not None:
            return legacy_ledger(table, self._context.job, lineage)
        return found

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
    """Whether both claims are known, and they differ."""
    return bool(one and other and one != other)


def _directories(parent: Path) -> list[Path]:
    """Without symbolic links: their targets do not belong to this sink."""
    if parent.is_symlink() or not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.is_dir() and not path.is_symlink())
