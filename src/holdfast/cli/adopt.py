"""`holdfast adopt`: a checkpoint directory of plain Spark becomes checkpoint 1 of a job."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli import figures
from holdfast.cli.options import AsJson, Home, job_option
from holdfast.cli.output import answer, print_json
from holdfast.cli.owning import reporting_environment
from holdfast.cli.progress import byte_progress, waiting
from holdfast.errors import InvalidSettings
from holdfast.identifiers import job_name
from holdfast.storage.urls import open_store, require_create_if_absent

if TYPE_CHECKING:
    from holdfast.runtime.commands.adopting import Original
    from holdfast.runtime.commands.recording import Progress
    from holdfast.runtime.commands.spark_output import Output


def _named(text: str) -> str:
    """An empty string, such as an unset variable of a service, does not mean the current directory."""
    if not text.strip():
        raise typer.BadParameter("it is empty, but must name a directory")
    return text


Location = Annotated[
    str,
    typer.Argument(
        metavar="CHECKPOINT_LOCATION",
        show_default=False,
        parser=_named,
        help="The query's checkpointLocation: a path, hdfs://host:port/path, s3a://bucket/path, … It is only read.",
    ),
]
NewJob = Annotated[str, job_option("The job's name.")]
Sink = Annotated[
    str | None,
    typer.Option(
        "--sink",
        metavar="PATH",
        show_default=False,
        help="The output of Spark's file sink or Delta sink, to see how far it is.",
    ),
]
Watch = Annotated[
    float,
    typer.Option(
        "--watch",
        metavar="SECONDS",
        min=0,
        help="Watch this long for new batches, in case the query still runs: at least its trigger interval.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be adopted; write nothing.")]


class AdoptDocument(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    home: str
    location: str
    dry_run: bool
    checkpoint: int | None
    """None in a dry run."""
    query_id: str
    barrier_batch_id: int
    planned_batch_id: int
    bytes: int
    partitions: int
    sources: tuple[str, ...]
    operators: tuple[str, ...]
    sink: str | None
    sink_batch_id: int | None
    other_jobs: tuple[str, ...] = ()
    """Jobs of this home that were made of the same query."""


def adopt(
    location: Location,
    home: Home,
    job: NewJob,
    sink: Sink = None,
    watch: Watch = 10.0,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make a job of a query that plain Spark has run.

    Its checkpoint directory is copied and stays as it is.

    Stop the query first. Then start it with holdfast, under the same job name and with the same writer: it goes on
    where it stopped.
    """
    from holdfast.runtime.commands import adopting
    from holdfast.runtime.commands.copying import JobHome
    from holdfast.runtime.commands.spark_output import look_at, require_not_ahead
    from holdfast.runtime.run.original import others_of
    from holdfast.workdir.factory import readable_directory

    place = whole(location)
    require_apart("adopt", place, home)
    directory = readable_directory(place)
    root = open_store(home)
    target = JobHome(job_name(job), home, root.scoped(job_name(job)))
    original = adopting.examine(directory, readable_directory(above("adopt", place)))
    output = None if sink is None else look_at(readable_directory(whole(sink)), original.query)
    if output is not None:
        require_not_ahead(original, output)
    state = target.state()
    adopting.require_possible(original, target, state)
    checkpoint = adopting.is_adopted(original, state)
    if checkpoint is None:
        _look_for_a_query(original, watch)
    if checkpoint is None and not dry_run:
        require_create_if_absent(root)
        checkpoint = adopting.adopt(original, target, _progress, reporting_environment())
    others = tuple(name for name, _ in others_of(root, target.job, original.query))
    document = _document(target.job, home, original, output, checkpoint, dry_run, others)
    if as_json:
        print_json(document)
    else:
        _print(document)


def whole(location: str) -> str:
    """The first start of the job may be made from another directory."""
    return location.rstrip("/") if "://" in location else str(Path(location).absolute())


def require_apart(doing: str, location: str, home: str) -> None:
    from holdfast.runtime.run.places import spot

    original, target = spot("directory", location), spot("home", home)
    if original.holds(target) or target.holds(original):
        raise InvalidSettings(
            f"could not {doing} {location}: it contains the home {home}, or lies in it; the directory is only read",
            hint="choose another home: --home",
        )


