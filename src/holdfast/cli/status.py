"""`holdfast status`: the health of one job."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli import figures
from holdfast.cli.doctor_text import STYLES
from holdfast.cli.health import judged, require_well
from holdfast.cli.jobs import STATE_STYLES, STATE_WORDS
from holdfast.cli.live import live_document, live_lines, reported_here
from holdfast.cli.observing import examine
from holdfast.cli.options import AsJson, Health, Home, Job, JobArgument
from holdfast.cli.output import answer, labelled, print_json
from holdfast.cli.reference import one_job
from holdfast.errors import JobFailed, NotFound, StorageError
from holdfast.repository.documents import CheckpointDocument, JobView
from holdfast.repository.entries import Requests, SkippedRecords
from holdfast.repository.self_report import ReportedLag
from holdfast.repository.views import checkpoints
from holdfast.storage.metered import Usage
from holdfast.storage.prices import dollars_a_month

if TYPE_CHECKING:
    from rich.text import Text

_RECENT = 30
_PARTITIONS = 3

Live = Annotated[
    bool,
    typer.Option(
        "--live", help="Only whether it is alive, and what it reports: for probes. Exit with 1 when it is not."
    ),
]
Work = Annotated[
    str | None,
    typer.Option(
        "--work",
        metavar="DIR",
        show_default=False,
        help="The run's --work, if it is not the default.",
    ),
]
Running = Annotated[
    bool, typer.Option("--running", help="Exit with 1 unless the pipeline runs and nothing is critical.")
]


def status(
    home: Home,
    name: JobArgument = None,
    job: Job = None,
    running: Running = False,
    health: Health = False,
    live: Live = False,
    work: Work = None,
    as_json: AsJson = False,
) -> None:
    """Show the health of one job, and what to do about it."""
    job = one_job(name, job)
    if live:
        _status_live(home, job, work, health, as_json)
        return
    try:
        seen = examine(home, job)
    except (StorageError, NotFound):
        _print_reported_here(home, job, work, as_json)
        raise
    document, findings = judged(seen)
    if as_json:
        print_json(document)
    else:
        console = answer()
        for line in _lines(document, checkpoints(seen), seen.now):
            console.print(line)
    if running and not document.running:
        raise JobFailed(f"job {job!r} of {home} is not running", hint="holdfast run, or wait until it has started")
    if running or health:
        require_well(seen, findings)


def _print_reported_here(home: str, job: str, work: str | None, as_json: bool) -> None:
    """The home is unreachable, or another one is mounted there; the process may be on this host and report."""
    document = reported_here(home, job, work)
    if document is None:
        return
    if as_json:
        print_json(document)
    else:
        for line in live_lines(document, datetime.now(UTC)):
            answer().print(line)


def _status_live(home: str, job: str, work: str | None, health: bool, as_json: bool) -> None:
    document = live_document(home, job, work)
    if as_json:
        print_json(document)
    else:
        console = answer()
        for line in live_lines(document, datetime.now(UTC)):
            console.print(line)
    if not document.live:
        raise JobFailed(f"job {job!r} of {home} is not alive: {document.why}", hint="holdfast status shows more")
    alarm = next((alarm for alarm in document.alarms if alarm.severity == "critical"), None)
    if health and alarm is not None:
        raise JobFailed(f"job {job!r} of {home} is not healthy: {alarm.code}: {alarm.message}", hint=alarm.hint)


def _lines(status: JobView, history: Sequence[CheckpointDocument], now: datetime) -> Iterator["Text"]:
    from rich.text import Text

    state = (STATE_WORDS[status.state], STATE_STYLES[status.state])
    ill = () if status.health == "well" else (", ", (status.health, STYLES[status.health]))
    yield Text.assemble((status.job, "bold"), "  ", state, *ill)
    yield from _owner_lines(status, now)
    if status.protects is not None:
        yield labelled("protects", status.protects)
    if status.maintenance is not None:
        yield labelled("maintenance", f"by a command on {status.maintenance.host}, pid {status.maintenance.pid}")
    yield from _last_completed_lines(status, now)
    if status.last_completed and status.last_completed.requests:
        yield _requests_line(status.last_completed.requests, status.home)
    if status.state == "lost":
        yield labelled("next", "the last run vanished; start the job again: it resumes from there or newer")
    if status.rollback is not None:
        yield labelled("next", (f"the next start goes back to checkpoint {status.rollback}", "yellow"))
    yield from _failure_lines(status)
    yield from _restart_lines(status, now)
    yield from _late_plans_lines(status, now)
    yield from _recovery_lines(status)
    yield from lag_lines(status.kafka_lag, now)
    yield from _skipped_lines(status.kafka_skipped)
    yield from _source_lines(history)
    if history:
        yield _recent_line(history)
    yield from _finding_lines(status)


def _owner_lines(status: JobView, now: datetime) -> Iterator["Text"]:
    owner = status.owner
    if owner is None:
        return
    application = f", application {owner.application_id}" if owner.application_id else ""
    identity = f", identity {owner.identity}" if owner.identity else ""
    yield labelled("owner", f"{owner.host}, pid {owner.pid}{identity}, run {owner.fencing_epoch}{application}")
    yield labelled("started", f"{figures.moment(owner.started_at)}, {figures.age(owner.started_at, now)}")
    if status.ended_at is not None:
        yield labelled("ended", f"{figures.age(status.ended_at, now)}: {status.ended_reason}")
    elif owner.heartbeat_at is not None:
        style = "" if status.running else "bold red"
        yield labelled("heartbeat", (figures.age(owner.heartbeat_at, now), style))
    else:
        yield labelled("heartbeat", ("none yet", "" if status.running else "bold red"))


def _last_completed_lines(status: JobView, now: datetime) -> Iterator["Text"]:
    last, usable = status.last_completed, status.last_usable
    if last is None or last.completed_at is None:
        yield labelled("last good", ("no checkpoint has completed yet", "yellow"))
        return
    if last.usable:
        yield labelled("last good", *_checkpoint(last, now))
        return
    yield labelled("newest", *_checkpoint(last, now))
    yield labelled("", (f"not usable, {last.unusable_because}", "bold red"))
    if usable is None:
        yield labelled("last good", ("no checkpoint is usable", "bold red"))
    else:
        yield labelled("last good", *_checkpoint(usable, now))


def _checkpoint(item: CheckpointDocument, now: datetime) -> tuple["str | tuple[str, str]", ...]:
    name = f" {item.name!r}" if item.name else ""
    when = figures.age(item.completed_at, now) if item.completed_at else ""
    size = figures.size(item.bytes_total)
    return (f"{item.kind} {item.id}{name}", "bold"), f" at batch {item.barrier_batch_id}, {when}, {size}"


def _requests_line(requests: Requests, home: str) -> "Text":
    """The requests of the last good checkpoint, including heartbeats and retention since the one before."""
    counts = {"PUT": requests.put, "GET": requests.get, "LIST": requests.list, "DELETE": requests.delete}
    shown = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count) or "none"
    dollars = dollars_a_month(home, Usage(**msgspec.structs.asdict(requests)))
    cost = "" if dollars is None else f", about ${dollars:,.2f} a month"
    return labelled("requests", f"{shown} in {figures.duration(round(requests.seconds * 1000))}", (cost, "dim"))


def _failure_lines(status: JobView) -> Iterator["Text"]:
    last = status.last_failure
    if last is None or last.failure is None:
        yield labelled("failures", ("none since the last good one", "green") if status.last_completed else "none")
        return
    since = "" if status.last_completed is None else " since the last good one"
    yield labelled("failures", (f"{status.consecutive_failures}{since}", "bold red"))
    yield labelled("", f"{last.failure.reason}: {last.failure.message}")
    if last.failure.hint:
        yield labelled("", ("Try: ", "bold"), last.failure.hint)


def _finding_lines(status: JobView) -> Iterator["Text"]:
    for finding in status.findings:
        yield labelled("finding", (finding["code"], STYLES[finding["severity"]]), f": {finding['cause']}")
        yield from (labelled("", ("Try: ", "bold"), line.removeprefix("# ")) for line in finding["fix"])


def _restart_lines(status: JobView, now: datetime) -> Iterator["Text"]:
    last = status.last_restart
    if last is None:
        return
    took = "failed" if last.duration_ms is None else f"took {figures.duration(last.duration_ms)}"
    counted = figures.counted(status.restarts, "restart")
    yield labelled("query", (f"{counted} in this run", "yellow"), f", the last {figures.age(last.at, now)}, {took}")
    yield labelled("", f"{last.cause}: {last.message}")
    if last.hint:
        yield labelled("", ("Try: ", "bold"), last.hint)


def _late_plans_lines(status: JobView, now: datetime) -> Iterator["Text"]:
    late = status.plans_late
    if late is None:
        return
    batches = f"batches {late.first_batch} to {late.last_batch}"
    since = "in an earlier run" if late.since is None else figures.age(late.since, now)
    yield labelled("plans", (f"{batches} ran without a durable plan", "yellow"), f", the first {since}")
    yield labelled("", f"durable since {figures.age(late.until, now)}; a disk lost in between was not exact")


def lag_lines(lag: ReportedLag | None, now: datetime) -> Iterator["Text"]:
    if lag is None:
        return
    old = "" if not lag.seconds else f", {'more than' if lag.at_least else 'about'} {_seconds(lag.seconds)} old"
    trend = "" if lag.trend is None or not lag.processed else f", {lag.trend}"
    ends = "" if lag.caught_up_in_s is None else f", caught up in about {_seconds(lag.caught_up_in_s)}"
    style = "yellow" if lag.trend == "growing" else ""
    yield labelled(
        "kafka lag", (f"{lag.processed:,} records{old}{trend}{ends}", style), f"; {figures.age(lag.at, now)}"
    )
    if lag.published is not None:
        yield labelled("", f"{lag.published:,} records that readers do not see yet")
    for each in [part for part in lag.partitions if part.processed][:_PARTITIONS]:
        yield labelled("", f"{each.topic}[{each.partition}]: {each.processed:,}")


def _skipped_lines(skipped: Sequence[SkippedRecords]) -> Iterator["Text"]:
    if skipped:
        named = ", ".join(f"{each.topic}[{each.partition}]: {each.records:,}" for each in skipped[:_PARTITIONS])
        total = sum(each.records for each in skipped)
        yield labelled("skipped", (f"{total:,} records", "bold red"), f" were deleted before they were read: {named}")


def _source_lines(history: Sequence[CheckpointDocument]) -> Iterator["Text"]:
    """The oldest checkpoint that a source limits."""
    gone = [item for item in history if item.source_gone and item.usable]
    ends = [item for item in history if item.source_until is not None and not item.source_gone and item.usable]
    if gone:
        names = ", ".join(str(item.id) for item in gone[:_PARTITIONS])
        yield labelled("source", (f"it no longer has what checkpoint {names} needs", "yellow"))
    if ends and (until := ends[-1].source_until) is not None:
        yield labelled("source", f"checkpoint {ends[-1].id} can be gone back to until about {figures.moment(until)}")


def _seconds(value: float) -> str:
    return figures.duration(round(value * 1000))


def _recovery_lines(status: JobView) -> Iterator["Text"]:
    recovery = status.recovery
    if recovery is None:
        return
    takes = f"on an empty disk about {figures.duration(round(recovery.seconds * 1000))}"
    behind = f"{_batches(recovery.batches_behind)} after the checkpoint"
    over = recovery.target_s is not None and recovery.seconds > recovery.target_s
    target = "" if recovery.target_s is None else f"; target {figures.duration(round(recovery.target_s * 1000))}"
    yield labelled("recovery", (takes, "yellow" if over else ""), f", {behind}{target}")
    if recovery.fall_back_seconds is not None and recovery.fall_back_batches is not None:
        again = _batches(recovery.fall_back_batches)
        yield labelled("", f"about {_seconds(recovery.fall_back_seconds)} if that is damaged: {again} to repeat")


def _batches(count: int) -> str:
    return f"{count} {'batch' if count == 1 else 'batches'}"


def _recent_line(history: Sequence[CheckpointDocument]) -> "Text":
    """Durations of the last checkpoints, oldest on the left; failed ones are crosses."""
    finished = [item for item in history if item.status != "in_progress"][:_RECENT]
    values = [None if item.failure else item.duration_ms or 0 for item in reversed(finished)]
    parts: list[tuple[str, str]] = [(mark, "red" if mark == "✗" else "cyan") for mark in figures.spark_line(values)]
    longest = max((value for value in values if value is not None), default=None)
    scale = f"  durations, longest {figures.duration(longest)}" if longest is not None else ""
    return labelled("recent", *parts, (scale, "dim"))
