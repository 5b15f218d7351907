"""The numbers that the coordinator decides by, and small pure decisions from them."""

from dataclasses import dataclass

from holdfast.coordination.history import FailureRecord

BACKOFF_LONGEST_S = 300.0
DEFERRAL_ALARM_LEAST_S = 60.0


@dataclass(frozen=True)
class Limits:
    """All durations in seconds."""

    interval: float
    timeout: float
    min_pause: float = 0.0
    max_concurrent: int = 1
    tolerable_failures: int = 3
    fail_on_exceeded: bool = False
    jitter: float = 0.5
    """Between 0 and 1: where in [min_pause, interval] the first trigger is, so that jobs do not all trigger at once."""
    shard_tries: int = 3
    final_tries: int = 3
    final_patience: float = 30.0
    """After this long no further final checkpoint is started: a stop waits this long for a home that is unreachable."""
    publish_alarm_after: int = 3

    def first_trigger(self, now: float) -> float:
        earliest = min(self.min_pause, self.interval)
        return now + earliest + self.jitter * (self.interval - earliest)

    def backoff(self, failures: int) -> float:
        """How long to wait after this many consecutive failures: half an interval at first, then longer."""
        longest = max(self.interval, min(4 * self.interval, BACKOFF_LONGEST_S))
        return min(self.interval / 2 * 2.0 ** min(failures - 1, 30), longest)

    def shard_backoff(self, tries: int) -> float:
        return min(0.25 * 2.0 ** min(tries - 1, 30), self.timeout / 4)

    def publish_backoff(self, failures: int) -> float:
        return min(0.5 * 2.0 ** min(failures - 1, 30), 60.0)

    def deferral_alarm(self) -> float:
        return max(3 * self.interval, DEFERRAL_ALARM_LEAST_S)


@dataclass
class FailureBudget:
    """Consecutive counted failures, one per checkpoint, reset by success."""

    tolerable: int
    consecutive: int = 0
    last: FailureRecord | None = None

    def succeed(self) -> bool:
        """True when there was something to recover from."""
        recovered = self.consecutive > 0
        self.consecutive = 0
        return recovered

    def fail(self, failure: FailureRecord) -> None:
        self.consecutive += 1
        self.last = failure

    @property
    def exceeded(self) -> bool:
        return self.consecutive > self.tolerable

    def message(self) -> str:
        assert self.last is not None
        where = f" in shard {self.last.shard}" if self.last.shard else ""
        return f"{self.brief()}; the last one{where}: {self.last.reason.value}: {self.last.message}"

    def brief(self) -> str:
        failed = "1 checkpoint" if self.consecutive == 1 else f"{self.consecutive} checkpoints in a row"
        return f"{failed} failed ({self.tolerable} tolerated)"
