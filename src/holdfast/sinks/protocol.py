"""What a sink must do for exactly-once output.

A sink shows readers nothing before `publish`. Each micro-batch is *staged*: written, durable, invisible. When a
checkpoint is in the journal, everything up to its barrier is *published*. After a crash the query resumes at some
barrier, and recovery brings the sink to exactly that point: published up to it, nothing staged beyond it.

The calls to a sink in one run:

    look                 before the job is claimed: what the place is, and what it knows of this job
    open                 once, before the query starts; from here on older runs can publish nothing more
    plan_rewind          what a rewind would take back and whether it can, before anything is abandoned for it
    rewind / publish     recovery, to make the visible output equal to the resume point
    discard              recovery, throws away what earlier runs staged beyond the resume point
    stage                once per micro-batch, again with the same batch_id when Spark repeats a batch
    publish              once per completed checkpoint, again after any failure, possibly from two runs at once
    forget               now and then: batches that no retained checkpoint can go back behind

A place keeps one ledger per job name. The lineage of the job is a value in the ledger that is checked, not a part of
its name: the same job with another lineage would publish the same input again.

Every method may be repeated, and the process may die at any point of it. Methods of one sink object are called by one
thread at a time, except `stage`, which may run beside `publish`. Two runs may be inside any two methods at once; the
journal decides what a run requests, so an older run differs from a newer one only in knowing fewer entries.

Rows are added to those of earlier batches, which is what output mode `append` means. A sink that supports more declares
it in an attribute `output_modes`, such as `("append", "update")`; holdfast starts no query in another mode.

`holdfast.testing.sinks.SinkConformance` checks all of this for any sink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
from blake3 import blake3

from holdfast.errors import Conflict, Fenced
from holdfast.identifiers import AttemptId, BatchId, FencingEpoch, JobName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Called by a sink between any two of its steps, with the name of the step just taken. Tests end the process, or let
# another run act, at exactly that point.
Step = Callable[[str], None]


def no_step(_: str) -> None:
    """The hook in production: does nothing."""


def fingerprint(text: str) -> int:
    """63 bits of BLAKE3: identifies lineages and claims where a place can store only a number."""
    return int.from_bytes(blake3(text.encode()).digest(8)) >> 1


def output_modes(sink: Sink) -> tuple[str, ...]:
    """The modes in which the sink's visible rows are the query's result."""
    return tuple(getattr(sink, "output_modes", ("append",)))


class StagedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    path: str
    """Relative to the sink's place."""
    size: int
    rows: int = 0
    stats: str = ""
    """Whatever the sink records about the file."""


LEDGER_FORMAT = 1


class StagedBatch(msgspec.Struct, frozen=True):
    """One entry of the ledger: what a batch staged. It is part of every checkpoint, so it must stay small."""

    batch_id: BatchId
    fencing_epoch: FencingEpoch
    files: tuple[StagedFile, ...]
    format: int = LEDGER_FORMAT


class SinkContext(msgspec.Struct, frozen=True):
    """Who is writing. The pair job + fencing_epoch makes every name that a sink generates unique to this run."""

    job: JobName
    fencing_epoch: FencingEpoch
    """0 when the job has never run."""
    lineage: str
    """Unique to this job in this home; two homes that share a job name differ here. Empty: the job has never run."""
    claim: AttemptId = AttemptId("")
    """Distinguishes two runs with the same epoch, which a home restored from a backup can create. Empty: unknown."""
    new_life: bool = False
    """The operator wants a new lineage, although the place has another one of this job, whose rows stay."""
    accept: bool = False
    """The operator accepts the place as it is, even if published rows are missing."""
    looked: FencingEpoch = FencingEpoch(0)
    """The newest run that the place had recorded at `look`. If it has an older one now, it is another place."""


def require_no_older(context: SinkContext, known: FencingEpoch, described: str) -> None:
    """Called before a place is opened whose newest run is `known`. A run that stalled since `look` must not create a
    valid ledger in a place that was emptied or restored from a backup meanwhile."""
    if known < context.looked and not (context.accept or context.new_life):
        raise Conflict(
            f"could not open {described} as run {context.fencing_epoch} of job {context.job!r}: when this run looked, "
            f"run {context.looked} had opened it last, now it knows of {f'run {known}' if known else 'no run'}; it was "
            "emptied, replaced or put back meanwhile",
            hint="put the place back, or start again and say that it is meant to be so: --accept-sink",
        )


class OtherName(msgspec.Struct, frozen=True):
    """Another name under which this life of the job has written to a place: one of the two is a copy."""

    name: str
    fencing_epoch: FencingEpoch
    """Of the newest run that opened the place under that name."""
    published: BatchId | None


def require_one_name(
    context: SinkContext, known: FencingEpoch, others: Sequence[OtherName], described: str
) -> BatchId | None:
    """The newest batch that is published under another name, -1 for none; None: there is no other name.

    A copy of a job reads what the job reads: under a second name the same rows would be there twice. `known` is the
    newest run under its own name; the name that came last may go on.
    """
    for other in others:
        if other.fencing_epoch > known and not context.accept:
            raise Conflict(
                f"could not open {described} as job {context.job!r}: it holds the output of job {other.name!r}, and "
                "one of the two is a copy of the other; rows that both have read would be there twice",
                hint=f"start it as job {other.name!r}, from that one's home; or give this one a place of its own; or, "
                f"if {other.name!r} does not run again: --accept-sink",
            )
    return max((BatchId(-1) if other.published is None else other.published for other in others), default=None)


