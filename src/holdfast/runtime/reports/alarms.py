"""Alarms: sent to the log and to the user's receivers. An alarm that cannot be delivered never harms the pipeline.

Receivers are user code: one may raise, be slow, or never return. Each has its own thread and queue, so none can block
another, nor the thread that raises the alarm, which makes all decisions of the run.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.alarm import Alarm, Receiver
from holdfast.finding import Severity
from holdfast.job_log import about_the_same, log
from holdfast.runtime.clock import Clock

_LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}
_WAITING = 100
"""How many alarms may wait for a receiver. Beyond that the oldest are dropped: the newest show the current state."""


class Delivery(Protocol):
    """Delivers alarms to one receiver."""

    def send(self, alarm: Alarm) -> None:
        """Keeps the order of these calls. Never waits for the receiver on the thread that decides."""

    def close(self) -> None:
        """Nothing more is sent."""

    def ended_within(self, limit: float) -> bool:
        """After `close`: whether the receiver has returned from every alarm; waits this many seconds at most."""


class Alarms:
    def __init__(
        self, job: str, receivers: Sequence[Receiver], clock: Clock, deliver: Callable[[Receiver], Delivery]
    ) -> None:
        self._job = job
        self._deliveries = tuple(deliver(receiver) for receiver in receivers)
        self._clock = clock
        self.active: dict[str, Alarm] = {}

    def raise_alarm(self, code: str, severity: Severity, message: str, hint: str, brief: str | None = None) -> None:
        """With `brief`, the log already has the details: it gets only the brief text, at first and when the alarm gets
        worse."""
        alarm = Alarm(self._job, code, severity, message, hint, self._clock.wall())
        before = self.active.get(code)
        self.active[code] = alarm
        if brief is None or before is None or before.severity != severity:
            log.log(_LEVELS[severity], "%s. Try: %s", brief or message, hint)
        self._deliver(alarm)

    def clear(self, code: str, message: str) -> None:
        if self.active.pop(code, None) is None:
            return
        log.info("alarm %s is over: %s", code, message)
        self._deliver(Alarm(self._job, code, "info", message, "", self._clock.wall(), cleared=True))

    def close(self, limit: float) -> None:
        """Wait this many seconds in total for the receivers, then name those that have not returned."""
        ends = time.monotonic() + limit  # noqa: TID251
        for delivery in self._deliveries:
            delivery.close()
        for delivery in self._deliveries:
            if not delivery.ended_within(ends - time.monotonic()):  # noqa: TID251
                log.warning("alarm receiver %r did not return: its last alarms may be lost", delivery)

    def _deliver(self, alarm: Alarm) -> None:
        for delivery in self._deliveries:
            delivery.send(alarm)


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


class InThread:
    """One thread per receiver, from its first alarm on."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
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
            _tell(self._receiver, alarm)


def _tell(receiver: Receiver, alarm: Alarm) -> None:
    try:
        receiver(alarm)
    except Exception as error:
        log.warning("alarm receiver %r failed: %s", receiver, error)
