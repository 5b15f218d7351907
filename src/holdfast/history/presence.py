"""Whether the job's process is alive, and what it reports. A missing report is a finding, too."""

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from holdfast.finding import Evidence, Finding
from holdfast.history.numbers import Numbers, seconds
from holdfast.repository.liveness import Liveness
from holdfast.repository.self_report import ReportedAlarm
from holdfast.repository.views import job_status

_LATE_BEATS = 6


def owner_gone(numbers: Numbers) -> Finding | None:
    """A run that ends records its end."""
    status = job_status(numbers.seen)
    owner = status.owner
    if status.state != "lost" or owner is None:
        return None
    since = owner.heartbeat_at or owner.started_at
    silent = (numbers.seen.now - since).total_seconds()
    ago = f"{_long(silent)} ago" if silent > 0 else "in the future by this clock, so its age is unknown"
    finding = numbers.finding(
        "owner-gone",
        "critical" if silent > 0 else "warning",
        "the job does not run, and its last run did not record its end",
        f"run {owner.fencing_epoch} on {owner.host}, pid {owner.pid}, sent its last heartbeat "
        f"{ago}: it was killed, its host is gone, or it cannot reach the home",
        ("# start the job again: it resumes from the newest usable checkpoint, or newer",),
        (),
        count=1,
    )
    return _seen(finding, numbers, since, f"last heartbeat of run {owner.fencing_epoch}: {since.isoformat()}")


def run_failed(numbers: Numbers) -> Finding | None:
    ended = numbers.seen.state.pipeline_ended
    if ended is None or not ended.failed:
        return None
    finding = numbers.finding(
        "run-failed",
        "critical",
        "the job does not run: its last run ended with a failure",
        ended.reason,
        ("# fix what the message names, then start the job again: it resumes where it stopped",),
        (),
        count=1,
    )
    return _seen(finding, numbers, ended.at, f"run {ended.fencing_epoch}: {ended.reason}")


def unmoved(numbers: Numbers) -> Finding | None:
    """The process exists, but updates neither its state file nor its heartbeat."""
    liveness, run = numbers.seen.liveness, numbers.seen.state.pipeline
    if run is None or liveness is None or liveness.age_s is None or not numbers.seen.running:
        return None
    if liveness.age_s <= _LATE_BEATS * run.heartbeat_s:
        return None
    finding = numbers.finding(
        "process-silent",
        "critical",
        "the process of the job exists, but holdfast in it makes no progress",
        f"{liveness.why}: it is paused, or stuck",
        ("# check the process: is it stopped, is the machine out of memory or disk? Restart it if it stays so",),
        (),
        count=1,
    )
    return _seen(finding, numbers, None, liveness.why)


def home_silent(numbers: Numbers) -> Finding | None:
    """The process reports on its host that it is well, but its heartbeat does not reach the home."""
    liveness, run, beat = numbers.seen.liveness, numbers.seen.state.pipeline, numbers.seen.heartbeat
    if (
        run is None
        or beat is None
        or liveness is None
        or not _speaks(liveness)
        or beat.fencing_epoch != run.fencing_epoch
    ):
        return None
    silent = (numbers.seen.now - beat.heartbeat_at).total_seconds()
    if silent <= _LATE_BEATS * run.heartbeat_s:
        return None
    finding = numbers.finding(
        "home-not-written",
        "critical",
        "the job runs, but cannot write to its home",
        f"its last heartbeat there is {_long(silent)} old; other hosts take it for dead",
        ("# holdfast status on the host of the job shows the reason: a full disk, missing permissions, a lost mount",),
        (),
        count=1,
    )
    return _seen(finding, numbers, beat.heartbeat_at, f"last heartbeat in the home: {beat.heartbeat_at.isoformat()}")


def _speaks(liveness: Liveness) -> bool:
    return liveness.alive and liveness.source == "process"


def alarms(numbers: Numbers, known: Iterable[str]) -> Iterator[Finding]:
    """Alarms that the process raised, except those that the history also shows."""
    report, reported = numbers.seen.report, set(known)
    for alarm in report.alarms if report else ():
        if alarm.severity != "info" and (code := alarm.code.replace("_", "-")) not in reported:
            yield _of_alarm(numbers, code, alarm)


def _of_alarm(numbers: Numbers, code: str, alarm: ReportedAlarm) -> Finding:
    finding = numbers.finding(
        code, alarm.severity, "the running job has raised an alarm", alarm.message, (f"# {alarm.hint}",), (), count=1
    )
    return _seen(finding, numbers, alarm.at, alarm.message)


def _seen(finding: Finding, numbers: Numbers, at: datetime | None, text: str) -> Finding:
    place = f"{numbers.seen.home.rstrip('/')}/{numbers.seen.job}"
    moment = numbers.moment(at)
    evidence = (Evidence(source=place, line=0, text=text),)
    return msgspec.structs.replace(finding, evidence=evidence, first_seen=moment, last_seen=moment)


def _long(silent_s: float) -> str:
    if silent_s >= 7200:
        return f"{silent_s / 3600:.1f} hours"
    return seconds(silent_s * 1000)