def above(doing: str, location: str) -> str:
    """The URL may have options behind its path."""
    path, mark, options = location.partition("?")
    parent, _, name = path.rpartition("/")
    if name and parent in ("", "file://"):
        parent += "/"  # a volume that is mounted there
    elif not parent or parent.endswith("/"):
        raise InvalidSettings(
            f"could not {doing} {location}: it is not the checkpoint directory of one query",
            hint="give its whole path",
        )
    return f"{parent}{mark}{options}"


def _look_for_a_query(original: "Original", seconds: float) -> None:
    from holdfast.runtime.commands.adopting import require_at_rest

    until = time.monotonic() + seconds
    with waiting(f"looking whether a query still runs in {original.directory.location}") as tell:
        while (left := until - time.monotonic()) > 0:
            tell(f"looking whether a query still runs in {original.directory.location}: {left:.0f} s")
            time.sleep(min(left, 1.0))
            require_at_rest(original)


@contextmanager
def _progress(total: int) -> Iterator["Progress"]:
    with byte_progress("adopting", total) as advance:
        yield advance


def _document(
    job: str,
    home: str,
    original: "Original",
    output: "Output | None",
    checkpoint: int | None,
    dry_run: bool,
    others: tuple[str, ...],
) -> AdoptDocument:
    facts = original.facts
    return AdoptDocument(
        job=job,
        home=home,
        location=original.directory.location,
        dry_run=dry_run,
        checkpoint=checkpoint,
        query_id=original.query,
        barrier_batch_id=original.barrier,
        planned_batch_id=original.planned,
        bytes=original.bytes,
        partitions=original.partitions,
        sources=tuple(str(source) for source in facts.sources or ()),
        operators=tuple(operator.name for operator in facts.operators or ()),
        sink=None if output is None else output.writer,
        sink_batch_id=None if output is None else output.newest,
        other_jobs=others,
    )


def _print(document: AdoptDocument) -> None:
    from rich.table import Table

    from holdfast.checkpoint.query_facts import operator_title

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("directory", document.location)
    table.add_row("query", document.query_id)
    table.add_row("sources", "; ".join(document.sources) or "not known")
    table.add_row("state", _state(document, [operator_title(name) for name in document.operators]))
    table.add_row("committed", f"up to batch {document.barrier_batch_id}: the output has them")
    table.add_row("planned", _planned(document))
    table.add_row("output", _output(document))
    console = answer()
    console.print(table)
    console.print("")
    if document.other_jobs:
        names = ", ".join(document.other_jobs)
        console.print(f"made of the same query in this home: {names}. Start only one of them", soft_wrap=True)
    if document.checkpoint is None:
        console.print(f"would become a checkpoint of job {document.job!r}; nothing was written", soft_wrap=True)
        return
    console.print(f"checkpoint {document.checkpoint} of job {document.job!r} holds it, every byte", soft_wrap=True)
    console.print(
        f"next: holdfast.start(writer, home={document.home!r}, job={document.job!r}) with the writer and the query "
        "that you have; do not start the old program again",
        soft_wrap=True,
    )


def _state(document: AdoptDocument, operators: list[str]) -> str:
    if not document.partitions:
        return f"none; {figures.size(document.bytes)} of logs"
    named = f"{', '.join(operators)}: " if operators else ""
    return f"{named}{figures.counted(document.partitions, 'state store')}, {figures.size(document.bytes)}"


def _planned(document: AdoptDocument) -> str:
    if document.planned_batch_id == document.barrier_batch_id:
        return "nothing more"
    return f"batch {document.planned_batch_id}: it is repeated under the same id with the same rows"


def _output(document: AdoptDocument) -> str:
    if document.sink is None:
        return (
            "not looked at (--sink PATH). Spark's file sink, Delta and Iceberg: exactly once. foreachBatch: the "
            "planned batch may come twice, with the same id and rows"
        )
    newest = "no batch yet" if document.sink_batch_id is None else f"batches up to {document.sink_batch_id}"
    return f"{document.sink} has {newest}: exactly once"
