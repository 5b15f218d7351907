"""Sends messages about alarms to one channel: grouped, not too many, repeated until it takes them.

One thread per channel, from its first alarm on: a channel that is down, slow or hangs delays neither the pipeline nor
the other channels.
"""

import threading

from holdfast.alarm import Alarm, Receiver
from holdfast.job_log import about_the_same, log
from holdfast.notifying.channels import Channel, NotDelivered
from holdfast.notifying.message import message_about
from holdfast.notifying.outbox import Outbox, Pace
from holdfast.runtime.clock import Clock, SystemClock
from holdfast.runtime.reports.alarms import Delivery, InThread
from holdfast.runtime.reports.alive_calls import overdue


def delivery_to(receiver: Receiver) -> Delivery:
    return Posting(receiver, SystemClock()) if isinstance(receiver, Channel) else InThread(receiver)


class Posting:
    def __init__(self, channel: Channel, clock: Clock, pace: Pace | None = None) -> None:
        self._channel = channel
        self._clock = clock
        self._outbox = Outbox(pace or Pace())
        self._changed = threading.Condition()
        """Guards the outbox and `_closing`. Nobody holds it while the channel is called."""
        self._closing = False
        self._thread: threading.Thread | None = None
        self._called_at: float | None = None
        self._failure: str | None = None

    def __repr__(self) -> str:
        return repr(self._channel)

    def send(self, alarm: Alarm) -> None:
        with self._changed:
            self._outbox.add(alarm, self._clock.monotonic())
            if self._thread is None:
                self._thread = threading.Thread(target=about_the_same(self._serve), name="holdfast-alarms", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()

    def ended_within(self, limit: float) -> bool:
        if self._thread is None:
            return True
        self._thread.join(max(0.0, limit))
        return not self._thread.is_alive()

    def trouble(self, now: float) -> str | None:
        return overdue(self._called_at, now) or self._failure

    def _serve(self) -> None:
        while alarms := self._next():
            self._post(alarms)

    def _next(self) -> tuple[Alarm, ...]:
        """The next message; empty when there is none and none comes."""
        with self._changed:
            while not self._closing:
                now = self._clock.monotonic()
                due = self._outbox.due(now)
                if due is not None and due <= now:
                    break
                self._changed.wait(None if due is None else due - now)
            return self._outbox.take(self._clock.monotonic())

    def _post(self, alarms: tuple[Alarm, ...]) -> None:
        self._called_at = self._clock.monotonic()
        try:
            self._channel.post(message_about(alarms, self._clock.wall()))
        except NotDelivered as error:
            self._failed(alarms, str(error))
        except Exception as error:
            self._failed(alarms, f"{type(error).__name__}: {error}")
        else:
            self._failure = None
            with self._changed:
                self._outbox.delivered()
        finally:
            self._called_at = None

    def _failed(self, alarms: tuple[Alarm, ...], why: str) -> None:
        if self._failure is None:
            log.warning("could not deliver an alarm to %r, retrying: %s", self, why)
        self._failure = why
        with self._changed:
            if not self._closing:
                self._outbox.failed(alarms, self._clock.monotonic())
                return
        log.warning("the last alarms of the run did not reach %r: %s", self, why)
