"""Exactly-once output to a directory of Parquet files, published by rename.

Rename has no condition, so a run that was overtaken may still do the one rename or deletion that it had decided on
before. These rules make that harmless:

  1. Every call first looks for the marker of a newer run and ends there (`Fenced`); `open` writes its own marker before
     it reads the older ones. So a call that gets past the look began before the newer run's `open` returned.
  2. A file has one visible name, the same for whoever publishes it. An overtaken `publish` can only do what the newer
     run does as well, or show files beyond the newer run's resume point.
  3. Against the latter, the newer run first renames the staged directories beyond its resume point away, then removes
     the visible files beyond it. Once the sources are gone the overtaken run can show nothing more; what it showed
     before is removed. Directories staged later belong to calls that rule 1 ends.
  4. A rewind records its target in its marker before it removes anything, then looks for a newer run once more. So
     either it ends there, or the newer run reads that target: it never takes for published what is being removed. An
     overtaken run removes only what itself or older runs staged, beyond a target that the journal has made final.
  5. A marker moves forward only after every rename it speaks of is on the disk.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import Fenced, HoldfastError, InvalidSettings
from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.sinks.durable import flush, storage_errors
from holdfast.sinks.files_layout import FilesLayout, Marker
from holdfast.sinks.ledger import require_unbroken
from holdfast.sinks.place import local_place, owner_name, require
from holdfast.sinks.protocol import RewindPlan, SinkContext, SinkState, StagedBatch, Step, fingerprint, no_step
from holdfast.sinks.schemas import changed_types, fields_of
from holdfast.sinks.staging import lost, staged_files, write_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Files:
    """Exactly-once output to Parquet files in the directory `place`, created when absent.

    Publishing a checkpoint is a series of renames: for a moment a reader may see a part of a checkpoint, but never a
    row twice and never a row of a checkpoint that did not complete. Use `Delta` where readers need whole checkpoints.
    """

    def __init__(
        self, place: str | Path, *, step: Step = no_step, unique: Callable[[], str] = lambda: uuid.uuid4().hex[:12]
    ) -> None:
        self._place = local_place("files", place)
        require("pyarrow.parquet", "files")
        self._step = step
        self._unique = unique
        self._opened: tuple[SinkContext, FilesLayout] | None = None
        self._may_leave_out = False
        """Whether the next publish may leave batches out that the ledger does not have."""

    def describe(self) -> str:
        return f"files:{self._place}"

    def look(self, context: SinkContext, spark: SparkSession, schema: StructType) -> SinkState:
        self._opened = (context, FilesLayout(self._place, owner_name(context)))
        with storage_errors(f"look at {self.describe()}"):
            newest = self._layout.newest_run()
            if newest is None:
                return SinkState()
            return SinkState(fingerprint(context.lineage), newest, None, self.published())

    def open(self, context: SinkContext, spark: SparkSession, schema: StructType) -> None:
        layout = FilesLayout(self._place, owner_name(context))
        self._opened = (context, layout)
        self._may_leave_out = context.accept
        with storage_errors(f"open {self.describe()}"):
            layout.make()
            self._refuse_if_fenced("open")
            if layout.markers().get(self._epoch, Marker(claim=True)).claim:
                layout.write_marker(self._epoch, Marker(claim=True))
                self._step("open: claimed")
                layout.write_marker(self._epoch, self._left_by_older_runs())
                self._step("open: carried over")
            self._require_fit(schema.json())
            self._refuse_if_fenced("open")

    def published(self) -> BatchId | None:
        with storage_errors(f"read what is published in {self.describe()}"):
            return next((m.batch_id for m in self._layout.markers().values() if not m.claim), None)

    def stage(self, batch: DataFrame, batch_id: BatchId) -> StagedBatch:
        directory = self._layout.staging(self._epoch, batch_id, self._unique())
        write_parquet(batch, directory)
        self._step("written")
        with storage_errors(f"stage batch {batch_id} for {self.describe()}"):
            files = staged_files(self._place, directory)
        return StagedBatch(batch_id, self._epoch, files)

    def publish(self, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> None:
        with storage_errors(f"publish to {self.describe()}"):
            published = self._finish_rewind("publish")
            if published is not None and published >= upto:
                return
            if not self._may_leave_out:
                require_unbroken(published, upto, ledger)
            batches = [b for b in ledger if (published is None or b.batch_id > published) and b.batch_id <= upto]
            for source, target in (move for batch in batches for move in self._layout.moves(batch)):
                self._show(source, target)
            flush(self._place)
            self._refuse_if_fenced("publish")
            self._step("publish: all visible")
            self._layout.write_marker(self._epoch, Marker(upto))
            self._may_leave_out = False
            self._step("publish: recorded")
            for source in {move[0].parent for batch in batches for move in self._layout.moves(batch)}:
                shutil.rmtree(source, ignore_errors=True)

    def plan_rewind(self, upto: BatchId | None) -> RewindPlan:
        with storage_errors(f"look at {self.describe()}"):
            published = self.published()
            if published is None or (upto is not None and published <= upto):
                return RewindPlan()
            files = [file for file in self._layout.visible() if upto is None or file.batch_id > upto]
            parquet = require("pyarrow.parquet", "files")
            rows = sum(parquet.read_metadata(file.path).num_rows for file in files)
            return RewindPlan(published - (-1 if upto is None else upto), len(files), rows)

    def rewind(self, upto: BatchId | None) -> None:
        with storage_errors(f"rewind {self.describe()}"):
            published = self._finish_rewind("rewind")
            if published is None or (upto is not None and published <= upto):
                return
            self._layout.write_marker(self._epoch, Marker(upto, taken_back_by=self._epoch))
            self._step("rewind: target recorded")
            self._finish_rewind("rewind")

    def discard(self, keep: tuple[StagedBatch, ...]) -> None:
        with storage_errors(f"discard what was staged for {self.describe()}"):
            published = self._finish_rewind("discard")
            kept = {source.parent for batch in keep for source, _ in self._layout.moves(batch)}
            self._take_away_staged(lambda directory, _: directory not in kept, self._epoch)
            wanted = {target: source for batch in keep for source, target in self._layout.moves(batch)}
            self._hide_visible(published, self._epoch, wanted)
            self._layout.forget_runs_before(self._epoch)
            self._empty_trash()

    def forget(self, upto: BatchId) -> None:
        pass

    def _finish_rewind(self, operation: str) -> BatchId | None:
        """What is published, after completing a rewind that this run or an older one began."""
        self._refuse_if_fenced(operation)
        marker = self._layout.markers().get(self._epoch)
        if marker is None or marker.claim:
            self._refuse_if_fenced(operation)  # a newer run deletes the markers of older ones
            raise HoldfastError(
                f"could not {operation} {self.describe()}: it no longer knows this run; it was replaced meanwhile",
                hint="bring the directory back, or start again with --accept-sink to go on from what is there",
            )
        if marker.taken_back_by is not None:
            after = marker.batch_id
            self._take_away_staged(lambda _, batch: after is None or batch > after, marker.taken_back_by)
            self._hide_visible(after, marker.taken_back_by, {})
            self._layout.write_marker(self._epoch, Marker(after))
            self._step("rewind: done")
            self._empty_trash()
        return marker.batch_id

    def _show(self, source: Path, target: Path) -> None:
        self._refuse_if_fenced("publish")
        self._step("publish: file next")
        try:
            os.rename(source, target)
        except FileNotFoundError as error:
            if not target.exists():
                self._refuse_if_fenced("publish")
                raise lost(f"publish to {self.describe()}", source) from error

    def _take_away_staged(self, unwanted: Callable[[Path, BatchId], bool], newest: FencingEpoch) -> None:
        """Rename unwanted staged directories away, each at once, so that nobody can publish from them."""
        for directory in self._layout.staged():
            if directory.fencing_epoch <= newest and unwanted(directory.path, directory.batch_id):
                self._refuse_if_fenced("discard")
                self._step("staged directory next")
                with suppress(FileNotFoundError):
                    os.rename(directory.path, self._layout.trash / f"{directory.path.name}-{self._unique()}")

    def _hide_visible(self, after: BatchId | None, newest: FencingEpoch, wanted: dict[Path, Path]) -> None:
        """Remove visible files of batches later than `after`; those in `wanted` go back to where they were staged."""
        for file in list(self._layout.visible()):
            if file.fencing_epoch > newest or (after is not None and file.batch_id <= after):
                continue
            self._refuse_if_fenced("discard")
            self._step("visible file next")
            with suppress(FileNotFoundError):
                if file.path in wanted:
                    os.rename(file.path, wanted[file.path])
                else:
                    os.unlink(file.path)
        flush(self._place)
        self._step("visible files gone")

    def _empty_trash(self) -> None:
        for path in self._layout.trash.iterdir():
            shutil.rmtree(path, ignore_errors=True)

    def _left_by_older_runs(self) -> Marker:
        older = [marker for epoch, marker in self._layout.markers().items() if epoch < self._epoch]
        return next((marker for marker in older if not marker.claim), Marker())

    def _require_fit(self, schema_json: str) -> None:
        """Columns may come and go between runs; one that changes its type would make the directory unreadable."""
        before = self._layout.newest_schema()
        if before is not None and self.published() is not None:
            lines = changed_types(fields_of(schema_json), fields_of(before))
            if lines:
                raise InvalidSettings(
                    "\n  ".join([f"could not open {self.describe()}: columns have changed their type:", *lines]),
                    hint="cast them back, or write to a new directory",
                )
        self._layout.write_schema(self._epoch, schema_json)

    def _refuse_if_fenced(self, operation: str) -> None:
        newest = self._layout.newest_run()
        if newest is not None and newest > self._epoch:
            raise Fenced(
                f"could not {operation} {self.describe()} as run {self._epoch}: run {newest} has opened it since",
                hint="stop this run; the newer one owns the job",
            )

    @property
    def _epoch(self) -> FencingEpoch:
        return self._state[0].fencing_epoch

    @property
    def _layout(self) -> FilesLayout:
        return self._state[1]

    @property
    def _state(self) -> tuple[SinkContext, FilesLayout]:
        if self._opened is None:
            raise HoldfastError(f"{self.describe()} was used before it was opened")
        return self._opened
