"""`holdfast status`: one job, for a person who was just woken up."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from holdfast.cli import figures
from holdfast.cli.doctor_text import STYLES
from holdfast.cli.jobs import STATE_STYLES, STATE_WORDS
from holdfast.cli.live import live_document, live_lines
from holdfast.cli.observing import observe
from holdfast.cli.options import AsJson, Home, Job
from holdfast.cli.output import answer, labelled, print_json
from holdfast.errors import JobFailed
from holdfast.repository.entries import Requests
from holdfast.repository.views import CheckpointDocument, JobStatus, Observation, checkpoints, job_status
from holdfast.storage.metered import Usage
from holdfast.storage.prices import dollars_a_month

if TYPE_CHECKING:
    from rich.text import Text

_RECENT = 30

Live = Annotated[
    bool,
    typer.Option(
        "--live", help="Only whether it is alive, and what it says of itself: for probes. Exit with 1 when it is not."
    ),
]
Work = Annotated[
    str | None,
    typer.Option(
        "--work",
        metavar="DIR",
        show_default=False,
        help="With --live: the run's --work, when it is not the usual.",
    ),
]
Running = Annotated[bool, typer.Option("--running", help="Exit with 1 unless the pipeline runs, for probes.")]


def status(
    home: Home,
    job: Job,
    running: Running = False,
    live: Live = False,
    work: Work = None,
    as_json: AsJson = False,
) -> None:
    """One job: owner, last good checkpoint, failures."""
    if live:
        _status_live(home, job, work, as_json)
        return
    seen = observe(home, job)
    document = msgspec.structs.replace(job_status(seen), findings=_findings(seen))
    if as_json:
        print_json(document)
    else:
        console = answer()
        for line in _lines(document, checkpoints(seen), seen.now):
            console.print(line)
    if running and not document.running:
        raise JobFailed(f"job {job!r} of {home} does not run", hint="holdfast run, or wait until it has started")


def _status_live(home: str, job: str, work: str | None, as_json: bool) -> None:
    document = live_document(home, job, work)
    if as_json:
        print_json(document)
    else:
        console = answer()
        for line in live_lines(document, datetime.now(UTC)):
            console.print(line)
    if not document.live:
        raise JobFailed(f"job {job!r} of {home} is not alive: {document.why}", hint="holdfast status shows more")


def _findings(seen: Observation) -> tuple[dict[str, Any], ...]:
    """What needs attention; `holdfast doctor` tells more."""
    from holdfast.history import history_findings

    found = history_findings(seen)
    return tuple(msgspec.to_builtins(finding) for finding in found if finding.severity != "info")


def _lines(status: JobStatus, history: Sequence[CheckpointDocument], now: datetime) -> Iterator["Text"]:
    from rich.text import Text

    yield Text.assemble((status.job, "bold"), "  ", (STATE_WORDS[status.state], STATE_STYLES[status.state]))
    yield from _owner_lines(status, now)
    if status.maintenance is not None:
        yield labelled("maintenance", f"by a command on {status.maintenance.host}, pid {status.maintenance.pid}")
    yield _last_completed_line(status.last_completed, now)
    if status.last_completed and status.last_completed.requests:
        yield _requests_line(status.last_completed.requests, status.home)
    if status.state == "lost":
        yield labelled("next", "the last run vanished; start it again and it continues from there or newer")
    yield from _failure_lines(status)
    yield from _restart_lines(status, now)
    if history:
        yield _recent_line(history)
    yield from _finding_lines(status)


def _owner_lines(status: JobStatus, now: datetime) -> Iterator["Text"]:
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


def _last_completed_line(last: CheckpointDocument | None, now: datetime) -> "Text":
    if last is None or last.completed_at is None:
        return labelled("last good", ("no checkpoint has completed yet", "yellow"))
    name = f" {last.name!r}" if last.name else ""
    damage = (f", damaged: {last.corrupt}", "bold red") if last.corrupt else ""
    return labelled(
        "last good",
        (f"{last.kind} {last.id}{name}", "bold"),
        f" at batch {last.barrier_batch_id}, {figures.age(last.completed_at, now)}, {figures.size(last.bytes_total)}",
        damage,
    )


def _requests_line(requests: Requests, home: str) -> "Text":
    """What the last good checkpoint cost in requests, heartbeats and retention since the one before included."""
    counts = {"PUT": requests.put, "GET": requests.get, "LIST": requests.list, "DELETE": requests.delete}
    shown = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count) or "none"
    dollars = dollars_a_month(home, Usage(**msgspec.structs.asdict(requests)))
    cost = "" if dollars is None else f", about ${dollars:,.2f} a month"
    return labelled("requests", f"{shown} in {figures.duration(round(requests.seconds * 1000))}", (cost, "dim"))


def _failure_lines(status: JobStatus) -> Iterator["Text"]:
    last = status.last_failure
    if last is None or last.failure is None:
        yield labelled("failures", ("none since the last good one", "green") if status.last_completed else "none")
        return
    since = "" if status.last_completed is None else " since the last good one"
    yield labelled("failures", (f"{status.consecutive_failures}{since}", "bold red"))
    yield labelled("", f"{last.failure.reason}: {last.failure.message}")
    if last.failure.hint:
        yield labelled("", ("Try: ", "bold"), last.failure.hint)


def _finding_lines(status: JobStatus) -> Iterator["Text"]:
    for finding in status.findings:
        yield labelled("finding", (finding["code"], STYLES[finding["severity"]]), f": {finding['cause']}")
        yield from (labelled("", ("Try: ", "bold"), line) for line in finding["fix"] if not line.startswith("#"))


def _restart_lines(status: JobStatus, now: datetime) -> Iterator["Text"]:
    last = status.last_restart
    if last is None:
        return
    took = "failed" if last.duration_ms is None else f"took {figures.duration(last.duration_ms)}"
    counted = figures.counted(status.restarts, "restart")
    yield labelled("query", (f"{counted} in this run", "yellow"), f", the last {figures.age(last.at, now)}, {took}")
    yield labelled("", f"{last.cause}: {last.message}")
    if last.hint:
        yield labelled("", ("Try: ", "bold"), last.hint)


def _recent_line(history: Sequence[CheckpointDocument]) -> "Text":
    """Durations of the last checkpoints, oldest on the left; failed ones are crosses."""
    finished = [item for item in history if item.status != "in_progress"][:_RECENT]
    values = [None if item.failure else item.duration_ms or 0 for item in reversed(finished)]
    parts: list[tuple[str, str]] = [(mark, "red" if mark == "✗" else "cyan") for mark in figures.spark_line(values)]
    longest = max((value for value in values if value is not None), default=None)
    scale = f"  durations, longest {figures.duration(longest)}" if longest is not None else ""
    return labelled("recent", *parts, (scale, "dim"))
