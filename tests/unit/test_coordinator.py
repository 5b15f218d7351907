"""Each rule of checkpointing, one behaviour at a time."""

from dataclasses import replace

import pytest

from holdfast.coordination.commands import (
    AbandonCheckpoint,
    AnswerRequest,
    BeginCheckpoint,
    ClearAlarm,
    Command,
    CopyShards,
    EndRun,
    PublishOutput,
    RaiseAlarm,
    RecordOutcome,
    SealCheckpoint,
)
from holdfast.coordination.coordinator import FAILING
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
    ShardAcknowledged,
    ShardFailed,
    SnapshotPlanned,
    StepFailed,
    StopRequested,
    TimePassed,
)
from holdfast.coordination.lifecycle import Phase
from holdfast.coordination.publishing import PUBLISH_FAILING
from holdfast.coordination.reasons import FailureReason
from holdfast.coordination.triggering import DEFERRED
from holdfast.identifiers import BatchId, CheckpointId, RequestId, Ticket
from tests.unit.coordinating import RULES, SHARDS, Driven, kinds, only

UNREACHABLE = FailureReason.STORAGE_UNREACHABLE
CONCURRENT = replace(RULES, max_concurrent=3)
CONTROL, STATE = SHARDS


def of(commands: list[Command], kind: type) -> list[Command]:
    return [command for command in commands if isinstance(command, kind)]


def fail(driven: Driven, ticket: Ticket, reason: FailureReason = UNREACHABLE, message: str = "no answer"):
    return driven.tell(StepFailed(ticket, reason, message))


def fail_next(driven: Driven, batch: int) -> list[Command]:
    return fail(driven, driven.begin_periodic(batch))


# --- triggering ---


@pytest.mark.parametrize(("jitter", "after"), [(0.0, 2.0), (0.5, 6.0), (1.0, 10.0)])
def test_the_first_trigger_falls_between_min_pause_and_interval(jitter: float, after: float) -> None:
    driven = Driven(replace(RULES, jitter=jitter, min_pause=2.0))
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
    driven = Driven(replace(RULES, min_pause=8.0))
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
    assert driven.coordinator.next_deadline() == driven.now + RULES.deferral_alarm()
    assert driven.wait(RULES.deferral_alarm() - 1) == []
    alarm = only(driven.wait(1.0), RaiseAlarm)
    assert (alarm.code, alarm.severity) == (DEFERRED, "warning")
    assert ("no batch" if running else "not running") in alarm.message
    assert driven.wait(1000.0) == []
    driven.tell(QueryStarted())
    assert kinds(driven.barrier(0)) == ["ClearAlarm", "BeginCheckpoint"]


def test_never_more_than_max_concurrent_and_never_two_of_one_barrier() -> None:
    driven = Driven(replace(RULES, max_concurrent=2))
    driven.begin_periodic(0)
    assert driven.wait(50.0) == []  # batch 0 is under way
    driven.barrier(1)
    driven.barrier(2)
    driven.wait(20.0)
    assert len(driven.coordinator.pending) == 2
    assert [pending.barrier for pending in driven.coordinator.pending] == [0, 1]


# --- requests ---


def test_a_request_waits_neither_for_the_interval_nor_for_the_back_off() -> None:
    driven = Driven(replace(RULES, min_pause=9.0))
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


# --- acknowledgements ---


def test_the_last_acknowledgement_seals_whatever_the_order_and_however_often() -> None:
    driven = Driven()
    ticket = driven.begin_periodic(0)
    driven.advance(ticket, Phase.COPYING)
    assert driven.tell(ShardAcknowledged(ticket, STATE, bytes_total=7)) == []
    assert driven.tell(ShardAcknowledged(ticket, STATE, bytes_total=7)) == []
    assert driven.tell(ShardAcknowledged(ticket, CONTROL, bytes_total=5)) == [SealCheckpoint(ticket)]
    record = only(driven.tell(CheckpointSealed(ticket)), RecordOutcome).record
    assert (record.bytes_total, record.shards_acknowledged) == (12, 2)
    assert driven.tell(ShardAcknowledged(ticket, STATE)) == []
    assert driven.stale == 2


