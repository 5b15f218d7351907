"""Decides what to do when the query fails. Pure."""

from dataclasses import dataclass

from holdfast.errors import Corrupt, Fenced, HoldfastError, Incompatible, JobFailed, StorageError
from holdfast.identifiers import JobName
from holdfast.runtime.query.causes import SUSPICIONS, FailureCause, QueryFailure

_LONGEST_DELAY_S = 60.0

_ERRORS: dict[FailureCause, type[HoldfastError]] = {
    FailureCause.INCOMPATIBLE: Incompatible,
    FailureCause.STATE_UNREADABLE: Corrupt,
    FailureCause.STORAGE: StorageError,
    FailureCause.FENCED: Fenced,
}


def ending_of(cause: FailureCause) -> type[HoldfastError]:
    """The error of a job for which this cause is permanent."""
    return _ERRORS.get(cause, JobFailed)


@dataclass(frozen=True)
class Restart:
    at: float
    elsewhere: bool
    """The work directory is suspected: check it, and resume from the next candidate if it is damaged."""
    failure: QueryFailure


@dataclass(frozen=True)
class PermanentFailure:
    failure: QueryFailure
    message: str

    def error(self, job: JobName) -> HoldfastError:
        return ending_of(self.failure.cause)(f"job {job!r} failed permanently: {self.message}", hint=self.failure.hint)


class Supervision:
    """Restarts with a growing delay, which progress resets.

    The job fails permanently after `attempts` restarts without a completed batch in between. It fails earlier when the
    pipeline's own code fails `same_error` times in the same way, or its input is found deleted as often.
    """

    def __init__(self, delay: float, attempts: int, same_error: int) -> None:
        self._delay = delay
        self._attempts = attempts
        self._same_error = same_error
        self._previous: QueryFailure | None = None
        self._repeated = 0
        self.restarts = 0
        self._overridden = False

    def started(self, *, overridden: bool) -> None:
        """`overridden`: the user forced a start although the query differs from its checkpoint. It counts until a batch
        completes."""
        self._overridden = overridden

    def progressed(self) -> None:
        self.restarts = 0
        self._overridden = False
        self._previous = None

    def died(self, failure: QueryFailure, now: float, *, resumed: bool = False) -> Restart | PermanentFailure:
        """`resumed`: the query resumed from a directory or checkpoint. If that is unreadable, there may be another
        one."""
        failure = self.blamed(failure)
        self._repeated = self._repeated + 1 if self._previous and failure.repeats(self._previous) else 1
        self._previous = failure
        if (message := self._hopeless(failure, resumed)) is not None:
            return PermanentFailure(failure, message)
        delay = min(self._delay * 2.0 ** min(self.restarts, 30), _LONGEST_DELAY_S)
        self.restarts += 1
        return Restart(now + delay, failure.cause in SUSPICIONS, failure)

    def blamed(self, failure: QueryFailure) -> QueryFailure:
        """Unreadable state after a forced start is blamed on the changed query, not on the checkpoint."""
        if failure.cause in SUSPICIONS and self._overridden:
            return QueryFailure(FailureCause.INCOMPATIBLE, failure.message)
        return failure

    def _hopeless(self, failure: QueryFailure, resumed: bool) -> str | None:
        """Why another restart would not help, None when it may."""
        match failure.cause:
            case FailureCause.FENCED:
                return failure.message
            case FailureCause.SPARK_GONE:
                return f"{failure.message}; only a new process can start it again"
            case FailureCause.INCOMPATIBLE:
                return f"Spark could not resume this query: {failure.message}"
            case FailureCause.USER_CODE if self._repeated >= self._same_error:
                return f"the pipeline's own code failed {_times(self._repeated)} in the same way: {failure.message}"
            case FailureCause.SOURCE if failure.input_is_deleted and self._repeated >= self._same_error:
                return f"the source no longer has what the query must read next: {failure.message}"
            case FailureCause.STATE_UNREADABLE if resumed:
                return None  # each restart sets one directory aside: recovery raises when no candidate is left
        if self.restarts >= self._attempts:
            return (
                f"the query died {_times(self.restarts + 1)} without completing a batch, the last time of "
                f"{failure.cause}: {failure.message}"
            )
        return None


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
