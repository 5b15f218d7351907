"""`holdfast watch`: the alarms of all jobs of a home, from outside their drivers. A driver that is gone has none.

Runs until it is stopped. It is watched itself: `--alive-url` is called while it can read the home.
"""

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.alarm import Receiver
from holdfast.cli.home_reader import NONSENSE, HomeReader, HomeReading
from holdfast.cli.logs import log_to_standard_error
from holdfast.cli.options import AlarmUrls, Home
from holdfast.cli.output import print_message
from holdfast.errors import InvalidSettings, JobFailed
from holdfast.finding import Finding
from holdfast.history import history_findings
from holdfast.job_log import about
from holdfast.notifying.channels import call, receivers_of
from holdfast.repository.views import Observation
from holdfast.runtime.clock import Clock, SystemClock
from holdfast.runtime.reports.alarms import Alarms, Delivery
from holdfast.runtime.reports.alive_calls import AliveCalls
from holdfast.runtime.reports.posting import delivery_to
from holdfast.settings import seconds

if TYPE_CHECKING:
    from holdfast.monitoring.metrics_server import MetricsServer

HOME_UNREACHABLE = "home_unreachable"
JOB_UNREADABLE = "job_unreadable"
_HOME_HINT = "check the network and the credentials; jobs keep running meanwhile, and raise their own alarms"
_JOB_HINT = "holdfast verify, which names what is damaged"

_GONE_FOR_GOOD = 3
"""How many rounds a warning must be away before it is over: a figure near its threshold fluctuates."""

Every = Annotated[str, typer.Option("--every", metavar="DURATION", help="How often the home is read.")]
AliveUrl = Annotated[
    str | None,
    typer.Option("--alive-url", metavar="URL", show_default=False, help="Called while the watch can read the home."),
]
MetricsPort = Annotated[
    int | None, typer.Option("--metrics-port", metavar="N", show_default=False, help="Serve metrics of all jobs here.")
]
Once = Annotated[bool, typer.Option("--once", help="One round; exit with 1 when an alarm is critical.")]


def watch(
    home: Home,
    alarm: AlarmUrls = None,
    every: Every = "15s",
    alive_url: AliveUrl = None,
    metrics_port: MetricsPort = None,
    once: Once = False,
) -> None:
    """Raise the alarms of all jobs from outside their drivers."""
    pause = seconds("every", every, least=1.0)
    if not alarm and not once:
        raise InvalidSettings(
            f"could not watch {home}: no receiver of alarms is named", hint="--alarm https://…, or HOLDFAST_ALARMS"
        )
    log_to_standard_error()
    clock = SystemClock()
    alive = None if alive_url is None else AliveCalls(alive_url, call, clock)
    reader = HomeReader(home)
    watching = Watching(home, receivers_of(alarm or ()), clock, alive)
    server = None if metrics_port is None else _serve_metrics(metrics_port, reader)
    try:
        _rounds(reader, watching, clock, pause, once)
    finally:
        watching.close(5.0)
        if server is not None:
            server.close()


def _rounds(reader: HomeReader, watching: "Watching", clock: Clock, pause: float, once: bool) -> None:
    never = threading.Event()
    while True:
        watching.judge(reader.refresh(), clock.monotonic())
        if once:
            break
        never.wait(pause)
    critical = sorted(watching.critical())
    if critical:
        raise JobFailed(f"critical alarms: {', '.join(critical)}", hint="holdfast jobs")


def _serve_metrics(port: int, reader: HomeReader) -> "MetricsServer":
    from holdfast.monitoring.metrics_server import MetricsServer

    server = MetricsServer("127.0.0.1", port, lambda: list(reader.latest.jobs.values()))
    print_message(f"metrics are at http://127.0.0.1:{server.port}/metrics")
    return server


class Watching:
    """Findings of all jobs as alarms. A finding that is gone is over; while the home cannot be read, nothing is."""

    def __init__(
        self,
        home: str,
        receivers: tuple[Receiver, ...],
        clock: Clock,
        alive: AliveCalls | None = None,
        deliver: Callable[[Receiver], Delivery] = delivery_to,
    ) -> None:
        self._home = home
        self._clock = clock
        self._deliveries: Mapping[Receiver, Delivery] = {receiver: deliver(receiver) for receiver in receivers}
        self._missed: dict[tuple[str, str], int] = {}
        self._of_home = self._alarms("", alive)
        self._of_jobs: dict[str, Alarms] = {}

    def judge(self, reading: HomeReading, now: float) -> None:
        if reading.failure is not None:
            self._of_home.raise_alarm(HOME_UNREACHABLE, "critical", reading.failure, _HOME_HINT)
        else:
            self._of_home.clear(HOME_UNREACHABLE, "the home answers again")
            for name, seen in reading.jobs.items():
                self._judge_seen(name, seen)
            self._judge_unreadable(reading.unreadable)
        self._of_home.look(now)

    def critical(self) -> set[str]:
        return {
            f"{alarm.job or 'the home'}: {alarm.code}"
            for alarms in (self._of_home, *self._of_jobs.values())
            for alarm in alarms.active.values()
            if alarm.severity == "critical"
        }

    def close(self, limit: float) -> None:
        self._of_home.close(limit)

    def _judge_seen(self, name: str, seen: Observation) -> None:
        try:
            findings = {each.code: each for each in history_findings(seen) if each.severity != "info"}
        except NONSENSE as error:
            self._judge_unreadable({name: f"what its home says makes no sense: {error}"})
        else:
            self._judge_job(name, findings)

    def _judge_job(self, name: str, findings: Mapping[str, Finding]) -> None:
        alarms = self._of_job(name)
        with about(name):
            for code, found in findings.items():
                self._missed[name, code] = 0
                known = alarms.active.get(code)
                if known is None or known.severity != found.severity:
                    hint = "; ".join(line.removeprefix("# ") for line in found.fix)
                    alarms.raise_alarm(code, found.severity, f"{found.symptom}: {found.cause}", hint)
            for code in [code for code in alarms.active if code not in findings]:
                self._missed[name, code] = self._missed.get((name, code), 0) + 1
                if alarms.active[code].severity == "critical" or self._missed[name, code] >= _GONE_FOR_GOOD:
                    alarms.clear(code, "it is no longer so")

    def _judge_unreadable(self, unreadable: Mapping[str, str]) -> None:
        for name, why in unreadable.items():
            alarms = self._of_job(name)
            if JOB_UNREADABLE not in alarms.active:
                alarms.raise_alarm(JOB_UNREADABLE, "critical", why, _JOB_HINT)

    def _of_job(self, name: str) -> Alarms:
        return self._of_jobs.setdefault(name, self._alarms(name, None))

    def _alarms(self, job: str, alive: AliveCalls | None) -> Alarms:
        """All jobs share the deliveries: one outage is one message."""
        receivers, deliver = tuple(self._deliveries), self._deliveries.__getitem__
        return Alarms(job, receivers, self._clock, deliver, home=self._home, alive=alive)
