"""When a checkpoint is triggered, and what becomes of a request for one."""

from dataclasses import replace

import pytest

from holdfast.coordination.commands import (
    AnswerRequest,
    BeginCheckpoint,
    RaiseAlarm,
)
from holdfast.coordination.events import (
    CheckpointDamaged,
    CheckpointRequested,
    QueryEnded,
    QueryStarted,
)
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.coordination.triggering import DEFERRED
from holdfast.identifiers import BatchId, CheckpointId, RequestId
from tests.unit.coordinating import LIMITS, Driven, fail_next, kinds, of, only


@pytest.mark.parametrize(("jitter", "after"), [(0.0, 2.0), (0.5, 6.0), (1.0, 10.0)])
def test_the_first_trigger_falls_between_min_pause_and_interval(jitter: float, after: float) -> None:
    driven = Driven(replace(LIMITS, jitter=jitter, min_pause=2.0))
    driven.barrier(0)
    assert driven.coordinator.next_deadline() == driven.now + after
    assert driven.wait(after - 0.001) == []
    assert kinds(driven.wait(0.001)) == ["BeginCheckpoint"]


def test_checkpoints_follow_at_the_interval() -> None:
    driven = Driven()
    driven.complete(driven.begin_periodic(0), 0)
    driven.barrier(1)
    assert driven.wait(9.999) == []
    assert only(driven.wait(0.001), BeginCheckpoint).barrier == 1


def test_min_pause_counts_from_the_end_of_the_last_one() -> None:
    driven = Driven(replace(LIMITS, min_pause=8.0))
    ticket = driven.begin_periodic(0)
    driven.now += 9.0
    driven.complete(ticket, 0)
    driven.barrier(1)
    assert driven.wait(7.999) == []
    assert kinds(driven.wait(0.001)) == ["BeginCheckpoint"]


def test_a_trigger_without_a_new_batch_is_skipped_and_counted_once_until_one_comes() -> None:
    driven = Driven()
    driven.complete(driven.begin_periodic(0), 0)
    for _ in range(5):
        assert driven.wait(10.0) == []
    assert driven.statistics.skipped_no_new_batch == 1
    assert driven.coordinator.next_deadline() is None
    assert kinds(driven.barrier(1)) == ["BeginCheckpoint"]


def test_a_trigger_before_the_first_batch_is_deferred_not_failed() -> None:
    driven = Driven()
    assert driven.wait(20.0) == []
    assert driven.statistics.failed == 0
    assert kinds(driven.barrier(0)) == ["BeginCheckpoint"]


@pytest.mark.parametrize("running", [True, False])
def test_a_deferral_that_lasts_raises_an_alarm_once_and_clears_it(running: bool) -> None:
    driven = Driven(running=running)
    driven.wait(5.0)
    assert driven.coordinator.next_deadline() == driven.now + LIMITS.deferral_alarm()
    assert driven.wait(LIMITS.deferral_alarm() - 1) == []
    alarm = only(driven.wait(1.0), RaiseAlarm)
    assert (alarm.code, alarm.severity) == (DEFERRED, "warning")
    assert ("no batch" if running else "not running") in alarm.message
    assert driven.wait(1000.0) == []
    driven.tell(QueryStarted())
    assert kinds(driven.barrier(0)) == ["ClearAlarm", "BeginCheckpoint"]


def test_never_more_than_max_concurrent_and_never_two_of_one_barrier() -> None:
    driven = Driven(replace(LIMITS, max_concurrent=2))
    driven.begin_periodic(0)
    assert driven.wait(50.0) == []  # batch 0 is under way
    driven.barrier(1)
    driven.barrier(2)
    driven.wait(20.0)
    assert len(driven.coordinator.pending) == 2
    assert [pending.barrier for pending in driven.coordinator.pending] == [0, 1]


# --- requests ---


def test_a_request_waits_neither_for_the_interval_nor_for_the_back_off() -> None:
    driven = Driven(replace(LIMITS, min_pause=9.0))
    fail_next(driven, 0)
    commands = driven.tell(CheckpointRequested(RequestId(1)))
    ticket = only(commands, BeginCheckpoint).ticket
    answer = only(driven.complete(ticket), AnswerRequest)
    assert (answer.request, answer.completed) == (1, 1)


def test_requests_of_a_kind_join_the_one_that_waits() -> None:
    driven = Driven()
    first = driven.begin_periodic(0)
    driven.barrier(1)
    for request in range(1, 6):
        assert driven.tell(CheckpointRequested(RequestId(request))) == []
    second = only(driven.complete(first), BeginCheckpoint).ticket
    answers = of(driven.complete(second), AnswerRequest)
    assert [answer.request for answer in answers] == [1, 2, 3, 4, 5]
    assert {answer.completed for answer in answers} == {2}
    assert driven.statistics.triggered == 2


def test_a_request_without_a_new_batch_is_answered_with_the_newest_checkpoint() -> None:
    driven = Driven()
    driven.complete(driven.begin_periodic(0))
    assert driven.tell(CheckpointRequested(RequestId(1))) == [AnswerRequest(RequestId(1), completed=CheckpointId(1))]


def test_a_request_without_a_new_batch_names_the_checkpoint_that_the_query_went_back_to() -> None:
    driven = Driven()
    driven.complete(driven.begin_periodic(0))
    driven.tell(QueryEnded(replaced=True))
    driven.tell(QueryStarted(replaced=True, durable=BatchId(5), durable_id=CheckpointId(77)))
    driven.barrier(5)
    assert driven.tell(CheckpointRequested(RequestId(1))) == [AnswerRequest(RequestId(1), completed=CheckpointId(77))]


def test_a_request_before_the_first_batch_waits_for_it() -> None:
    driven = Driven()
    assert driven.tell(CheckpointRequested(RequestId(1))) == []
    assert kinds(driven.barrier(0)) == ["BeginCheckpoint"]


def test_savepoints_come_before_checkpoints_that_were_asked_for_earlier() -> None:
    driven = Driven()
    first = driven.begin_periodic(0)
    driven.barrier(1)
    driven.tell(CheckpointRequested(RequestId(1)))
    driven.tell(CheckpointRequested(RequestId(2), "savepoint", "before-upgrade"))
    begun = only(driven.complete(first), BeginCheckpoint)
    assert (begun.kind, begun.name) == ("savepoint", "before-upgrade")


def test_a_savepoint_name_is_taken_while_it_exists_waits_or_is_made() -> None:
    driven = Driven(savepoints=frozenset({"old"}))
    ticket = driven.begin_periodic(0)
    for number, name in enumerate(("old", "new", "new")):
        commands = driven.tell(CheckpointRequested(RequestId(number), "savepoint", name))
        refused = [c.failure[0] for c in of(commands, AnswerRequest)]
        assert refused == ([] if number == 1 else [FailureReason.NAME_TAKEN])
    driven.complete(ticket)
    commands = driven.tell(CheckpointRequested(RequestId(3), "savepoint", "new"))
    assert only(commands, AnswerRequest).failure[0] is FailureReason.NAME_TAKEN


def test_damage_to_the_newest_checkpoint_makes_another_one_wanted_without_a_new_batch() -> None:
    driven = Driven()
    driven.complete(driven.begin_periodic(0), 0)
    assert of(driven.wait(60.0), BeginCheckpoint) == []
    driven.tell(CheckpointDamaged(CheckpointId(7)))
    assert of(driven.wait(60.0), BeginCheckpoint) == [], "an older one"
    assert only(driven.tell(CheckpointDamaged(CheckpointId(1))), BeginCheckpoint).barrier == 0
