"""`holdfast rescale`: another number of state partitions for a stopped job, as a new checkpoint."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli import figures
from holdfast.cli.observing import job_store, observe
from holdfast.cli.options import AsJson, Home, Job, JobArgument
from holdfast.cli.output import answer, print_json
from holdfast.cli.owning import reporting_environment
from holdfast.cli.progress import byte_progress, waiting
from holdfast.cli.reference import one_job
from holdfast.errors import HoldfastError, InvalidSettings, OwnedByAnotherRun
from holdfast.identifiers import BatchId, job_name
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.views import Observation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.runtime.commands.copying import JobHome
    from holdfast.runtime.commands.rescaling import Rescalable
    from holdfast.workdir.interface import WorkDirectory

Partitions = Annotated[
    int, typer.Option("--partitions", metavar="N", min=1, show_default=False, help="The new number of partitions.")
]
Scratch = Annotated[
    Path | None,
    typer.Option(
        "--scratch",
        metavar="DIR",
        show_default=False,
        help="Where the state is repartitioned; needs room for it twice, and goes away. Default: the temporary "
        "directory.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be rescaled; start no Spark, write nothing.")]


class RescaledDocument(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    home: str
    dry_run: bool
    from_checkpoint: int
    checkpoint: int | None
    """None in a dry run."""
    barrier_batch_id: int
    """Of the checkpoint that it is made of; the new one has the next batch."""
    partitions_before: int
    partitions: int
    bytes: int
    state_rows: int | None
    """Read before and after, and found equal; None in a dry run."""


def rescale(
    home: Home,
    partitions: Partitions,
    name: JobArgument = None,
    job: Job = None,
    scratch: Scratch = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Give a stopped job another number of state partitions.

    Spark repartitions a copy of its newest checkpoint; all state is read before and after, and must be the same. The
    copy becomes the newest checkpoint, from which the next start resumes. Needs PySpark 4.2 or newer.
    """
    from holdfast.runtime.commands import rescaling
    from holdfast.runtime.commands.copying import JobHome

    seen = observe(home, one_job(name, job))
    _require_stopped(seen)
    target = JobHome(job_name(seen.job), home, job_store(home, seen.job))
    end = rescaling.examine(target, seen.state)
    rescaling.require_change(target, end, partitions)
    made: CheckpointCompleted | None = None
    if not dry_run:
        _require_apart(scratch, seen)
        made = _rescaled(target, end, partitions, scratch)
    document = _document(target, end, partitions, made)
    if as_json:
        print_json(document)
    else:
        answer().print(_sentence(document), soft_wrap=True)


def _require_stopped(seen: Observation) -> None:
    if seen.running:
        raise OwnedByAnotherRun(
            f"could not rescale job {seen.job!r} in {seen.home}: it is running", hint=f"holdfast stop {seen.job}"
        )


def _require_apart(scratch: Path | None, seen: Observation) -> None:
    from holdfast.runtime.run.places import require_outside

    if scratch is not None:
        require_outside(str(scratch.absolute()), seen.home, seen.state.runs)


def _rescaled(target: "JobHome", end: "Rescalable", partitions: int, scratch: Path | None) -> CheckpointCompleted:
    from holdfast.runtime.commands import rescaling
    from holdfast.workdir.factory import work_directory

    with _spark(target.job) as spark, _room(scratch) as room:

        def repartition(directory: "WorkDirectory", barrier: BatchId) -> int:
            from holdfast.spark.repartitioning import repartition

            with waiting(f"Spark repartitions the state of batch {barrier}"):
                return repartition(spark, directory, barrier, partitions)

        return rescaling.rescale(
            target, end, partitions, work_directory(room / "state"), repartition, byte_progress, reporting_environment()
        )


@contextmanager
def _spark(job: str) -> Iterator["SparkSession"]:
    """The active session, or one of this command."""
    try:
        from pyspark.sql import SparkSession

        from holdfast.spark.repartitioning import require_able
        from holdfast.spark.session import session_for
    except ImportError as error:
        raise InvalidSettings(f"could not load PySpark: {error}", hint="pip install 'holdfast-spark[spark]'") from error
    active = SparkSession.getActiveSession()
    with waiting("starting Spark"):
        spark = session_for(job)
    try:
        require_able(spark)
        yield spark
    finally:
        if active is None:
            spark.stop()


@contextmanager
def _room(scratch: Path | None) -> Iterator[Path]:
    from holdfast.workdir.unfinished import temporary_directory

    try:
        with temporary_directory("holdfast-rescale-", scratch) as room:
            yield room
    except OSError as error:
        raise HoldfastError(
            f"could not rescale in {error.filename or scratch}: {error.strerror or error}",
            hint="check space and permissions there, or name another place: --scratch DIR",
        ) from error


def _document(
    target: "JobHome", end: "Rescalable", partitions: int, made: CheckpointCompleted | None
) -> RescaledDocument:
    rescaled = None if made is None else made.rescaled
    return RescaledDocument(
        job=target.job,
        home=target.home,
        dry_run=made is None,
        from_checkpoint=end.entry.id,
        checkpoint=None if made is None else made.id,
        barrier_batch_id=end.entry.barrier_batch_id,
        partitions_before=end.partitions,
        partitions=partitions,
        bytes=end.manifest.bytes_total,
        state_rows=None if rescaled is None else rescaled.state_rows,
    )


def _sentence(document: RescaledDocument) -> str:
    change = f"{document.partitions_before} → {document.partitions} state partitions"
    of = f"of checkpoint {document.from_checkpoint} at batch {document.barrier_batch_id}"
    if document.checkpoint is None:
        return f"would make a checkpoint {of} with {change}, {figures.size(document.bytes)}; nothing was written"
    rows = figures.counted(document.state_rows or 0, "row")
    return (
        f"checkpoint {document.checkpoint} of job {document.job!r}, made {of}: {change}; {rows} of state read before "
        f"and after, and equal. The next start resumes from it. To undo that: holdfast rollback "
        f"{document.job}@{document.from_checkpoint}"
    )
