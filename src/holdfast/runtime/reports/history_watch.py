"""Checks the job's own history now and then, and raises alarms about its findings."""

from collections.abc import Callable, Sequence

from holdfast.coordination.commands import RaiseAlarm
from holdfast.finding import Finding
from holdfast.history import history_findings
from holdfast.history.alarming import FindingAlarms
from holdfast.identifiers import JobName
from holdfast.repository.journal import Journal
from holdfast.repository.views import Observation
from holdfast.runtime.clock import Clock
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.reports.alarms import Alarms

LOOK_S = 15.0


class HistoryWatch:
    def __init__(
        self,
        *,
        job: JobName,
        home: str,
        journal: Journal,
        alarms: Alarms,
        clock: Clock,
        lanes: Lanes,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._job = job
        self._home = home
        self._journal = journal
        self._alarms = alarms
        self._clock = clock
        self._lanes = lanes
        self._post = post
        self._judge = FindingAlarms()
        self._next = clock.monotonic() + LOOK_S
        self._seen = journal.state.head
        self._looking = False

    # On the loop's thread.

    def poll(self, now: float) -> None:
        """Without a new journal entry there is no new finding."""
        if self._looking or now < self._next or self._journal.state.head == self._seen:
            return
        self._next = now + LOOK_S
        self._seen = self._journal.state.head
        self._looking = True
        self._lanes.submit("journal", self._look)

    def _tell(self, findings: Sequence[Finding]) -> None:
        self._looking = False
        for command in self._judge.judge(findings):
            if isinstance(command, RaiseAlarm):
                self._alarms.raise_alarm(command.code, command.severity, command.message, command.hint)
            else:
                self._alarms.clear(command.code, command.message)

    # On the journal lane: no append happens meanwhile.

    def _look(self) -> None:
        findings = history_findings(
            Observation(
                job=self._job,
                home=self._home,
                state=self._journal.state,
                heartbeat=None,
                alive=True,
                now=self._clock.wall(),
            )
        )
        self._post(lambda: self._tell(findings))
