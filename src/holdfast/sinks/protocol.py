"""What a sink must do for exactly-once output.

A sink shows readers nothing until it is told to. Each micro-batch is *staged*: written, durable, invisible. When a
checkpoint is in the journal, everything up to its barrier is *published*. After a crash the query resumes at some
barrier, and the sink is brought to exactly that point: published up to it, nothing staged beyond it.

The life of a sink in one run:

    open                 once, before the query starts; from here on older runs can publish nothing more
    rewind / publish     recovery, to make the visible output equal to the resume point
    discard              recovery, throws away what earlier runs staged beyond the resume point
    stage                once per micro-batch, again with the same batch_id when Spark repeats a batch
    publish              once per completed checkpoint, again after any failure, possibly from two runs at once

Every method may be repeated, and may be cut off at any point by the death of the process. Methods of one sink object
are called by one thread at a time, except `stage`, which may run beside `publish`. Two runs may be inside any two
methods at once; what a run asks for is decided by the journal, so an older run differs from a newer one only in knowing
less.

Rows are added to those of earlier batches, which is what output mode `append` means. A sink that can do more says so in
an attribute `output_modes`, such as `("append", "update")`; in the other modes no query is started with it.

`holdfast.testing.sinks.SinkConformance` checks all of this for any sink.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.identifiers import BatchId, FencingEpoch, JobName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Called by a sink between any two of its steps, with the name of the step just taken. Tests end the process, or let
# another run act, at exactly that point.
Step = Callable[[str], None]


def no_step(_: str) -> None:
    """The hook of production: nothing happens between two steps."""


def output_modes(sink: Sink) -> tuple[str, ...]:
    """The modes in which the sink's visible rows are the query's result."""
    return tuple(getattr(sink, "output_modes", ("append",)))


class StagedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    path: str
    """Relative to the sink's place."""
    size: int
    rows: int = 0
    stats: str = ""
    """Whatever the sink wants to remember about the file."""


class StagedBatch(msgspec.Struct, frozen=True):
    """One entry of the ledger: what a batch staged. Travels with the checkpoint, so it must stay small."""

    batch_id: BatchId
    fencing_epoch: FencingEpoch
    files: tuple[StagedFile, ...]


class SinkContext(msgspec.Struct, frozen=True):
    """Who is writing. The pair job + fencing_epoch makes every name that a sink invents unique to this run."""

    job: JobName
    fencing_epoch: FencingEpoch
    lineage: str
    """Unique to this life of the job's home; two homes that share a job name differ here."""


class Sink(Protocol):
    def describe(self) -> str:
        """The sink's kind and place for messages, e.g. `delta:/data/orders`. Never a secret."""

    def open(self, context: SinkContext, spark: SparkSession, schema: StructType) -> None:
        """Get ready to write rows of `schema`, and fence: after this returns, no older run can publish.

        Raises `Fenced` when a newer run has opened the sink already, and `InvalidSettings` when the place cannot take
        this schema. Creates the table when there is none. Shows readers no row.
        """

    def published(self) -> BatchId | None:
        """The newest batch whose rows readers see, None when no batch was ever published.

        The visible output of this job is at all times that of batches 0 to this one, whole.
        """

    def stage(self, batch: DataFrame, batch_id: BatchId) -> StagedBatch:
        """Write the batch's rows where `publish` can show them, without showing them. Consumes the whole batch.

        Called inside foreachBatch, before Spark commits the batch. A repeated call for a batch_id replaces the earlier
        one: only the newest return value ends in the ledger.
        """

    def publish(self, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> None:
        """Make every batch of `ledger` from `published()` (exclusive) to `upto` (inclusive) visible.

        Does nothing when `published() >= upto`. Raises `Fenced` when a newer run has opened the sink.
        Afterwards `published() == upto`, also when the ledger is empty.
        """

    def rewind(self, upto: BatchId | None) -> None:
        """Take back what batches after `upto` made visible (all of them for None). Afterwards `published() == upto`.

        Only recovery calls it, when it had to resume at an older checkpoint than the newest, and only after the
        journal says so for every later run: what was taken back can never be published again.
        Does nothing when `published() <= upto`. Raises `Fenced` when a newer run has opened the sink.
        """

    def discard(self, keep: tuple[StagedBatch, ...]) -> None:
        """Delete whatever this job's earlier runs and attempts staged, unpublished, and is not in `keep`.

        Recovery calls it after `rewind` or `publish` and before the query starts, never while a batch is being staged.
        Afterwards readers see exactly the batches up to `published()`, whatever earlier runs left half done.
        Raises `Fenced` when a newer run has opened the sink.
        """
