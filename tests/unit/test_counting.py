"""Which failures count, what they lead to, and how they are retried."""

from dataclasses import replace

import pytest

from holdfast.coordination.commands import (
    AnswerRequest,
    BeginCheckpoint,
    ClearAlarm,
    EndRun,
    RaiseAlarm,
    RecordOutcome,
)
from holdfast.coordination.coordinator import FAILING
from holdfast.coordination.events import (
    CheckpointRequested,
)
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.identifiers import RequestId
from tests.unit.coordinating import LIMITS, Driven, fail, fail_next, of, only


def test_failures_in_a_row_are_counted_once_each_and_reset_by_success() -> None:
    driven = Driven()
    for number in (1, 2, 3):
        alarm = only(fail_next(driven, number), RaiseAlarm)
        assert (alarm.code, alarm.severity) == (FAILING, "warning")
        assert driven.statistics.consecutive_failures == number
    commands = driven.complete(driven.begin_periodic(4))
    assert only(commands, ClearAlarm).code == FAILING
    assert driven.statistics.consecutive_failures == 0


def test_past_the_tolerated_number_the_alarm_is_critical_and_the_pipeline_goes_on() -> None:
    driven = Driven(replace(LIMITS, tolerable_failures=1))
    assert only(fail_next(driven, 0), RaiseAlarm).severity == "warning"
    for batch in (1, 2, 3):
        commands = fail_next(driven, batch)
        assert only(commands, RaiseAlarm).severity == "critical"
        assert of(commands, EndRun) == []


def test_on_exceeded_fail_ends_the_run_and_names_the_last_root_cause() -> None:
    driven = Driven(replace(LIMITS, tolerable_failures=1, fail_on_exceeded=True))
    fail_next(driven, 0)
    ticket = driven.begin_periodic(1)
    end = only(fail(driven, ticket, FailureReason.STORAGE_FULL, "no space left on /mnt"), EndRun)
    assert end.failure == (
        "2 checkpoints in a row failed (1 tolerated); the last one: storage_full: no space left on /mnt"
    )


@pytest.mark.parametrize("reason", FailureReason)
def test_only_counted_reasons_count_and_only_for_checkpoints(reason: FailureReason) -> None:
    driven = Driven(replace(LIMITS, tolerable_failures=0, fail_on_exceeded=True))
    driven.barrier(0)
    savepoint = only(driven.tell(CheckpointRequested(RequestId(1), "savepoint", "s")), BeginCheckpoint).ticket
    commands = fail(driven, savepoint, reason)
    assert of(commands, EndRun) == []
    assert only(commands, AnswerRequest).failure[0] is reason
    assert bool(of(fail_next(driven, 1), EndRun)) is True  # a counted one, for comparison
    other = Driven(replace(LIMITS, tolerable_failures=0, fail_on_exceeded=True))
    assert bool(of(fail(other, other.begin_periodic(0), reason), EndRun)) is reason.counted


def test_a_failure_of_a_checkpoint_that_is_over_is_ignored() -> None:
    driven = Driven()
    ticket = driven.begin_periodic(0)
    fail(driven, ticket)
    for _ in range(3):
        assert fail(driven, ticket) == []
    assert driven.statistics.consecutive_failures == 1


def test_failures_are_retried_with_growing_delay_reset_by_success() -> None:
    driven = Driven()
    delays = []
    for batch in range(8):
        fail_next(driven, batch)
        driven.barrier(batch + 1)
        delays.append(driven.coordinator.next_deadline() - driven.now)
    assert delays == sorted(delays)
    assert delays[:3] == [5.0, 10.0, 20.0]
    assert delays[-1] == 4 * LIMITS.interval
    driven.complete(driven.begin_periodic(9), 9)
    fail_next(driven, 10)
    driven.barrier(11)
    assert driven.coordinator.next_deadline() - driven.now == 5.0


def test_a_failure_before_an_id_existed_is_in_the_history() -> None:
    driven = Driven()
    record = only(fail_next(driven, 0), RecordOutcome).record
    assert record.id is None
    assert driven.coordinator.history.records == (record,)
