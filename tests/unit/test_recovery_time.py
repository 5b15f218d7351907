"""A recovery stays within its target: checkpoints are taken by how long repeating what is behind them would take."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from holdfast.coordination.commands import BeginCheckpoint
from holdfast.coordination.coordinator import Coordinator
from holdfast.coordination.events import (
    BarrierReached,
    CheckpointBegun,
    CheckpointDamaged,
    CheckpointSealed,
    QueryEnded,
    QueryStarted,
    ShardAcknowledged,
    SnapshotPlanned,
)
from holdfast.coordination.limits import Limits
from holdfast.coordination.recovery_time import LOAD_RATE, NEW_QUERY_S, RESTORE_RATE, RecoveryTime
from holdfast.identifiers import CONTROL_SHARD, BatchId, CheckpointId, ShardId, Ticket
from tests.unit.coordinating import Driven, fail, kinds, only

RARELY = Limits(interval=36_000.0, timeout=36_000.0, jitter=1.0)
STATEFUL = (CONTROL_SHARD, ShardId("state/0/0"))
STATELESS = (CONTROL_SHARD,)
GB = 1_000_000_000


class Planned(Driven):
    """A job whose batches are planned; each runs this long."""

    def __init__(
        self,
        target: float | None,
        limits: Limits = RARELY,
        ran_s: float = 0.4,
        size: int = 0,
        *,
        between: int | None = None,
        planned: bool = True,
    ) -> None:
        super().__init__(limits, running=False)
        recovery = RecoveryTime(target, bytes_total=size, between=between, planned=planned)
        self.coordinator = Coordinator(limits, self.now, recovery=recovery)
        self.ran_s = ran_s
        self.tell(QueryStarted(replaced=True))

    def batches(self, first: int, last: int) -> list[int]:
        """Runs them; the barriers at which a checkpoint began."""
        begun = []
        for batch in range(first, last + 1):
            self.now += self.ran_s
            found = self.tell(BarrierReached(BatchId(batch), self.ran_s))
            begun += [command.barrier for command in found if isinstance(command, BeginCheckpoint)]
        return begun

    def checkpoint(self, ticket: Ticket, size: int = 0, shards: tuple[ShardId, ...] = STATEFUL) -> None:
        self.tell(CheckpointBegun(ticket, CheckpointId(self.next_id)))
        self.next_id += 1
        self.tell(SnapshotPlanned(ticket, shards))
        for shard in shards:
            self.tell(ShardAcknowledged(ticket, shard, bytes_total=size if shard == shards[-1] else 0))
        self.tell(CheckpointSealed(ticket))


def pending(job: Planned) -> Ticket:
    (checkpoint,) = job.coordinator.pending
    return checkpoint.ticket


def test_a_checkpoint_is_taken_when_repeating_would_take_half_of_the_target() -> None:
    # Each batch would take 0.6 s to start a query and 0.4 s to run.
    job = Planned(target=20.0)
    assert job.batches(0, 12) == [9]
    job.checkpoint(pending(job))
    assert job.batches(13, 40) == [19]
    job.checkpoint(pending(job))
    assert job.coordinator.pending[0].barrier == 40, "21 were behind batch 19"


def test_where_readers_see_a_batch_with_its_checkpoint_the_rule_is_the_same_and_nothing_behind_it_is_repeated() -> None:
    job = Planned(target=20.0, planned=False)
    assert job.batches(0, 12) == [9]
    job.checkpoint(pending(job))
    assert job.batches(13, 40) == [19]
    estimate = job.coordinator.recovery
    assert estimate is not None
    assert (estimate.batches, estimate.seconds, estimate.fall_back_batches) == (0, 0.0, None)
    job.checkpoint(pending(job))
    job.checkpoint(pending(job))
    estimate = job.coordinator.recovery
    assert estimate is not None
    assert (estimate.batches, estimate.fall_back_batches) == (0, 21), "from batch 19 to batch 40"
    assert estimate.fall_back_seconds == pytest.approx(21.0)


def test_a_fall_back_repeats_the_batches_between_two_checkpoints_and_those_behind_the_newest() -> None:
    job = Planned(target=None, between=7)
    job.tell(QueryStarted(replaced=True, durable=BatchId(99), durable_id=CheckpointId(7)))
    for planned, expected in ((True, 10), (False, 7)):
        estimate = RecoveryTime(None, between=7, planned=planned).estimate(3)
        assert estimate.fall_back_batches == expected
    job.batches(100, 102)
    assert job.coordinator.recovery is not None
    assert job.coordinator.recovery.fall_back_batches == 10


def test_without_a_target_only_the_interval_counts() -> None:
    assert Planned(target=None).batches(0, 500) == []
    assert Planned(target=None).coordinator.recovery is not None, "it is told all the same"


def test_without_plans_nothing_is_repeated_and_nothing_is_told() -> None:
    job = Driven(RARELY)
    assert [command for batch in range(500) for command in job.barrier(batch)] == []
    assert job.coordinator.recovery is None


def test_a_query_without_state_repeats_nothing() -> None:
    job = Planned(target=20.0)
    job.batches(0, 9)
    job.checkpoint(pending(job), size=500_000_000, shards=STATELESS)
    assert job.batches(10, 500) == []
    estimate = job.coordinator.recovery
    assert estimate is not None
    assert (estimate.batches, estimate.seconds) == (491, 500_000_000 / RESTORE_RATE)


def test_large_state_makes_each_batch_longer_and_leaves_less_of_the_target() -> None:
    job = Planned(target=60.0)
    job.batches(0, 29)
    job.checkpoint(pending(job), size=GB)
    a_batch = NEW_QUERY_S + GB / LOAD_RATE + 0.4
    estimate = RecoveryTime(60.0, bytes_total=GB).estimate(0)
    assert estimate.seconds == 10.0, "to restore it"
    assert job.batches(30, 60) == [29 + -(-25 // a_batch)], "half of the fifty seconds that are left"


def test_state_that_cannot_be_restored_within_the_target_does_not_bring_one_checkpoint_after_the_other() -> None:
    huge = RecoveryTime(600.0, bytes_total=100 * GB)
    a_batch = NEW_QUERY_S + 100 * GB / LOAD_RATE
    assert huge.estimate(0).seconds > 600.0
    assert not huge.due(0)
    assert huge.due(1) == (a_batch >= 150.0)
    small_target = RecoveryTime(600.0, bytes_total=30 * GB)
    assert not small_target.due(1)
    assert small_target.due(2)


def test_what_was_measured_when_batches_were_repeated_counts_when_it_is_longer() -> None:
    for measured, expected in ((5.0, [1]), (0.01, [9]), (None, [9])):
        job = Planned(target=20.0)
        job.tell(QueryStarted(repeated_s=measured))
        assert job.batches(0, 12) == expected


def test_batches_that_get_slower_make_checkpoints_more_frequent() -> None:
    job = Planned(target=20.0)
    job.batches(0, 9)
    job.checkpoint(pending(job))
    job.ran_s = 3.0
    assert job.batches(10, 30) == [13]


def test_min_pause_and_back_off_hold_all_the_same() -> None:
    job = Planned(target=2.0, limits=replace(RARELY, min_pause=30.0))
    assert job.batches(0, 4) == [0]
    job.checkpoint(pending(job))
    assert job.batches(5, 80) == [79], "thirty seconds after the last one ended"
    job = Planned(target=2.0, limits=replace(RARELY, interval=40.0, jitter=1.0))
    job.batches(0, 0)
    fail(job, pending(job))
    assert job.batches(1, 49) == []
    assert len(job.batches(50, 51)) == 1, "half an interval after the failure"


def test_batches_of_a_checkpoint_under_way_are_not_counted_again() -> None:
    job = Planned(target=20.0, limits=replace(RARELY, max_concurrent=2))
    assert job.batches(0, 18) == [9]
    assert job.batches(19, 19) == [19], "ten more are behind the one that is under way"
    assert len(job.coordinator.pending) == 2


def test_a_query_that_does_not_run_is_not_missing_a_checkpoint_because_of_the_target() -> None:
    job = Planned(target=20.0)
    job.batches(0, 8)
    job.tell(QueryEnded())
    assert job.batches(9, 40) == []
    assert kinds(job.wait(1000.0)) == []
    assert only(job.tell(QueryStarted()), BeginCheckpoint).barrier == 40


def test_a_damaged_checkpoint_does_not_put_the_job_back_to_its_first_batch() -> None:
    job = Planned(target=None)
    job.batches(0, 99)
    job.tell(QueryStarted(replaced=True, durable=BatchId(99), durable_id=CheckpointId(7)))
    job.batches(100, 104)
    job.tell(CheckpointDamaged(CheckpointId(7)))
    estimate = job.coordinator.recovery
    assert estimate is not None
    assert estimate.batches == 5
    job.tell(QueryStarted(replaced=True, durable=BatchId(99), durable_id=None))
    job.batches(100, 102)
    assert job.coordinator.recovery is not None
    assert job.coordinator.recovery.batches == 3


@pytest.mark.parametrize("seed", range(10))
def test_a_recovery_stays_within_the_target_whatever_the_pace(seed: int) -> None:
    """As long as no more batches run while a checkpoint is taken than a quarter of the target would repeat."""
    draw = random.Random(seed)
    target, ran_s = draw.uniform(30.0, 300.0), draw.uniform(0.05, 2.0)
    size = round(draw.uniform(0, target / 4 * RESTORE_RATE))
    a_batch = NEW_QUERY_S + size / LOAD_RATE + ran_s
    job = Planned(target, ran_s=ran_s, size=size)
    taken, longest, ends_at = 0, 0.0, -1
    for batch in range(1000):
        if job.batches(batch, batch):
            taken, ends_at = taken + 1, batch + draw.randint(0, int(target / 4 / a_batch))
        if batch == ends_at:
            job.checkpoint(pending(job), size=size)
        estimate = job.coordinator.recovery
        assert estimate is not None
        longest = max(longest, estimate.seconds)
    assert taken > 1
    assert target / 2 < longest <= target + a_batch
