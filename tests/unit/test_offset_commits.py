"""Offsets are committed in the background: only the newest, again after a failure, and never at anybody's expense."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.alarm import Alarm
from holdfast.identifiers import BatchId
from holdfast.runtime.reports.alarms import Alarms, AtOnce
from holdfast.runtime.sources.offset_commits import LASTING_S, NOT_COMMITTED, OffsetCommits
from holdfast.sources.brokers import BrokersFailed, Refused
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.positions import Partition, Positions
from tests.unit.churning_runs import ManualClock, QueuedLanes
from tests.unit.test_kafka_positions import entry

FIRST = Partition("orders", 0)


class Directory:
    """`offsets/N` is at N0."""

    def __init__(self, lines: Callable[[int], tuple[str, ...]] | None = None) -> None:
        self.lines = lines or (lambda batch: (f'{{"orders":{{"0":{batch}0}}}}',))
        self.gone: set[int] = set()

    def read(self, path: str) -> bytes:
        batch = int(path.removeprefix("offsets/"))
        if batch in self.gone:
            raise FileNotFoundError(path)
        return entry(*self.lines(batch))


class Group:
    """Brokers with one group."""

    def __init__(self) -> None:
        self.commits: list[Positions] = []
        self.fails: BrokersFailed | Exception | None = None
        self.opened = 0

    def opens(self) -> "Group":
        self.opened += 1
        return self

    def commit(self, group: str, positions: Positions) -> None:
        assert group == "lag"
        if self.fails is not None:
            raise self.fails
        self.commits.append(positions)

    def close(self) -> None:
        pass


class Run:
    def __init__(self, group: Group, *inputs: KafkaInput, owner: Callable[[], bool] = lambda: True) -> None:
        self.clock = ManualClock()
        self.lanes = QueuedLanes(self.clock)
        self.told: list[Alarm] = []
        self.alarms = Alarms("job", (self.told.append,), self.clock, AtOnce)
        self.directory: Any = Directory()
        self.commits = OffsetCommits(
            group="lag",
            inputs=inputs or (source(group),),
            alarms=self.alarms,
            clock=self.clock,
            lanes=self.lanes,  # type: ignore[arg-type]
            post=lambda work: work(),
            still_owner=owner,
        )
        self.commits.resumed(None, self.directory)

    def reached(self, batch: int) -> None:
        self.commits.reached(BatchId(batch), self.directory)

    def work(self) -> int:
        done = 0
        while self.lanes.waiting:
            self.lanes.waiting.popleft()()
            done += 1
        return done

    def later(self, seconds: float = 1.0) -> None:
        self.clock.sleep(seconds)
        self.commits.poll(self.clock.monotonic())
        self.work()


def source(group: Group, name: str = "0", servers: str = "a:9092") -> KafkaInput:
    return KafkaInput(name, servers, "orders", ("orders",), True, group.opens)


def test_the_offsets_of_a_checkpoint_are_committed_on_the_lane() -> None:
    group = Group()
    run = Run(group)
    run.reached(7)
    assert group.commits == [], "nothing happens on the thread that decides"
    run.work()
    assert group.commits == [{FIRST: 70}]
    assert run.commits.committed == 7


def test_only_the_newest_count() -> None:
    group = Group()
    run = Run(group)
    for batch in (1, 2, 3):
        run.reached(batch)
    assert len(run.lanes.waiting) == 1, "one at a time, whatever waits"
    run.work()
    run.later()
    assert group.commits == [{FIRST: 10}, {FIRST: 30}]
    assert group.opened == 1


def test_a_checkpoint_that_completes_late_takes_nothing_back() -> None:
    group = Group()
    run = Run(group)
    run.reached(5)
    run.work()
    run.reached(4)
    run.later()
    assert group.commits == [{FIRST: 50}]


def test_short_batches_do_not_commit_more_than_once_a_second() -> None:
    group = Group()
    run = Run(group)
    for batch in range(50):
        run.reached(batch)
        run.work()
        run.clock.sleep(0.1)
    assert len(group.commits) <= 6


def test_a_job_that_went_back_commits_the_older_offsets() -> None:
    group = Group()
    run = Run(group)
    run.reached(9)
    run.work()
    run.directory = Directory()
    run.commits.resumed(BatchId(4), run.directory)
    run.later()
    run.reached(5)
    run.later()
    assert group.commits == [{FIRST: 90}, {FIRST: 40}, {FIRST: 50}]


def test_a_job_that_went_back_during_a_commit_commits_the_older_offsets_afterwards() -> None:
    group = Group()
    run = Run(group)
    run.reached(9)
    run.directory = Directory()
    run.commits.resumed(BatchId(4), run.directory)
    run.work()
    run.later()
    run.reached(5)
    run.later()
    assert group.commits == [{FIRST: 90}, {FIRST: 40}, {FIRST: 50}]


def test_a_job_that_begins_again_commits_what_it_reaches_then() -> None:
    group = Group()
    run = Run(group)
    run.reached(9)
    run.work()
    run.directory = Directory()
    run.commits.resumed(None, run.directory)
    run.reached(3)
    run.later()
    assert group.commits == [{FIRST: 90}, {FIRST: 30}]


def test_a_failure_is_tried_again_at_growing_intervals_with_what_is_newest_by_then() -> None:
    group = Group()
    run = Run(group)
    group.fails = BrokersFailed(Refused.COORDINATOR, "no coordinator")
    run.reached(1)
    run.work()
    attempts = group.opened
    for second in range(120):
        run.reached(2 + second)
        run.later()
    assert attempts + 5 <= group.opened <= attempts + 8, "1, 2, 4, 8, 16, 32, 60 seconds"
    group.fails = None
    run.later(60)
    assert group.commits == [{FIRST: 1210}]
    assert run.alarms.active == {}
    assert run.told[-1].cleared


def test_a_failure_that_passes_soon_is_no_alarm_and_one_that_lasts_is() -> None:
    group = Group()
    run = Run(group)
    group.fails = BrokersFailed(Refused.UNREACHABLE, "could not commit: connection refused")
    run.reached(1)
    run.work()
    while run.clock.now < LASTING_S - 1:
        run.later()
        assert run.alarms.active == {}
    while run.clock.now < 3 * LASTING_S:
        run.later()
    alarm = run.alarms.active[NOT_COMMITTED]
    assert alarm.severity == "warning"
    assert "connection refused" in alarm.message
    assert "job itself is not affected" in alarm.message
    assert alarm.hint == Refused.UNREACHABLE.value


@pytest.mark.parametrize("why", [why for why in Refused if not why.passes])
def test_what_needs_a_person_is_an_alarm_at_the_second_attempt(why: Refused) -> None:
    group = Group()
    run = Run(group)
    group.fails = BrokersFailed(why, "refused")
    run.reached(1)
    run.work()
    assert run.alarms.active == {}
    run.later()
    assert run.alarms.active[NOT_COMMITTED].hint == why.value


def test_offsets_that_spark_has_deleted_are_left_to_the_next_checkpoint() -> None:
    group = Group()
    run = Run(group)
    run.directory.gone.add(1)
    run.reached(1)
    run.work()
    run.later()
    run.reached(2)
    run.work()
    assert group.commits == [{FIRST: 20}]


def test_offsets_that_are_not_understood_are_an_alarm() -> None:
    group = Group()
    run = Run(group, source(group, "3"))
    run.reached(1)
    run.work()
    run.later()
    assert "no source 3" in run.alarms.active[NOT_COMMITTED].message


def test_an_unexpected_error_is_a_failure_like_any_other() -> None:
    group = Group()
    run = Run(group)
    group.fails = ZeroDivisionError("odd")
    run.reached(1)
    run.work()
    group.fails = None
    run.later()
    assert group.commits == [{FIRST: 10}]


def test_a_run_that_is_no_owner_any_more_commits_nothing() -> None:
    group = Group()
    run = Run(group, owner=lambda: False)
    run.reached(1)
    run.work()
    assert group.commits == []


def test_sources_on_the_same_brokers_are_committed_together_and_others_apart() -> None:
    near, far = Group(), Group()
    run = Run(near, source(near, "0"), source(near, "1"), source(far, "2", "b:9092"))
    run.directory.lines = lambda batch: ('{"orders":{"0":8}}', '{"orders":{"0":5,"1":6}}', '{"far":{"0":1}}')
    run.reached(1)
    run.work()
    assert near.commits == [{FIRST: 5, Partition("orders", 1): 6}], "of a partition only what both have read"
    assert far.commits == [{Partition("far", 0): 1}]


# --- the end ---


def test_at_the_end_the_last_offsets_are_committed() -> None:
    group = Group()
    run = Run(group)
    run.reached(1)
    run.reached(2)
    run.commits.end(owned=True)
    assert not run.commits.settled_within(0)
    run.work()
    assert group.commits == [{FIRST: 10}, {FIRST: 20}]
    assert run.commits.settled_within(0)


def test_a_stop_does_not_wait_for_brokers_that_have_failed() -> None:
    group = Group()
    run = Run(group)
    group.fails = BrokersFailed(Refused.UNREACHABLE, "away")
    run.reached(1)
    run.work()
    run.commits.end(owned=True)
    assert run.commits.settled_within(0)
    assert not run.lanes.waiting


def test_a_failure_of_the_last_commit_ends_the_wait() -> None:
    group = Group()
    run = Run(group)
    run.reached(1)
    run.commits.end(owned=True)
    group.fails = BrokersFailed(Refused.UNREACHABLE, "away")
    run.work()
    assert run.commits.settled_within(0)


def test_a_fenced_run_ends_without_another_commit() -> None:
    group = Group()
    run = Run(group)
    run.reached(1)
    run.work()
    run.clock.sleep(0.5)
    run.reached(2)
    run.commits.end(owned=False)
    run.work()
    assert group.commits == [{FIRST: 10}]
    assert run.commits.settled_within(0)


def test_without_offsets_there_is_nothing_to_wait_for(tmp_path: Path) -> None:
    run = Run(Group())
    run.commits.end(owned=True)
    assert run.commits.settled_within(0)
