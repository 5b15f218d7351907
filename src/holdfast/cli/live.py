"""`holdfast status --live`: whether a job is alive. For probes: at most one request, and none on the run's host."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.cli import figures
from holdfast.cli.doctor_text import STYLES
from holdfast.cli.output import labelled
from holdfast.errors import InvalidSettings, StorageError
from holdfast.identifiers import job_name
from holdfast.repository.entries import Failure
from holdfast.repository.liveness import NO_HEARTBEAT, Liveness, by_heartbeat, by_state_file
from holdfast.repository.ownership import Heartbeat, current_process, read_heartbeat
from holdfast.repository.self_report import NAME, LocalState, ReportedAlarm, SelfReport, read_local_state
from holdfast.showing import masked
from holdfast.storage.urls import open_store
from holdfast.workdir.factory import local_place

if TYPE_CHECKING:
    from rich.text import Text


class LiveDocument(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    home: str
    live: bool
    why: str
    source: str
    """`process`: its state file on this host; `heartbeat`: the home; `nothing`."""
    seconds_since_told: float | None
    host: str | None = None
    pid: int | None = None
    phase: str | None = None
    query_runs: bool | None = None
    last_completed: int | None = None
    last_completed_at: datetime | None = None
    consecutive_failures: int | None = None
    last_failure: Failure | None = None
    alarms: tuple[ReportedAlarm, ...] = ()


def live_document(home: str, job: str, work: str | None) -> LiveDocument:
    return _document(home, job, _liveness(home.rstrip("/") or home, job_name(job), work))


def reported_here(home: str, job: str, work: str | None) -> LiveDocument | None:
    """What a run of the job reports on this host, without a request to the home; None when there is no report."""
    local = _local_state(home.rstrip("/") or home, job_name(job), work)
    liveness = _by(local) if local is not None else None
    return None if liveness is None else _document(home, job, liveness)


def _liveness(home: str, job: str, work: str | None) -> Liveness:
    """What the run reports on this host is read first: it costs nothing and needs no home."""
    local = _local_state(home, job, work)
    liveness = _by(local) if local is not None else None
    if liveness is not None and not liveness.over:
        return liveness
    try:
        return _by_home(home, job)
    except StorageError:
        if liveness is None:
            raise
        return liveness


def _by_home(home: str, job: str) -> Liveness:
    beat = read_heartbeat(open_store(home).scoped(job))
    if beat is None:
        return NO_HEARTBEAT
    return _local_liveness(beat) or by_heartbeat(beat, current_process(), datetime.now(UTC))


def _local_state(home: str, job: str, work: str | None) -> LocalState | None:
    try:
        local = read_local_state(local_place(work, home) / job / NAME)
    except InvalidSettings:
        if work is not None:
            raise
        return None
    return local if local is not None and (local.home, local.job) == (masked(home), job) else None


def _local_liveness(beat: Heartbeat) -> Liveness | None:
    """The report on this host of the run that the home names, if that run is here."""
    local = read_local_state(Path(beat.state_file)) if beat.state_file else None
    return _by(local) if local is not None and local.claim == beat.claim else None


def _by(local: LocalState) -> Liveness | None:
    return by_state_file(local, current_process(), time.monotonic())


def _document(home: str, job: str, liveness: Liveness) -> LiveDocument:
    report = liveness.report or SelfReport()
    return LiveDocument(
        job=job,
        home=home,
        live=liveness.alive,
        why=liveness.why,
        source=liveness.source,
        seconds_since_told=None if liveness.age_s is None else round(liveness.age_s, 3),
        host=liveness.process.host if liveness.process else None,
        pid=liveness.process.pid if liveness.process else None,
        phase=report.phase if liveness.report else None,
        query_runs=report.query_runs if liveness.report else None,
        last_completed=report.last_completed,
        last_completed_at=report.last_completed_at,
        consecutive_failures=report.consecutive_failures if liveness.report else None,
        last_failure=report.last_failure,
        alarms=report.alarms,
    )


def live_lines(document: LiveDocument, now: datetime) -> Iterator["Text"]:
    from rich.text import Text

    word = ("alive", "green") if document.live else ("not alive", "bold red")
    yield Text.assemble((document.job, "bold"), "  ", word)
    yield labelled("by", document.why)
    if document.seconds_since_told is not None:
        yield labelled("reported", f"{figures.duration(document.seconds_since_told * 1000)} ago")
    if document.phase == "starting":
        yield labelled("query", ("is being started", "yellow"))
    elif document.query_runs is False and document.live:
        yield labelled("query", ("is not running", "bold red"))
    if document.last_completed is not None:
        when = f", {figures.age(document.last_completed_at, now)}" if document.last_completed_at else ""
        yield labelled("last good", f"checkpoint {document.last_completed}{when}")
    yield from failure_lines(document.consecutive_failures, document.last_failure)
    yield from alarm_lines(document.alarms, now)


def failure_lines(count: int | None, last: Failure | None) -> Iterator["Text"]:
    if not count or last is None:
        return
    yield labelled("failures", (f"{count} in a row", "bold red"))
    yield labelled("", f"{last.reason}: {last.message}")
    if last.hint:
        yield labelled("", ("Try: ", "bold"), last.hint)


def alarm_lines(alarms: tuple[ReportedAlarm, ...], now: datetime) -> Iterator["Text"]:
    for alarm in alarms:
        text = f" ({alarm.severity}), raised {figures.age(alarm.at, now)}: {alarm.message}"
        yield labelled("alarm", (alarm.code, STYLES[alarm.severity]), text)
        if alarm.hint:
            yield labelled("", ("Try: ", "bold"), alarm.hint)