def test_a_failed_shard_is_tried_again_and_the_others_are_kept() -> None:
    driven = Driven()
    ticket = driven.begin_periodic(0)
    driven.advance(ticket, Phase.COPYING)
    driven.tell(ShardAcknowledged(ticket, CONTROL))
    assert driven.tell(ShardFailed(ticket, STATE, FailureReason.FILES_VANISHED, "gone")) == []
    deadline = driven.coordinator.next_deadline()
    assert deadline == driven.now + RULES.shard_backoff(1)
    assert driven.wait(deadline - driven.now) == [CopyShards(ticket, (STATE,), again=True)]
    assert driven.tell(ShardAcknowledged(ticket, STATE)) == [SealCheckpoint(ticket)]
    assert driven.statistics.shard_retries == 1


def test_a_shard_that_keeps_failing_fails_the_checkpoint_with_its_own_root_cause() -> None:
    driven = Driven()
    ticket = driven.begin_periodic(0)
    driven.advance(ticket, Phase.COPYING)
    for number in (1, 2):
        driven.tell(ShardFailed(ticket, STATE, FailureReason.STORAGE_FULL, f"full {number}", number))
        driven.wait(5.0)
    commands = driven.tell(ShardFailed(ticket, STATE, FailureReason.STORAGE_FULL, "full 3", 3))
    failure = only(commands, RecordOutcome).record.failure
    assert (failure.reason, failure.message, failure.shard) == (FailureReason.STORAGE_FULL, "full 3", STATE)
    assert STATE in only(commands, RaiseAlarm).message


def test_a_repeated_failure_of_one_try_counts_once() -> None:
    driven = Driven()
    ticket = driven.begin_periodic(0)
    driven.advance(ticket, Phase.COPYING)
    for _ in range(5):
        driven.tell(ShardFailed(ticket, STATE, UNREACHABLE, "x", 1))
    assert driven.wait(1.0) == [CopyShards(ticket, (STATE,), again=True)]
    for _ in range(5):
        assert driven.tell(ShardFailed(ticket, STATE, UNREACHABLE, "x", 1)) == []
    assert driven.stale == 9
    assert driven.wait(50.0) == []


def test_an_acknowledgement_makes_the_retry_unnecessary() -> None:
    driven = Driven()
    ticket = driven.begin_periodic(0)
    driven.advance(ticket, Phase.COPYING)
    driven.tell(ShardFailed(ticket, STATE, UNREACHABLE, "x"))
    driven.tell(ShardAcknowledged(ticket, STATE))
    assert driven.wait(5.0) == []


def test_a_shard_is_not_tried_again_when_no_time_remains() -> None:
    driven = Driven(replace(RULES, timeout=5.0))
    ticket = driven.begin_periodic(0)
    driven.advance(ticket, Phase.COPYING)
    driven.now += 4.9
    assert of(driven.tell(ShardFailed(ticket, STATE, UNREACHABLE, "x")), AbandonCheckpoint)


def test_an_expired_checkpoint_is_abandoned_once_and_its_late_messages_change_nothing() -> None:
    driven = Driven()
    ticket = driven.begin_periodic(0)
    driven.advance(ticket, Phase.COPYING)
    commands = driven.wait(100.0)
    assert only(commands, AbandonCheckpoint).reason is FailureReason.EXPIRED
    assert "100 s" in only(commands, RecordOutcome).record.failure.message
    failed = driven.statistics.failed
    for event in (ShardAcknowledged(ticket, CONTROL), ShardAcknowledged(ticket, STATE), CheckpointSealed(ticket)):
        assert of(driven.tell(event), SealCheckpoint) == []
    assert (driven.statistics.failed, driven.statistics.completed) == (failed, 0)


