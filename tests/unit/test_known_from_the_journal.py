"""What the coordinator makes of savepoints and checkpoints that change outside of it."""

from holdfast.coordination.commands import AnswerRequest, BeginCheckpoint
from holdfast.coordination.events import CheckpointRequested, QueryStarted, SavepointsKnown
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.identifiers import BatchId, CheckpointId, RequestId
from tests.unit.coordinating import LIMITS, Driven, kinds, only


def test_a_name_that_was_taken_back_is_free_and_one_that_was_given_is_taken() -> None:
    driven = Driven(savepoints=frozenset({"old"}))
    driven.barrier(0)
    driven.tell(SavepointsKnown(frozenset({"new"})))
    refused = only(driven.tell(CheckpointRequested(RequestId(1), "savepoint", "new")), AnswerRequest)
    assert refused.failure == (FailureReason.NAME_TAKEN, "savepoint 'new' exists")
    assert only(driven.tell(CheckpointRequested(RequestId(2), "savepoint", "old")), BeginCheckpoint).name == "old"


def test_a_barrier_whose_checkpoint_is_damaged_gets_another_one() -> None:
    driven = Driven(running=False)
    driven.tell(QueryStarted(replaced=True, durable=BatchId(5), durable_id=None))
    driven.barrier(5)
    assert only(driven.wait(LIMITS.interval), BeginCheckpoint).barrier == 5


def test_a_barrier_whose_checkpoint_is_sound_does_not() -> None:
    driven = Driven(running=False)
    driven.tell(QueryStarted(replaced=True, durable=BatchId(5), durable_id=CheckpointId(3)))
    driven.barrier(5)
    assert kinds(driven.wait(LIMITS.interval)) == []
