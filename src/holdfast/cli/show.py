"""`holdfast show ID`: one checkpoint, what took its time and what it wrote."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import figures
from holdfast.cli.checkpoints import status_word
from holdfast.cli.choosing import named_savepoint, no_such_checkpoint
from holdfast.cli.observing import examine
from holdfast.cli.options import AsJson, Home, Job
from holdfast.cli.output import answer, labelled, print_json
from holdfast.cli.reference import Reference, referred
from holdfast.errors import InvalidSettings, JobFailed, NotFound
from holdfast.repository.documents import CheckpointDetail
from holdfast.repository.views import Observation, checkpoint_detail

if TYPE_CHECKING:
    from rich.text import Text

_BAR = 30

PointArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID|JOB[@ID|@SAVEPOINT]",
        show_default=False,
        help="The checkpoint's id; or the job and, after an @, one of its checkpoints. Default: its newest.",
    ),
]


Usable = Annotated[bool, typer.Option("--health", help="Exit with 1 unless a start can resume from it.")]


def show(point: PointArgument, home: Home, job: Job = None, health: Usable = False, as_json: AsJson = False) -> None:
    """Show one checkpoint: its phases, shards, files, bytes."""
    reference = _reference(point, job)
    seen = examine(home, reference.job)
    checkpoint = _id(seen, reference)
    document = checkpoint_detail(seen, checkpoint)
    if document is None:
        raise no_such_checkpoint(seen, checkpoint)
    if as_json:
        print_json(document)
    else:
        console = answer()
        for line in _lines(document, seen.now):
            console.print(line, no_wrap=True, overflow="ellipsis")
    if health and not document.usable:
        raise JobFailed(
            f"checkpoint {checkpoint} of job {seen.job!r} is not usable: {document.unusable_because}",
            hint="holdfast checkpoints shows which are",
        )


def _reference(point: str, job: str | None) -> Reference:
    """A number alone is a checkpoint's id."""
    if not point.lstrip("-").isdigit():
        return referred(point, job)
    if int(point) < 1:
        raise InvalidSettings.of("checkpoint", int(point), "must be a whole number of at least 1")
    return referred(f"@{point}", job)


def _id(seen: Observation, reference: Reference) -> int:
    if reference.checkpoint is not None:
        return reference.checkpoint
    if reference.savepoint is not None:
        return named_savepoint(seen, reference.savepoint).id
    newest = seen.state.last_checkpoint
    if not newest:
        raise NotFound(f"could not show the newest checkpoint of job {seen.job!r} in {seen.home}: it has none yet")
    return newest


def _lines(document: CheckpointDetail, now: datetime) -> Iterator["Text"]:
    from rich.text import Text

    name = f" {document.name!r}" if document.name else ""
    yield Text.assemble((f"{document.kind} {document.id}{name}", "bold"), "  ", status_word(document))
    yield labelled("usable", ("yes", "green") if document.usable else f"no, {document.unusable_because}")
    if document.status == "completed":
        at = document.verified_at
        read = "not noted" if at is None else f"{figures.moment(at)}, {figures.age(at, now)}"
        yield labelled("verified", read)
    yield labelled("barrier", f"batch {document.barrier_batch_id}, run {document.fencing_epoch}")
    yield labelled("triggered", f"{figures.moment(document.triggered_at)}, {figures.age(document.triggered_at, now)}")
    yield from _failure_lines(document)
    if document.duration_ms is not None:
        yield labelled("duration", (figures.duration(document.duration_ms), "bold"))
    yield from _phase_lines(document)
    yield from _data_lines(document)
    yield from _shard_lines(document)
    for each in document.skipped:
        yield labelled(
            "skipped",
            (f"{each.records:,} records", "bold red"),
            f" of {each.topic}[{each.partition}], deleted by the brokers before they were read",
        )


def _failure_lines(document: CheckpointDetail) -> Iterator["Text"]:
    failure = document.failure
    if failure is None:
        return
    yield labelled("reason", (failure.reason, "bold red"), f": {failure.message}")
    yield labelled("counted", "yes" if failure.counted else "no")
    if failure.hint:
        yield labelled("", ("Try: ", "bold"), failure.hint)


def _phase_lines(document: CheckpointDetail) -> Iterator["Text"]:
    longest = max((phase.ms for phase in document.phases), default=0)
    width = max((len(phase.name) for phase in document.phases), default=0)
    for index, phase in enumerate(document.phases):
        yield labelled(
            "phases" if index == 0 else "",
            f"{phase.name:<{width}}  {figures.duration(phase.ms):>8}  ",
            (figures.bar(phase.ms, longest, _BAR), "cyan"),
        )


def _data_lines(document: CheckpointDetail) -> Iterator["Text"]:
    if document.bytes_total is None or document.bytes_new is None:
        if document.bytes_new:
            yield labelled("data", f"{figures.size(document.bytes_new)} uploaded; the next checkpoint reuses it")
        return
    yield labelled(
        "data",
        f"{figures.size(document.bytes_total)} in {figures.counted(document.files or 0, 'file')}, "
        f"{figures.counted(document.objects_written or 0, 'object')} written",
    )
    new, reused = figures.split_bar(document.bytes_new, document.bytes_total, _BAR)
    yield labelled(
        "",
        f"new {figures.size(document.bytes_new)} ",
        (new, "yellow"),
        (reused, "green"),
        f" reused {figures.size(document.bytes_reused)}",
    )


def _shard_lines(document: CheckpointDetail) -> Iterator["Text"]:
    if document.shards:
        yield labelled("shards", f"{document.shards_acknowledged} of {document.shards} acknowledged")
    slowest = document.slowest_shards
    longest = max((shard.ms for shard in slowest), default=0)
    width = max((len(shard.id) for shard in slowest), default=0)
    for index, shard in enumerate(slowest):
        yield labelled(
            "slowest" if index == 0 else "",
            f"{shard.id:<{width}}  {figures.duration(shard.ms):>8}  ",
            (f"{figures.bar(shard.ms, longest, _BAR // 2):<{_BAR // 2}}", "cyan"),
            f"  {figures.size(shard.bytes_new)} new of {figures.size(shard.bytes_total)}"
            f" in {figures.counted(shard.files, 'file')}",
        )
