"""Publishing, stopping, fencing and restarts."""

from dataclasses import replace

import pytest

from holdfast.coordination.commands import (
    AbortCheckpoint,
    AnswerRequest,
    BeginCheckpoint,
    ClearAlarm,
    Command,
    EndRun,
    PublishOutput,
    RaiseAlarm,
)
from holdfast.coordination.events import (
    BarrierReached,
    CheckpointBegun,
    CheckpointRequested,
    CheckpointSealed,
    EntrySettled,
    OutputPublished,
    PublishFailed,
    QueryEnded,
    QueryStarted,
    RunFenced,
    SnapshotPlanned,
    StopRequested,
    TimePassed,
)
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.coordination.lifecycle import Phase
from holdfast.coordination.publishing import PUBLISH_FAILING
from holdfast.identifiers import BatchId, CheckpointId, RequestId, Ticket
from holdfast.runtime.errors_and_reasons import end_of_run
from tests.unit.coordinating import CONCURRENT, LIMITS, SHARDS, Driven, fail, kinds, of, only

# --- publishing ---


def test_one_publication_at_a_time_up_to_the_newest_completed_barrier() -> None:
    driven = Driven()
    assert only(driven.complete(driven.begin_periodic(0)), PublishOutput).upto == 0
    for batch in (1, 2):
        assert of(driven.complete(driven.begin_periodic(batch)), PublishOutput) == []
    assert driven.tell(OutputPublished(BatchId(0))) == [PublishOutput(BatchId(2))]
    assert driven.tell(OutputPublished(BatchId(0))) == []
    assert driven.tell(OutputPublished(BatchId(2))) == []


def test_a_publication_that_fails_is_repeated_and_raises_an_alarm_once() -> None:
    driven = Driven()
    driven.complete(driven.begin_periodic(0))
    alarms = []
    for _ in range(5):
        alarms += of(driven.tell(PublishFailed(BatchId(0), "locked")), RaiseAlarm)
        assert PublishOutput(BatchId(0)) in driven.wait(60.0)
    assert [alarm.code for alarm in alarms] == [PUBLISH_FAILING]
    assert only(driven.tell(OutputPublished(BatchId(0))), ClearAlarm).code == PUBLISH_FAILING


def test_nothing_is_published_while_the_query_moves_to_another_directory() -> None:
    driven = Driven()
    driven.complete(driven.begin_periodic(0))
    ticket = driven.begin_periodic(1)
    driven.advance(ticket, Phase.SEALING)
    driven.tell(PublishFailed(BatchId(0), "locked"))
    driven.tell(QueryEnded(replaced=True))
    assert of(driven.wait(500.0), PublishOutput) == []
    assert of(driven.tell(EntrySettled(CheckpointId(2))), PublishOutput) == []
    driven.tell(QueryStarted(replaced=True, durable=BatchId(1), durable_id=CheckpointId(2)))
    assert only(driven.complete(driven.begin_periodic(2)), PublishOutput).upto == 2


# --- stop and fence ---


def test_stop_takes_a_last_checkpoint_publishes_and_ends() -> None:
    driven = Driven()
    driven.barrier(0)
    driven.tell(QueryEnded())
    ticket = only(driven.tell(StopRequested(RequestId(1))), BeginCheckpoint).ticket
    assert of(driven.complete(ticket), EndRun) == []
    assert driven.coordinator.next_deadline() is None
    assert driven.tell(OutputPublished(BatchId(0))) == [EndRun(None, requests=(RequestId(1),))]
    assert driven.tell(BarrierReached(BatchId(9))) == []


def test_stop_with_savepoint_makes_one_though_everything_is_durable() -> None:
    driven = Driven()
    driven.complete(driven.begin_periodic(0), 0)
    begun = only(driven.tell(StopRequested(RequestId(1), "last")), BeginCheckpoint)
    assert (begun.kind, begun.name) == ("savepoint", "last")
    assert kinds(driven.complete(begun.ticket))[-1] == "EndRun"


def test_stop_waits_for_what_is_under_way_and_for_savepoints_that_were_asked_for() -> None:
    driven = Driven()
    first = driven.begin_periodic(0)
    driven.tell(CheckpointRequested(RequestId(1), "savepoint", "mine"))
    assert driven.tell(StopRequested(RequestId(2))) == []
    second = only(driven.complete(first, 0), BeginCheckpoint)
    assert second.name == "mine"
    commands = driven.complete(second.ticket)
    assert only(commands, AnswerRequest) == AnswerRequest(RequestId(1), completed=CheckpointId(2))
    assert kinds(commands)[-1] == "EndRun"


def test_the_last_checkpoint_is_tried_a_few_times_then_the_run_ends_with_its_cause() -> None:
    driven = Driven(replace(LIMITS, tolerable_failures=9))
    driven.barrier(0)
    commands = driven.tell(StopRequested(RequestId(1)))
    for _ in range(LIMITS.final_tries):
        ticket = only(commands, BeginCheckpoint).ticket
        commands = fail(driven, ticket, FailureReason.STORAGE_FULL, "full")
        if not of(commands, EndRun):
            commands = driven.wait(driven.coordinator.next_deadline() - driven.now)
    assert only(commands, EndRun) == EndRun(
        "the last checkpoint could not be completed: storage_full: full",
        requests=(RequestId(1),),
        reason=FailureReason.STORAGE_FULL,
    )