def require_still_last(
    attempt: str, job: JobName, when_opened: Mapping[str, FencingEpoch], others: Iterable[OtherName]
) -> None:
    """Raises `Fenced` when the place was opened under another name since: the user said that the job goes on there."""
    for other in others:
        if other.fencing_epoch > when_opened.get(other.name, FencingEpoch(0)):
            raise Fenced(
                f"could not {attempt} as job {job!r}: job {other.name!r} has opened it since, and one of the two is a "
                "copy of the other",
                hint=f"stop this run; job {other.name!r} goes on from here",
            )


class SinkState(msgspec.Struct, frozen=True):
    """What a place has recorded for a job name."""

    life: int | None = None
    """Fingerprint of the lineage whose output is here; None: this job name has written nothing here."""
    fencing_epoch: FencingEpoch = FencingEpoch(0)
    """Epoch of the newest run that opened the place; 0: none."""
    claim: int | None = None
    """Fingerprint of that run's claim, None when it is not known."""
    published: BatchId | None = None
    beside: BatchId | None = None
    """The newest batch that this life of the job has published here under another name, -1 for none; None: it has not
    been here under another name."""


class RewindPlan(msgspec.Struct, frozen=True):
    """What a rewind would take back from readers."""

    batches: int = 0
    files: int = 0
    rows: int = 0
    obstacle: str | None = None
    """Why it cannot be done, None when it can."""
    rows_gone: int = 0
    """Rows of these batches that are not where they were published, which the operator has accepted. If another writer
    only moved them, readers still see them."""


class Sink(Protocol):
    def describe(self) -> str:
        """The sink's kind and place for messages, e.g. `delta:/data/orders`. Never a secret."""

    def look(self, context: SinkContext, spark: SparkSession, schema: StructType) -> SinkState:
        """What the place has recorded for the job. Reads only, and leaves no trace; the sink need not be open.

        `context` is from the journal before this run: epoch 0 and no lineage when the job has never run. Raises
        `Conflict` when the place belongs to another writer, and `InvalidSettings` when it does not accept this schema.
        """

    def open(self, context: SinkContext, spark: SparkSession, schema: StructType) -> None:
        """Get ready to write rows of `schema`, and fence: after this returns, no older run can publish.

        Raises `Fenced` when a newer run has opened the sink already, and `InvalidSettings` when the place does not
        accept this schema. Raises `Conflict`, having changed nothing, when the place belongs to another writer, when it
        holds another lineage of the job (unless `context.new_life`), when another run has opened it with the same
        epoch, and when published rows are missing (unless `context.accept`). Creates the table when there is none.
        Shows readers no row.
        """

    def published(self) -> BatchId | None:
        """The newest batch whose rows readers see, None when no batch was ever published.

        The visible output of this job is at all times that of batches 0 to this one, whole.
        """

    def stage(self, batch: DataFrame, batch_id: BatchId) -> StagedBatch:
        """Write the batch's rows where `publish` can show them, without showing them. Consumes the whole batch.

        Called inside foreachBatch, before Spark commits the batch. A repeated call for a batch_id replaces the earlier
        one: only the newest return value is in the ledger. Rows that Spark produced, rows in the files and rows in the
        return value are equal in number, or it raises.
        """

    def publish(self, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> None:
        """Make every batch of `ledger` from `published()` (exclusive) to `upto` (inclusive) visible.

        Does nothing when `published() >= upto`. Raises `Fenced` when a newer run has opened the sink, and `Conflict`,
        having shown nothing, when one of those batches is not in the ledger (`ledger.require_unbroken`); only the first
        publish after `open` with `context.accept` may leave batches out.
        Afterwards `published() == upto`.
        """

    def first_made_after(self, run: FencingEpoch) -> BatchId | None:
        """The oldest published batch that a newer run than `run` staged, as far as that is known; None when there is
        none. Reads only, and leaves no trace. After `look` or `open`."""

    def lost(self, batches: tuple[StagedBatch, ...]) -> tuple[str, ...]:
        """Files of these batches that are neither staged nor visible any more, or not as they were staged. A run that
        needs them cannot publish. Reads only, and leaves no trace. After `look` or `open`."""

    def plan_rewind(self, upto: BatchId | None) -> RewindPlan:
        """What `rewind(upto)` would do, and whether it can. Reads only, and leaves no trace. After `look` or `open`."""

    def rewind(self, upto: BatchId | None) -> None:
        """Take back what batches after `upto` made visible (all of them for None). Afterwards `published() == upto`.

        Only recovery calls it, when it resumes at an older checkpoint than the newest, and only after the journal
        records that for every later run: what was taken back can never be published again. Does nothing when
        `published() <= upto`. Raises `Fenced` when a newer run has opened the sink, and `Conflict`, having changed
        nothing, when the plan has an obstacle.
        """

    def discard(self, keep: tuple[StagedBatch, ...]) -> None:
        """Delete everything that earlier runs and attempts of this job staged, except what is published or in `keep`.

        Recovery calls it after `rewind` or `publish` and before the query starts, never while a batch is being staged.
        Afterwards readers see exactly the batches up to `published()`, whatever earlier runs left incomplete. Raises
        `Fenced` when a newer run has opened the sink.
        """

    def forget(self, upto: BatchId) -> None:
        """Every retained checkpoint is newer than batches up to `upto`: the sink may drop its records of them, except
        that they are published. Their rows stay."""
