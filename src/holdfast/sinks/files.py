"""Exactly-once output to a directory of Parquet files, published by rename.

Rename is unconditional, so a run that a newer run has fenced may still do the one rename or deletion that it had
already decided on. These rules make that harmless:

  1. Every call first looks for the marker of a newer run and ends there (`Fenced`); `open` writes its own marker before
     it reads the older ones. So a call that gets past the look began before the newer run's `open` returned.
  2. A file has one visible name, the same for every run that publishes it. A `publish` of a fenced run can only do what
     the newer run does as well, or show files beyond the newer run's resume point.
  3. Against the latter, the newer run first moves the staged directories beyond its resume point to the trash, then
     removes the visible files beyond it. Once the sources are gone the fenced run can show nothing more; what it showed
     before is removed. Directories staged later belong to calls that rule 1 ends.
  4. A rewind records its target in its marker before it removes anything, then looks for a newer run once more. So
     either it ends there, or the newer run reads that target and never counts files as published that are being
     removed. A fenced run removes only what it or older runs staged, beyond a target that the journal has made final.
  5. A marker advances only after every rename that it covers is on the disk.
  6. The visible files of a batch are in a record that was written before; the marker names its newest page. So
     published files are proved one by one, at `open` and before each `publish`, whatever other writers did.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import Conflict, HoldfastError
from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.sinks import files_columns, files_proof
from holdfast.sinks.attempts import Attempts, remove_all
from holdfast.sinks.committed import write_parquet
from holdfast.sinks.files_layout import FilesLayout, Life, Marker, life_of
from holdfast.sinks.files_moves import FilesMoves
from holdfast.sinks.files_ownership import LOOKING, FilesOwnership
from holdfast.sinks.files_survey import another_life, newest_published, published_beside, survey, written
from holdfast.sinks.ledger import require_unbroken
from holdfast.sinks.place import local_place, require
from holdfast.sinks.protocol import (
    RewindPlan,
    SinkContext,
    SinkState,
    StagedBatch,
    Step,
    no_step,
    require_no_older,
)
from holdfast.sinks.published_record import Page, RecordedBatch, recorded
from holdfast.sinks.same_place import SamePlace
from holdfast.sinks.staging import require_opened, staged_files
from holdfast.storage.durable import flush, storage_errors
from holdfast.storage.unique import unique_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class _FilesOfOneRun:
    """The directory as one run knows it."""

    owner: FilesOwnership
    moves: FilesMoves


class Files:
    """Exactly-once output to Parquet files in the directory `place`, created when absent.

    Publishing a checkpoint is a series of renames: for a moment a reader may see a part of a checkpoint, but never a
    row twice and never a row of a checkpoint that did not complete. Use `Delta` where readers need whole checkpoints.

    The directory belongs to this sink: other jobs of holdfast may share it, other writers may add files. If another
    writer deletes or rewrites published files, the next publish fails until an operator accepts that.
    """

    def __init__(
        self, place: str | Path, *, step: Step = no_step, unique: Callable[[], str] = lambda: unique_name()[:12]
    ) -> None:
        self._place = local_place("files", place)
        require("pyarrow.parquet", "files")
        self._same_place = SamePlace(self._place, self.describe())
        self._step = step
        self._unique = unique
        self._known: _FilesOfOneRun | None = None
        self._gap_allowed = False
        self._attempts = Attempts()

    def describe(self) -> str:
        return f"files:{self._place}"

    def look(self, context: SinkContext, spark: SparkSession, schema: StructType) -> SinkState:
        with storage_errors(f"look at {self.describe()}"):
            self._same_place.require(spark)
            life = survey(self._place, self.describe(), context, schema.json())
            if life is None:
                self._known = self._as_run(context, life_of(context.lineage))
                return SinkState(beside=published_beside(self._place, self.describe(), context, None))
            self._known = self._as_run(context, life)
            if not context.accept and life.life == life_of(context.lineage).life:
                self._owner.require_published_files(LOOKING, folded=True)
            markers = self._layout.markers()
            newest = next(iter(markers), FencingEpoch(0))
            run = markers[newest].run if markers else None
            published, beside = (
                newest_published(markers).batch_id,
                published_beside(self._place, self.describe(), context, newest),
            )
            return SinkState(life.life, newest, run, published, beside)

    def open(self, context: SinkContext, spark: SparkSession, schema: StructType) -> None:
        with storage_errors(f"open {self.describe()}"):
            self._same_place.require(spark)
            own = life_of(context.lineage)
            life = survey(self._place, self.describe(), context, schema.json())
            if life is not None and life.life != own.life and not context.new_life:
                raise another_life(self._place, self.describe(), context, life)
            self._known = self._as_run(context, own)
            self._layout.require_no_links(self._epoch)
            self._owner.refuse_if_fenced("open")
            require_no_older(context, self._layout.newest_run() or FencingEpoch(0), self.describe())
            published_beside(self._place, self.describe(), context, self._layout.newest_run())
            self._owner.require_own_claim()
            if not context.accept:
                self._owner.require_published_files("open", folded=True)
            self._owner.opens()
            self._owner.take(life)
            self._layout.write_schema(self._epoch, schema.json())
            self._owner.refuse_if_fenced("open")
        self._gap_allowed = context.accept

    def published(self) -> BatchId | None:
        with storage_errors(f"read what is published in {self.describe()}"):
            return newest_published(self._layout.markers()).batch_id

    def stage(self, batch: DataFrame, batch_id: BatchId) -> StagedBatch:
        self._layout.require_no_links(self._epoch)
        directory = self._layout.staging(self._epoch, batch_id, self._unique())
        with self._attempts.staging(batch_id, directory):
            try:
                self._require_opened(batch_id)  # Spark's writer creates missing folders
                written = write_parquet(batch, directory)
                self._step("written")
                with storage_errors(f"stage batch {batch_id} for {self.describe()}"):
                    files = staged_files(self._place, directory, written)
                self._require_opened(batch_id)
            except HoldfastError:
                self._owner.refuse_if_fenced("stage")  # a newer run discards what older ones stage
                raise
        return StagedBatch(batch_id, self._epoch, files)

    def _require_opened(self, batch_id: BatchId) -> None:
        require_opened(batch_id, self.describe(), self._layout.marker_path(self._epoch))

    def publish(self, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> None:
        with storage_errors(f"publish to {self.describe()}"):
            marker = self._finish_rewind("publish")
            published = marker.batch_id
            if published is not None and published >= upto:
                return
            self._owner.require_published_files("publish", folded=False)
            if not self._gap_allowed:
                require_unbroken(published, upto, ledger)
            batches = [b for b in ledger if (published is None or b.batch_id > published) and b.batch_id <= upto]
            moves = {batch.batch_id: self._layout.moves(batch) for batch in batches}
            self._moves.require_staged(batches)
            self._remember_columns({batch.fencing_epoch for batch in batches})
            first = 0 if published is None else published + 1
            page = self._layout.record.write(Page(upto, _written_down(first, upto, batches, moves), marker.record))
            self._step("publish: written down")
            for source, target in (move for batch in batches for move in moves[batch.batch_id]):
                self._moves.show(source, target)
            flush(self._place)
            self._owner.refuse_if_fenced("publish")
            self._step("publish: all visible")
            self._owner.write(msgspec.structs.replace(marker, batch_id=upto, record=page))
            self._gap_allowed = False
            self._step("publish: recorded")
            # Published files are not there any more.
            remove_all(self._attempts.superseded(upto))
            for source in {source.parent for batch in batches for source, _ in moves[batch.batch_id]}:
                shutil.rmtree(source, ignore_errors=True)

    def first_made_after(self, run: FencingEpoch) -> BatchId | None:
        with storage_errors(f"look at {self.describe()}"):
            marker = newest_published(self._layout.markers())
            if (published := marker.batch_id) is None:
                return None
            made = [(batch.batch_id, batch.made_by) for batch in files_proof.recorded(self._layout, marker).batches]
            made += [(file.batch_id, file.fencing_epoch) for file in self._layout.visible()]
            return min((batch for batch, epoch in made if epoch > run and batch <= published), default=None)

    def lost(self, batches: tuple[StagedBatch, ...]) -> tuple[str, ...]:
        with storage_errors(f"look at {self.describe()}"):
            marker = newest_published(self._layout.markers())
            going = [batch for batch in batches if _is_being_taken_back(batch, marker)]
            found = self._moves.found(batch for batch in batches if batch not in going)
            gone = [file.path for file, _, size in found if size != file.size]
            return (*(file.path for batch in going for file in batch.files), *gone)

    def plan_rewind(self, upto: BatchId | None) -> RewindPlan:
        with storage_errors(f"plan a rewind of {self.describe()}"):
            marker = newest_published(self._layout.markers())
            after = -1 if upto is None else upto
            if marker.batch_id is None or marker.batch_id <= after:
                return RewindPlan()
            known = [
                file for batch in files_proof.recorded(self._layout, marker, after).batches for file in batch.files
            ]
            bound = marker.batch_id if marker.without_record else marker.folded.upto
            folded = [file.path for file in self._layout.visible() if after < file.batch_id <= bound]
            return RewindPlan(
                batches=marker.batch_id - after,
                files=len(known) + len(folded),
                rows=sum(file.rows for file in known) + files_proof.rows_in(folded),
                obstacle=self._owner.obstacle(marker, after),
            )

    def rewind(self, upto: BatchId | None) -> None:
        with storage_errors(f"rewind {self.describe()}"):
            marker = self._finish_rewind("rewind")
            published = marker.batch_id
            if published is None or (upto is not None and published <= upto):
                return
            if obstacle := self._owner.obstacle(marker, -1 if upto is None else upto):
                self._owner.refuse_if_fenced("rewind")
                raise Conflict(
                    f"could not rewind {self.describe()} to batch {-1 if upto is None else upto}: {obstacle}",
                    hint="put the files back as they were, or resume from a newer checkpoint",
                )
            self._owner.write(msgspec.structs.replace(marker, batch_id=upto, taken_back_by=self._epoch))
            self._step("rewind: target recorded")
            self._finish_rewind("rewind")

    def discard(self, keep: tuple[StagedBatch, ...]) -> None:
        with storage_errors(f"discard what was staged for {self.describe()}"):
            self._attempts.forget()
            pages = self._layout.record.pages()
            marker = self._finish_rewind("discard")
            moves = [move for batch in keep for move in self._layout.moves(batch)]
            kept = {source.parent for source, _ in moves}
            self._moves.take_away_staged(lambda directory, _: directory not in kept, self._epoch)
            self._moves.take_away_what_past_lives_staged()
            self._moves.hide_visible(marker.batch_id, self._epoch, {target: source for source, target in moves})
            self._owner.refuse_if_fenced("discard")
            self._layout.forget_runs_before(self._epoch, {batch.fencing_epoch for batch in keep})
            self._layout.record.keep_only(marker.record, pages)
            self._moves.empty_trash()

    def forget(self, upto: BatchId) -> None:
        with storage_errors(f"shorten the record of {self.describe()}"):
            marker = self._finish_rewind("forget")
            if marker.batch_id is None or (bound := min(upto, marker.batch_id)) <= marker.folded.upto:
                return
            batches = files_proof.recorded(self._layout, marker).batches
            folded = files_proof.folded_further(marker, batches, bound)
            self._owner.write(msgspec.structs.replace(marker, folded=folded))
            self._step("forget: folded")
            self._owner.refuse_if_fenced("forget")  # a newer run that did not read that marker needs the pages
            self._layout.record.forget(bound)

    def _finish_rewind(self, operation: str) -> Marker:
        """What is published, after completing a rewind that this run or an older one began."""
        marker = self._owner.own_marker(operation)
        if marker.taken_back_by is None:
            return marker
        after = marker.batch_id
        self._moves.take_away_staged(lambda _, batch: after is None or batch > after, marker.taken_back_by)
        self._moves.hide_visible(after, marker.taken_back_by, {})
        upto = -1 if after is None else after
        page = self._layout.record.write(Page(upto, (), marker.record))
        folded = marker.folded if marker.folded.upto <= upto else files_proof.fold(self._layout, upto)
        done = msgspec.structs.replace(marker, taken_back_by=None, record=page, folded=folded)
        self._owner.write(done)
        self._step("rewind: done")
        self._moves.empty_trash()
        return done

    def _remember_columns(self, staged_by: set[FencingEpoch]) -> None:
        """Every publish uses checked columns, even for batches that another run staged."""
        known = written(self._place, self._owner.context)
        for epoch in sorted(staged_by):
            if (schema := self._layout.schema_of(epoch)) is not None:
                files_columns.require_fit(self.describe(), schema, known)
                known.append(schema)
        if staged_by:
            self._layout.write_columns(self._epoch, files_columns.union(known))

    def _as_run(self, context: SinkContext, life: Life) -> _FilesOfOneRun:
        described, layout = self.describe(), FilesLayout(self._place, context.job, life)
        owner = FilesOwnership(context, layout, described, self._step, self._unique)
        return _FilesOfOneRun(owner, FilesMoves(owner, described, self._step, self._unique))

    @property
    def _epoch(self) -> FencingEpoch:
        return self._owner.epoch

    @property
    def _layout(self) -> FilesLayout:
        return self._owner.layout

    @property
    def _owner(self) -> FilesOwnership:
        return self._run.owner

    @property
    def _moves(self) -> FilesMoves:
        return self._run.moves

    @property
    def _run(self) -> _FilesOfOneRun:
        if self._known is None:
            raise HoldfastError(f"{self.describe()} was used before it was opened")
        return self._known


def _is_being_taken_back(batch: StagedBatch, marker: Marker) -> bool:
    """Whether a rewind is in progress that the next call completes: it also removes the files that are still there."""
    if marker.taken_back_by is None or batch.fencing_epoch > marker.taken_back_by:
        return False
    return marker.batch_id is None or batch.batch_id > marker.batch_id


def _written_down(
    first: int, upto: BatchId, batches: list[StagedBatch], moves: dict[BatchId, list[tuple[Path, Path]]]
) -> tuple[RecordedBatch, ...]:
    """The visible files of every batch. A batch without an entry, which an operator has accepted, has no files."""
    entries = {batch.batch_id: batch for batch in batches}
    missing = {BatchId(number): RecordedBatch(BatchId(number), ()) for number in range(first, upto + 1)}
    found = {}
    for number, batch in entries.items():
        targets = (target.name for _, target in moves[number])
        found[number] = recorded(batch, dict(zip((file.path for file in batch.files), targets, strict=True)))
    return tuple((missing | found).values())
