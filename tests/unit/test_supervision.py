"""What follows a failure: a restart, sooner or later, in this directory or another one; or the end."""

import pytest

from holdfast.errors import Corrupt, Fenced, HoldfastError, Incompatible, JobFailed, StorageError
from holdfast.identifiers import JobName
from holdfast.runtime.query.causes import FailureCause, QueryFailure
from holdfast.runtime.query.supervision import PermanentFailure, Restart, Supervision

JOB = JobName("orders")
POISON = QueryFailure(FailureCause.USER_CODE, "ValueError: not a number: 17 (orders.py, line 12, in parse)")


def supervision(delay: float = 1.0, attempts: int = 10, same_error: int = 3) -> Supervision:
    return Supervision(delay, attempts, same_error)


def lives_until_it_fails_permanently(supervised: Supervision, failure: QueryFailure) -> int:
    for number in range(1, 100):
        if isinstance(supervised.died(failure, now=0.0), PermanentFailure):
            return number
    raise AssertionError("it would go on for ever")


@pytest.mark.parametrize(
    "cause",
    [FailureCause.SOURCE, FailureCause.SINK, FailureCause.STORAGE, FailureCause.OUT_OF_MEMORY, FailureCause.UNKNOWN],
)
def test_what_may_pass_is_tried_as_often_as_allowed(cause: FailureCause) -> None:
    assert lives_until_it_fails_permanently(supervision(attempts=4), QueryFailure(cause, "the same each time")) == 5


def test_an_error_of_the_users_code_that_repeats_fails_the_job_early() -> None:
    assert lives_until_it_fails_permanently(supervision(), POISON) == 3
    assert lives_until_it_fails_permanently(supervision(same_error=1), POISON) == 1
    assert lives_until_it_fails_permanently(supervision(attempts=1), POISON) == 2


def test_deleted_input_does_not_come_back_by_restarts() -> None:
    lost = QueryFailure(
        FailureCause.SOURCE, "KafkaIllegalStateException: Some data may have been lost; Starting offset was 20"
    )
    assert lives_until_it_fails_permanently(supervision(), lost) == 3


def test_numbers_do_not_make_it_another_error() -> None:
    supervised = supervision()
    supervised.died(POISON, now=0.0)
    supervised.died(QueryFailure(FailureCause.USER_CODE, POISON.message.replace("17", "0x7f3a")), now=0.0)
    verdict = supervised.died(QueryFailure(FailureCause.USER_CODE, POISON.message.replace("17", "18")), now=0.0)
    assert isinstance(verdict, PermanentFailure)


def test_another_error_in_between_or_a_completed_batch_begins_the_count_anew() -> None:
    other = QueryFailure(FailureCause.USER_CODE, "KeyError: 'customer'")
    supervised = supervision()
    for failure in (POISON, POISON, other, other, POISON, POISON):
        assert isinstance(supervised.died(failure, now=0.0), Restart)
    supervised.progressed()
    for failure in (POISON, POISON):
        assert isinstance(supervised.died(failure, now=0.0), Restart)


def test_the_delay_grows_to_a_minute_and_a_completed_batch_resets_it() -> None:
    supervised = supervision(delay=1.0, attempts=100)
    delays = [restart.at for _ in range(8) if isinstance(restart := supervised.died(_passing(), now=0.0), Restart)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    supervised.progressed()
    restart = supervised.died(_passing(), now=5.0)
    assert isinstance(restart, Restart)
    assert restart.at == 6.0


def _passing() -> QueryFailure:
    return QueryFailure(FailureCause.UNKNOWN, "an executor was lost")


@pytest.mark.parametrize("cause", [FailureCause.FENCED, FailureCause.SPARK_GONE, FailureCause.INCOMPATIBLE])
def test_what_no_restart_can_mend_is_not_tried(cause: FailureCause) -> None:
    assert lives_until_it_fails_permanently(supervision(), QueryFailure(cause, "")) == 1


def test_only_for_the_state_the_directory_is_looked_at() -> None:
    moved = [
        cause
        for cause in FailureCause
        if getattr(supervision().died(QueryFailure(cause, ""), now=0.0), "elsewhere", False)
    ]
    assert moved == [FailureCause.STATE_UNREADABLE, FailureCause.STATE_NOT_LOADED]


ENDS: dict[FailureCause, tuple[type[HoldfastError], int]] = {
    FailureCause.INCOMPATIBLE: (Incompatible, 2),
    FailureCause.STATE_UNREADABLE: (Corrupt, 4),
    FailureCause.FENCED: (Fenced, 5),
    FailureCause.STORAGE: (StorageError, 6),
}


@pytest.mark.parametrize("cause", FailureCause)
def test_the_job_ends_with_the_exit_code_of_the_cause_and_says_what_to_change(cause: FailureCause) -> None:
    verdict = supervision(attempts=0, same_error=1).died(QueryFailure(cause, "this happened"), now=0.0)
    assert isinstance(verdict, PermanentFailure)
    error = verdict.error(JOB)
    assert (type(error), error.exit_code) == ENDS.get(cause, (JobFailed, 1))
    assert "this happened" in error.message
    assert error.hint == cause.hint


def test_unreadable_state_is_left_to_recovery_as_long_as_something_was_resumed_from() -> None:
    """It knows how many candidates there are."""
    supervised = supervision(attempts=0)
    unreadable = QueryFailure(FailureCause.STATE_UNREADABLE, "bad magic number")
    for _ in range(5):
        assert isinstance(supervised.died(unreadable, now=0.0, resumed=True), Restart)
    assert isinstance(supervised.died(unreadable, now=0.0), PermanentFailure)