def test_expiry_of_two_at_once_that_ends_the_run_gives_each_up_once() -> None:
    driven = Driven(replace(CONCURRENT, tolerable_failures=0, fail_on_exceeded=True))
    driven.barrier(0)
    driven.tell(CheckpointRequested(RequestId(1)))
    driven.tell(CheckpointRequested(RequestId(2), "savepoint", "s"))
    commands = driven.wait(100.0)
    assert len({command.ticket for command in of(commands, AbandonCheckpoint)}) == 2
    assert kinds(commands)[-1] == "EndRun"


# --- supersession ---


def test_a_newer_checkpoint_supersedes_older_ones_without_counting_a_failure() -> None:
    driven = Driven(CONCURRENT)
    old = driven.begin_periodic(0)
    new = driven.begin_periodic(1)
    driven.advance(old, Phase.COPYING)
    driven.advance(new, Phase.SEALING)
    commands = driven.tell(CheckpointSealed(new))
    assert only(commands, AbandonCheckpoint) == AbandonCheckpoint(old, FailureReason.SUPERSEDED)
    assert driven.statistics.consecutive_failures == 0


def test_who_waits_for_a_superseded_checkpoint_gets_the_newer_one() -> None:
    driven = Driven(CONCURRENT)
    driven.barrier(0)
    driven.tell(CheckpointRequested(RequestId(1)))
    new = driven.begin_periodic(1)
    assert only(driven.complete(new), AnswerRequest) == AnswerRequest(RequestId(1), completed=CheckpointId(1))


def test_a_savepoint_is_never_superseded() -> None:
    driven = Driven(CONCURRENT)
    driven.barrier(0)
    savepoint = only(driven.tell(CheckpointRequested(RequestId(1), "savepoint", "s")), BeginCheckpoint).ticket
    assert of(driven.complete(driven.begin_periodic(1)), AbandonCheckpoint) == []
    assert only(driven.complete(savepoint), AnswerRequest).completed == 2


def test_a_checkpoint_whose_entry_is_being_written_is_not_superseded() -> None:
    driven = Driven(CONCURRENT)
    old = driven.begin_periodic(0)
    new = driven.begin_periodic(1)
    driven.advance(old, Phase.SEALING)
    assert of(driven.complete(new), AbandonCheckpoint) == []
    commands = driven.tell(CheckpointSealed(old))
    assert driven.statistics.completed == 2
    assert of(commands, PublishOutput) == []  # the newer barrier is asked for already


# --- counting ---


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
    driven = Driven(replace(RULES, tolerable_failures=1))
    assert only(fail_next(driven, 0), RaiseAlarm).severity == "warning"
    for batch in (1, 2, 3):
        commands = fail_next(driven, batch)
        assert only(commands, RaiseAlarm).severity == "critical"
        assert of(commands, EndRun) == []


def test_on_exceeded_fail_ends_the_run_and_names_the_last_root_cause() -> None:
    driven = Driven(replace(RULES, tolerable_failures=1, fail_on_exceeded=True))
    fail_next(driven, 0)
    ticket = driven.begin_periodic(1)
    end = only(fail(driven, ticket, FailureReason.STORAGE_FULL, "no space left on /mnt"), EndRun)
    assert end.failure == (
        "2 checkpoints in a row failed (1 tolerated); the last one: storage_full: no space left on /mnt"
    )


