"""Which alarms wait for a receiver, and when they are sent together as one message. Pure: time is an argument.

Of one alarm at most three reports reach a person: that it began, that it became critical, that it is over. Reports that
nobody has got yet are put together: an alarm that ends and begins again meanwhile has not ended for those who read it.
"""

from dataclasses import dataclass

from holdfast.alarm import Alarm


@dataclass(frozen=True)
class Pace:
    gather_s: float = 3.0
    """After the first alarm, wait for those that belong to it: one cause raises several."""
    burst: int = 5
    """So many messages may follow each other, then one in `refill_s`."""
    refill_s: float = 60.0
    retry_s: float = 1.0
    """Before the first repetition of a message that failed; doubled with each further one, up to `retry_most_s`."""
    retry_most_s: float = 60.0
    most: int = 500
    """How many reports may wait. Beyond that the oldest are dropped."""


class Outbox:
    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._waiting: list[Alarm] = []
        self._gathered_at = 0.0
        self._not_before = 0.0
        self._allowed = float(pace.burst)
        self._counted_at = 0.0
        self._failures = 0

    def add(self, alarm: Alarm, now: float) -> None:
        if alarm.change == "again":
            return
        if not self._waiting:
            self._gathered_at = now + self._pace.gather_s
        over = next((each for each in self._waiting if each.cleared and _key(each) == _key(alarm)), None)
        if over is not None and alarm.change == "began":
            self._waiting.remove(over)
            return
        self._waiting.append(alarm)
        if len(self._waiting) > self._pace.most:
            self._waiting.pop(0)

    def due(self, now: float) -> float | None:
        """When the waiting alarms are to be sent; None when nothing waits."""
        if not self._waiting:
            return None
        self._refill(now)
        enough = now if self._allowed >= 1 else now + (1 - self._allowed) * self._pace.refill_s
        return max(self._gathered_at, self._not_before, enough)

    def take(self, now: float) -> tuple[Alarm, ...]:
        """What waits, as one message."""
        self._refill(now)
        taken, self._waiting = tuple(self._waiting), []
        self._allowed = max(0.0, self._allowed - 1)
        return taken

    def delivered(self) -> None:
        self._failures = 0

    def failed(self, alarms: tuple[Alarm, ...], now: float) -> None:
        """They wait again, in front of what has come meanwhile."""
        delay = self._pace.retry_s * 2 ** min(self._failures, 10)
        self._failures += 1
        self._not_before = now + min(delay, self._pace.retry_most_s)
        self._allowed = min(float(self._pace.burst), self._allowed + 1)
        later, self._waiting = self._waiting, list(alarms)
        self._gathered_at = now
        for alarm in later:
            self.add(alarm, now)

    def _refill(self, now: float) -> None:
        gained = max(0.0, now - self._counted_at) / self._pace.refill_s
        self._allowed = min(float(self._pace.burst), self._allowed + gained)
        self._counted_at = now


def _key(alarm: Alarm) -> tuple[str, str, str]:
    return (alarm.home, alarm.job, alarm.code)
