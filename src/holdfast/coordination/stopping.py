"""A clean stop: a final checkpoint, tried a few times, then its output is published, then the run ends."""

from dataclasses import dataclass

from holdfast.coordination.failure_reasons import FailureReason
from holdfast.coordination.history import FailureRecord
from holdfast.coordination.limits import Limits
from holdfast.coordination.publishing import Publishing
from holdfast.identifiers import RequestId


@dataclass(frozen=True)
class BeginFinal:
    savepoint: str | None


@dataclass(frozen=True)
class End:
    message: str | None
    """Why the stop is not clean; None when it is."""
    reason: FailureReason | None = None
    """The reason of the final checkpoint's failure, when that is why."""


@dataclass
class Stopping:
    requests: tuple[RequestId, ...]
    savepoint: str | None
    """The savepoint still to be taken, by name."""
    asked_at: float
    tries: int = 0
    not_before: float = 0.0

    def next_step(
        self,
        limits: Limits,
        now: float,
        *,
        final_is_wanted: bool,
        publishing: Publishing,
        last_failure: FailureRecord | None,
    ) -> BeginFinal | End | None:
        """The next step while no checkpoint is in progress; None means wait."""
        if final_is_wanted:
            return self._final(limits, now, last_failure)
        if self.savepoint is not None:
            return End(f"there is no committed batch to take savepoint {self.savepoint!r} of")
        if publishing.idle:
            return End(None)
        if publishing.failures >= limits.final_tries:
            return End(f"the output is not published: {publishing.message}")
        return None

    def _final(self, limits: Limits, now: float, last_failure: FailureRecord | None) -> BeginFinal | End | None:
        if self._exhausted(limits, now):
            cause = f": {last_failure.reason.value}: {last_failure.message}" if last_failure else ""
            message = f"the last checkpoint could not be completed{cause}"
            return End(message, last_failure.reason if last_failure else None)
        if now < self.not_before:
            return None
        self.tries += 1
        self.not_before = now + limits.shard_backoff(self.tries)
        return BeginFinal(self.savepoint)

    def _exhausted(self, limits: Limits, now: float) -> bool:
        """No further final checkpoint is tried. The first one always is."""
        return self.tries >= limits.final_tries or (self.tries > 0 and now >= self.asked_at + limits.final_patience)