@pytest.mark.parametrize("reason", FailureReason)
def test_only_counted_reasons_count_and_only_for_checkpoints(reason: FailureReason) -> None:
    driven = Driven(replace(RULES, tolerable_failures=0, fail_on_exceeded=True))
    driven.barrier(0)
    savepoint = only(driven.tell(CheckpointRequested(RequestId(1), "savepoint", "s")), BeginCheckpoint).ticket
    commands = fail(driven, savepoint, reason)
    assert of(commands, EndRun) == []
    assert only(commands, AnswerRequest).failure[0] is reason
    assert bool(of(fail_next(driven, 1), EndRun)) is True  # a counted one, for comparison
    other = Driven(replace(RULES, tolerable_failures=0, fail_on_exceeded=True))
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
    assert delays[-1] == 4 * RULES.interval
    driven.complete(driven.begin_periodic(9), 9)
    fail_next(driven, 10)
    driven.barrier(11)
    assert driven.coordinator.next_deadline() - driven.now == 5.0


def test_a_failure_before_an_id_existed_is_in_the_history() -> None:
    driven = Driven()
    record = only(fail_next(driven, 0), RecordOutcome).record
    assert record.id is None
    assert driven.coordinator.history.records == (record,)


# --- the journal outranks every other opinion ---


@pytest.mark.parametrize("how", [CheckpointSealed(Ticket(1)), EntrySettled(CheckpointId(1), BatchId(0))])
def test_an_entry_found_after_an_unknown_outcome_completes_the_checkpoint(how: object) -> None:
    driven = Driven()
    ticket = driven.begin_periodic(0)
    driven.advance(ticket, Phase.SEALING)
    commands = fail(driven, ticket, FailureReason.OUTCOME_UNKNOWN, "no answer")
    assert of(commands, PublishOutput) == []
    commands = driven.tell(how)
    assert only(commands, PublishOutput).upto == 0
    assert only(commands, RecordOutcome).record.completed
    assert [record.completed for record in driven.coordinator.history.records] == [True]
    assert driven.statistics.consecutive_failures == 0
    assert driven.tell(how) == []


def test_who_asked_is_answered_once_even_when_the_outcome_turns() -> None:
    driven = Driven()
    driven.barrier(0)
    ticket = only(driven.tell(CheckpointRequested(RequestId(1))), BeginCheckpoint).ticket
    driven.advance(ticket, Phase.SEALING)
    answers = of(fail(driven, ticket, FailureReason.OUTCOME_UNKNOWN), AnswerRequest)
    answers += of(driven.tell(CheckpointSealed(ticket)), AnswerRequest)
    assert len(answers) == 1


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
    assert of(driven.tell(EntrySettled(CheckpointId(2), BatchId(1))), PublishOutput) == []
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
    driven = Driven(replace(RULES, tolerable_failures=9))
    driven.barrier(0)
    commands = driven.tell(StopRequested(RequestId(1)))
    for _ in range(RULES.final_tries):
        ticket = only(commands, BeginCheckpoint).ticket
        commands = fail(driven, ticket, FailureReason.STORAGE_FULL, "full")
        if not of(commands, EndRun):
            commands = driven.wait(driven.coordinator.next_deadline() - driven.now)
    assert only(commands, EndRun).failure == "the last checkpoint could not be completed: storage_full: full"


def test_a_stop_that_cannot_publish_says_so() -> None:
    driven = Driven()
    driven.complete(driven.begin_periodic(0))
    driven.tell(StopRequested(RequestId(1)))
    commands: list[Command] = []
    for _ in range(RULES.final_tries):
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


def test_a_fenced_run_abandons_everything_and_gives_no_further_command() -> None:
    driven = Driven(CONCURRENT)
    driven.barrier(0)
    driven.tell(CheckpointRequested(RequestId(1)))
    driven.tell(CheckpointRequested(RequestId(2), "savepoint", "s"))
    commands = driven.tell(RunFenced("run 9 owns it"))
    assert len(of(commands, AbandonCheckpoint)) == 2
    assert {answer.failure[0] for answer in of(commands, AnswerRequest)} == {FailureReason.FENCED}
    assert commands[-1] == EndRun("run 9 owns it", fenced=True)
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
    assert only(driven.tell(QueryEnded(replaced=True)), AbandonCheckpoint).reason is FailureReason.QUERY_RESTARTED
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
