"""What shards report, expiry, supersession, and the journal, which outranks every other opinion."""

from dataclasses import replace

import pytest

from holdfast.coordination.commands import (
    AbortCheckpoint,
    AnswerRequest,
    BeginCheckpoint,
    CopyShards,
    PublishOutput,
    RaiseAlarm,
    RecordOutcome,
    SealCheckpoint,
)
from holdfast.coordination.events import (
    CheckpointRequested,
    CheckpointSealed,
    EntrySettled,
    OutputPublished,
    OutputReleased,
    ShardAcknowledged,
    ShardFailed,
)
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.coordination.lifecycle import Phase
from holdfast.identifiers import BatchId, CheckpointId, RequestId, Ticket
from tests.unit.coordinating import (
    CONCURRENT,
    CONTROL,
    LIMITS,
    STATE,
    UNREACHABLE,
    Driven,
    fail,
    kinds,
    of,
    only,
)

# --- acknowledgements ---


def test_the_last_acknowledgement_seals_whatever_the_order_and_however_often() -> None:
    driven = Driven()
    ticket = driven.begin_periodic(0)
    driven.advance(ticket, Phase.COPYING)
    assert driven.tell(ShardAcknowledged(ticket, STATE, bytes_total=7)) == []
    assert driven.tell(ShardAcknowledged(ticket, STATE, bytes_total=7)) == []
    sealing = only(driven.tell(ShardAcknowledged(ticket, CONTROL, bytes_total=5)), SealCheckpoint)
    assert (sealing.ticket, sealing.progress.bytes_total) == (ticket, 12)
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
    assert deadline == driven.now + LIMITS.shard_backoff(1)
    assert driven.wait(deadline - driven.now) == [CopyShards(ticket, (STATE,), again=True)]
    assert kinds(driven.tell(ShardAcknowledged(ticket, STATE))) == ["SealCheckpoint"]
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
    driven = Driven(replace(LIMITS, timeout=5.0))
    ticket = driven.begin_periodic(0)
    driven.advance(ticket, Phase.COPYING)
    driven.now += 4.9
    assert of(driven.tell(ShardFailed(ticket, STATE, UNREACHABLE, "x")), AbortCheckpoint)


def test_an_expired_checkpoint_is_aborted_once_and_its_late_messages_change_nothing() -> None:
    driven = Driven()
    ticket = driven.begin_periodic(0)
    driven.advance(ticket, Phase.COPYING)
    commands = driven.wait(100.0)
    assert only(commands, AbortCheckpoint).reason is FailureReason.EXPIRED
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
    assert len({command.ticket for command in of(commands, AbortCheckpoint)}) == 2
    assert kinds(commands)[-1] == "EndRun"


# --- supersession ---


def test_a_newer_checkpoint_supersedes_older_ones_without_counting_a_failure() -> None:
    driven = Driven(CONCURRENT)
    old = driven.begin_periodic(0)
    new = driven.begin_periodic(1)
    driven.advance(old, Phase.COPYING)
    driven.advance(new, Phase.SEALING)
    commands = driven.tell(CheckpointSealed(new))
    assert only(commands, AbortCheckpoint) == AbortCheckpoint(old, FailureReason.SUPERSEDED)
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
    assert of(driven.complete(driven.begin_periodic(1)), AbortCheckpoint) == []
    assert only(driven.complete(savepoint), AnswerRequest).completed == 2


def test_a_checkpoint_whose_entry_is_being_written_is_not_superseded() -> None:
    driven = Driven(CONCURRENT)
    old = driven.begin_periodic(0)
    new = driven.begin_periodic(1)
    driven.advance(old, Phase.SEALING)
    assert of(driven.complete(new), AbortCheckpoint) == []
    commands = driven.tell(CheckpointSealed(old))
    assert driven.statistics.completed == 2
    assert of(commands, PublishOutput) == []  # the newer barrier is asked for already


# --- what is shown before a checkpoint has it ---


def test_released_batches_are_published_one_publication_at_a_time_and_a_checkpoint_of_them_publishes_nothing() -> None:
    driven = Driven()
    driven.barrier(0)
    assert only(driven.tell(OutputReleased(BatchId(0))), PublishOutput).upto == 0
    driven.barrier(1)
    assert of(driven.tell(OutputReleased(BatchId(1))), PublishOutput) == []
    assert only(driven.tell(OutputPublished(BatchId(0))), PublishOutput).upto == 1
    driven.tell(OutputPublished(BatchId(1)))
    assert of(driven.complete(driven.begin_periodic(1)), PublishOutput) == []


# --- the journal outranks every other opinion ---


@pytest.mark.parametrize("how", [CheckpointSealed(Ticket(1)), EntrySettled(CheckpointId(1))])
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
