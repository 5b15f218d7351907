"""Alarms: sent to the log and to the user's receivers. An alarm that cannot be delivered never harms the pipeline.

Receivers are user code: one may raise, be slow, or never return. Each has its own thread and queue, so none can block
another, nor the thread that raises the alarm, which makes all decisions of the run.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from holdfast.alarm import Alarm, Change, Receiver
from holdfast.finding import RANK, Severity
from holdfast.job_log import about_the_same, log
from holdfast.repository.self_report import PAST_ALARMS, PastAlarm, ReportedAlarm
from holdfast.runtime.clock import Clock, SystemClock
from holdfast.runtime.reports.alive_calls import AliveCalls, overdue
from holdfast.showing import masked

_LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}
_WAITING = 100
"""How many alarms may wait for a receiver. Beyond that the oldest are dropped: the newest show the current state."""
_TOLD_OF_PAST = 120
"""Characters of its message that are kept."""


class Delivery(Protocol):
    """Delivers alarms to one receiver."""

    def send(self, alarm: Alarm) -> None:
        """Keeps the order of these calls. Never waits for the receiver on the thread that decides."""

    def close(self) -> None:
        """Nothing more is sent."""

    def ended_within(self, limit: float) -> bool:
        """After `close`: whether the receiver has returned from every alarm; waits this many seconds at most."""

    def trouble(self, now: float) -> str | None:
        """Why the receiver does not get its alarms at this monotonic time; None when it does. Never waits."""


UNDELIVERED = "alarms_undelivered"
_UNDELIVERED_HINT = "check the receiver, then `holdfast alarm test`; the other receivers get every alarm"


class Alarms:
    def __init__(
        self,
        job: str,
        receivers: Sequence[Receiver],
        clock: Clock,
        deliver: Callable[[Receiver], Delivery],
        *,
        home: str = "",
        alive: AliveCalls | None = None,
    ) -> None:
        """`alive` is called as long as no alarm is critical."""
        self._job = job
        self._home = home
        self._deliveries = tuple(deliver(receiver) for receiver in receivers)
        self._alive = alive
        self._in_trouble: list[str] = []
        self._clock = clock
        self.active: dict[str, Alarm] = {}
        self.past: tuple[PastAlarm, ...] = ()
        """Oldest first; the newest `PAST_ALARMS`."""

    def look(self, now: float) -> None:
        """Raise an alarm about receivers that get none, and show that all is well if it is."""
        senders: list[tuple[object, str | None]] = [(each, each.trouble(now)) for each in self._deliveries]
        if self._alive is not None:
            senders.append((self._alive, self._alive.trouble(now)))
            if all(alarm.severity != "critical" for alarm in self.active.values()):
                self._alive.all_is_well(now)
        failing = [(repr(sender), why) for sender, why in senders if why is not None]
        names = [name for name, _ in failing]
        if names == self._in_trouble:
            return
        self._in_trouble = names
        if failing:
            why = "; ".join(f"{name}: {why}" for name, why in failing)
            self.raise_alarm(UNDELIVERED, "warning", f"alarms are not delivered to {why}", _UNDELIVERED_HINT)
        else:
            self.clear(UNDELIVERED, "all receivers get their alarms again")

    def raise_alarm(self, code: str, severity: Severity, message: str, hint: str, brief: str | None = None) -> None:
        """With `brief`, the log already has the details: it gets only the brief text, at first and when the alarm gets
        worse."""
        now, before = self._clock.wall(), self.active.get(code)
        since = now if before is None else before.since
        change = _change(before, severity)
        alarm = Alarm(self._job, code, severity, message, hint, now, change=change, since=since, home=self._home)
        self.active[code] = alarm
        if brief is None or before is None or before.severity != severity:
            log.log(_LEVELS[severity], "alarm %s: %s. Try: %s", code, brief or message, hint)
        self._deliver(alarm)

    def clear(self, code: str, message: str) -> None:
        before = self.active.pop(code, None)
        if before is None:
            return
        log.info("alarm %s is over: %s", code, message)
        self.past = (*self.past, past_alarm(before, self._clock.wall()))[-PAST_ALARMS:]
        over = Alarm(self._job, code, "info", message, "", self._clock.wall(), cleared=True)
        self._deliver(replace(over, change="over", since=before.since, home=self._home))

    def close(self, limit: float) -> None:
        """Wait this many seconds in total for the receivers, then name those that have not returned."""
        ends = time.monotonic() + limit  # noqa: TID251
        if self._alive is not None:
            self._alive.close()
        for delivery in self._deliveries:
            delivery.close()
        for delivery in self._deliveries:
            if not delivery.ended_within(ends - time.monotonic()):  # noqa: TID251
                log.warning("alarm receiver %r did not return: its last alarms may be lost", delivery)

    def _deliver(self, alarm: Alarm) -> None:
        for delivery in self._deliveries:
            delivery.send(alarm)


def past_alarm(alarm: Alarm | ReportedAlarm, until: datetime) -> PastAlarm:
    since = alarm.since or alarm.at
    message = masked(alarm.message)[:_TOLD_OF_PAST]
    return PastAlarm(code=alarm.code, severity=alarm.severity, message=message, since=since, until=until)


def _change(before: Alarm | None, severity: Severity) -> Change:
    if before is None:
        return "began"
    return "worse" if RANK[severity] < RANK[before.severity] else "again"


class AtOnce:
    """Calls the receiver on the thread that raises the alarm: for simulation and tests."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def send(self, alarm: Alarm) -> None:
        _tell(self._receiver, alarm)

    def close(self) -> None:
        pass

    def ended_within(self, limit: float) -> bool:
        return True

    def trouble(self, now: float) -> str | None:
        return None


class InThread:
    """One thread per receiver, from its first alarm on."""

    def __init__(self, receiver: Receiver, clock: Clock = SystemClock()) -> None:  # noqa: B008  it has no state
        self._receiver = receiver
        self._clock = clock
        self._called_at: float | None = None
        self._failure: str | None = None
        self._waiting: queue.Queue[Alarm | None] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return repr(self._receiver)

    def send(self, alarm: Alarm) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=about_the_same(self._serve), name="holdfast-alarms", daemon=True)
            self._thread.start()
        self._put(alarm)

    def close(self) -> None:
        self._put(None)

    def ended_within(self, limit: float) -> bool:
        if self._thread is None:
            return True
        self._thread.join(max(0.0, limit))
        return not self._thread.is_alive()

    def trouble(self, now: float) -> str | None:
        return overdue(self._called_at, now) or self._failure

    def _put(self, item: Alarm | None) -> None:
        while True:
            try:
                self._waiting.put_nowait(item)
            except queue.Full:
                self._drop_oldest()
            else:
                return

    def _drop_oldest(self) -> None:
        try:
            dropped = self._waiting.get_nowait()
        except queue.Empty:
            return
        if dropped is not None:
            log.warning("alarm %s is not delivered to %r, which is behind", dropped.code, self)

    def _serve(self) -> None:
        while (alarm := self._waiting.get()) is not None:
            self._called_at = self._clock.monotonic()
            self._failure = _tell(self._receiver, alarm)
            self._called_at = None


def _tell(receiver: Receiver, alarm: Alarm) -> str | None:
    """Why it failed."""
    try:
        receiver(alarm)
    except Exception as error:
        log.warning("alarm receiver %r failed: %s", receiver, error)
        return f"it raised {type(error).__name__}: {error}"
    return None
