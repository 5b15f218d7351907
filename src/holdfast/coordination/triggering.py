"""When a periodic checkpoint is due, and which alarm is raised while it cannot be taken."""

from holdfast.coordination.commands import ClearAlarm, Command, RaiseAlarm
from holdfast.coordination.limits import Limits

DEFERRED = "checkpoints_deferred"


class Triggering:
    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._next = limits.first_trigger(now)
        self._last_completed = now - limits.min_pause
        self._backoff_until = now
        self.skipped = False
        self._deferred_since: float | None = None
        self._alarmed = False

    @property
    def time(self) -> float:
        return max(self._next, self._last_completed + self._limits.min_pause, self._backoff_until)

    @property
    def deferred(self) -> bool:
        return self._deferred_since is not None

    def hasten(self, now: float) -> None:
        """It is due before the interval has passed; min_pause and back-off hold all the same."""
        self._next = min(self._next, now)

    def began(self, now: float) -> None:
        self._next = now + self._limits.interval
        self.skipped = False

    def completed(self, now: float) -> None:
        self._last_completed = now
        self._backoff_until = now

    def failed(self, failures: int, now: float) -> None:
        """A failure is retried after its back-off, however long the interval is."""
        self._backoff_until = now + self._limits.backoff(failures)
        self._next = min(self._next, self._backoff_until)

    def skip(self) -> bool:
        """Nothing new to checkpoint. True the first time since the last checkpoint began."""
        first, self.skipped = not self.skipped, True
        return first

    def defer(self, why: str, now: float) -> list[Command]:
        """It is due and cannot be taken yet. That is no failure, but it raises its own alarm when it lasts."""
        if self._deferred_since is None:
            self._deferred_since = now
        if self._alarmed or now < self.alarm_time:
            return []
        self._alarmed = True
        message = f"no checkpoint for {now - self._deferred_since:.0f} s: {why}"
        hint = "check the query's progress, and why it was restarted: holdfast status"
        return [RaiseAlarm(DEFERRED, "warning", message, hint)]

    def proceed(self) -> list[Command]:
        """What it was deferred for has happened."""
        alarmed, self._alarmed, self._deferred_since = self._alarmed, False, None
        return [ClearAlarm(DEFERRED, "the query commits batches")] if alarmed else []

    @property
    def alarm_time(self) -> float:
        if self._deferred_since is None or self._alarmed:
            return float("inf")
        return self._deferred_since + self._limits.deferral_alarm()