@pytest.mark.parametrize(
    ("reason", "exit_code"),
    [
        (FailureReason.STORAGE_FULL, 6),
        (FailureReason.STORAGE_UNREACHABLE, 6),
        (FailureReason.OUTCOME_UNKNOWN, 6),
        (FailureReason.JOURNAL_DAMAGED, 4),
        (FailureReason.FILES_VANISHED, 1),
        (None, 1),
    ],
)
def test_the_exit_code_tells_a_home_that_took_no_last_checkpoint_from_a_job_that_failed(
    reason: FailureReason | None, exit_code: int
) -> None:
    error = end_of_run("stopped", reason)
    assert error.exit_code == exit_code
    assert reason is None or reason.rule.hint in (error.hint or "")


def test_a_stop_that_cannot_publish_says_so() -> None:
    driven = Driven()
    driven.complete(driven.begin_periodic(0))
    driven.tell(StopRequested(RequestId(1)))
    commands: list[Command] = []
    for _ in range(LIMITS.final_tries):
        driven.wait((driven.coordinator.next_deadline() or driven.now) - driven.now)
        commands = driven.tell(PublishFailed(BatchId(0), "locked"))
    assert only(commands, EndRun).failure == "the output is not published: locked"


def test_everyone_who_asks_for_the_stop_is_told_of_it() -> None:
    driven = Driven()
    driven.barrier(0)
    ticket = only(driven.tell(StopRequested(RequestId(1))), BeginCheckpoint).ticket
    driven.tell(StopRequested(RequestId(2)))
    assert only(driven.tell(StopRequested(RequestId(3), "s")), AnswerRequest).failure[0] is FailureReason.RUN_STOPPED
    driven.complete(ticket)
    assert only(driven.tell(OutputPublished(BatchId(0))), EndRun).requests == (1, 2)


def test_a_stop_with_a_taken_name_refuses_the_name_and_stops_all_the_same() -> None:
    driven = Driven(savepoints=frozenset({"s"}))
    commands = driven.tell(StopRequested(RequestId(1), "s"))
    assert only(commands, AnswerRequest).failure[0] is FailureReason.NAME_TAKEN
    assert only(commands, EndRun).requests == ()


def test_a_savepoint_of_nothing_is_refused_at_the_stop() -> None:
    assert "savepoint 's'" in (only(Driven().tell(StopRequested(RequestId(1), "s")), EndRun).failure or "")


def test_a_fenced_run_aborts_everything_and_gives_no_further_command() -> None:
    driven = Driven(CONCURRENT)
    driven.barrier(0)
    driven.tell(CheckpointRequested(RequestId(1)))
    driven.tell(CheckpointRequested(RequestId(2), "savepoint", "s"))
    commands = driven.tell(RunFenced("run 9 owns it"))
    assert len(of(commands, AbortCheckpoint)) == 2
    assert {answer.failure[0] for answer in of(commands, AnswerRequest)} == {FailureReason.FENCED}
    assert commands[-1] == EndRun("run 9 owns it", fenced=RunFenced("run 9 owns it"))
    for event in (TimePassed(), CheckpointSealed(Ticket(1)), BarrierReached(BatchId(3)), StopRequested(RequestId(4))):
        assert driven.tell(event) == []
    assert driven.coordinator.next_deadline() is None


def test_a_query_restarted_in_place_keeps_its_checkpoints() -> None:
    driven = Driven()
    ticket = driven.begin_periodic(0)
    assert driven.tell(QueryEnded()) == []
    driven.tell(QueryStarted())
    assert of(driven.complete(ticket), PublishOutput)


def test_a_query_restarted_elsewhere_gives_them_up_uncounted() -> None:
    driven = Driven()
    ticket = driven.begin_periodic(5)
    assert only(driven.tell(QueryEnded(replaced=True)), AbortCheckpoint).reason is FailureReason.QUERY_RESTARTED
    assert driven.statistics.consecutive_failures == 0
    driven.tell(QueryStarted(replaced=True, durable=BatchId(2)))
    assert driven.tell(CheckpointBegun(ticket, CheckpointId(1))) == []
    assert driven.tell(SnapshotPlanned(ticket, SHARDS)) == []
    assert driven.begin_periodic(3) != ticket


def test_the_history_is_bounded() -> None:
    driven = Driven()
    for batch in range(300):
        driven.complete(driven.begin_periodic(batch), batch)
    assert len(driven.coordinator.history.records) == 100
    assert driven.statistics.completed == 300


def test_a_stop_does_not_wait_for_a_home_that_is_down_more_often_than_once() -> None:
    driven = Driven(replace(LIMITS, tolerable_failures=9))
    driven.barrier(0)
    ticket = only(driven.tell(StopRequested(RequestId(1))), BeginCheckpoint).ticket
    driven.wait(LIMITS.final_patience)
    commands = fail(driven, ticket, FailureReason.STORAGE_UNREACHABLE, "no answer in time")
    cause = "the last checkpoint could not be completed: storage_unreachable: no answer in time"
    assert only(commands, EndRun).failure == cause


def test_what_was_under_way_for_long_does_not_take_the_last_checkpoint_its_only_try() -> None:
    driven = Driven(replace(LIMITS, tolerable_failures=9))
    under_way = driven.begin_periodic(0)
    driven.barrier(1)
    assert driven.tell(StopRequested(RequestId(1))) == []
    driven.wait(LIMITS.final_patience)
    assert only(driven.complete(under_way), BeginCheckpoint).barrier == BatchId(1)
