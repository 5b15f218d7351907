"""How a query reads its topics, and what it passes over: by partition, from what Spark says of its batches."""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.alarm import Alarm
from holdfast.finding import Finding
from holdfast.history import history_findings
from holdfast.identifiers import BatchId
from holdfast.repository.liveness import Liveness
from holdfast.repository.self_report import ReportedLag, ReportedReading, SelfReport
from holdfast.runtime.reports.alarms import Alarms, AtOnce
from holdfast.runtime.sources.reading_watch import LOOK_S, SKIPPED, ReadingWatch
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.positions import Partition, Positions
from holdfast.sources.reading import BatchRead, ReadingLog, SourceRead
from holdfast.sources.skipped import SkipCount, added_since, skipped_in
from tests.unit.churning_runs import ManualClock, QueuedLanes
from tests.unit.job_histories import History

P0, P1 = Partition("orders", 0), Partition("orders", 1)
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


def read(number: int, start: Positions, end: Positions, rows: int | None = None, seconds: float = 2.0) -> BatchRead:
    source = SourceRead(start, end, 0)
    source = SourceRead(start, end, sum(source.records.values()) if rows is None else rows)
    return BatchRead(BatchId(number), BEGAN + timedelta(seconds=10 * number), seconds, (source,))


def test_reading_is_known_after_three_batches_and_names_each_partition() -> None:
    log = ReadingLog()
    log.add([read(1, {P0: 0, P1: 0}, {P0: 5, P1: 0}), read(2, {P0: 5, P1: 0}, {P0: 9, P1: 0})])
    assert log.reading() is None
    log.add([read(3, {P0: 9, P1: 0}, {P0: 10, P1: 0})])
    reading = log.reading()
    assert reading is not None
    assert (reading.batches, reading.every_s, reading.batch_s) == (3, 10.0, 2.0)
    assert reading.records == {P0: 10, P1: 0}


def test_a_batch_counts_once_and_a_job_that_went_back_begins_anew() -> None:
    log = ReadingLog()
    first, second = read(1, {P0: 0}, {P0: 5}), read(2, {P0: 5}, {P0: 6})
    assert log.add([first, second]) == (first, second)
    assert log.add([first, second]) == ()
    again = BatchRead(BatchId(1), second.at + timedelta(seconds=9), 1.0, first.sources)
    assert log.add([again]) == (again,)
    assert log.reading() is None


def test_old_batches_say_nothing_about_now() -> None:
    log = ReadingLog()
    log.add([read(number, {P0: number}, {P0: number + 1}) for number in (1, 2, 3, 500)])
    assert log.reading() is None


def test_rows_that_are_missing_where_the_brokers_deleted_are_skipped() -> None:
    batch = read(1, {P0: 100, P1: 200}, {P0: 150, P1: 260}, rows=60)
    assert skipped_in([batch], {P0: 300, P1: 0}) == {P0: 50}
    assert skipped_in([batch], {P0: 120, P1: 0}) == {P0: 20}, "no more than was deleted: the rest are marks"
    assert skipped_in([batch], {P0: 0, P1: 0}) == {}
    assert skipped_in([read(1, {P0: 100}, {P0: 150})], {P0: 300}) == {}, "read before they were deleted"


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60)), min_size=1, max_size=5),
    st.integers(0, 300),
)
def test_what_is_skipped_adds_up(partitions: list[tuple[int, int]], missing: int) -> None:
    start = {Partition("t", number): 100 for number in range(len(partitions))}
    end = {part: 100 + length for part, (length, _) in zip(start, partitions, strict=True)}
    earliest = {part: 100 + gone for part, (_, gone) in zip(start, partitions, strict=True)}
    total = sum(length for length, _ in partitions)
    missing = min(missing, total)
    found = skipped_in([read(1, start, end, rows=total - missing)], earliest)
    deleted = {part: min(gone, length) for part, (length, gone) in zip(start, partitions, strict=True)}
    assert sum(found.values()) == min(missing, sum(deleted.values()))
    assert all(count <= deleted[part] for part, count in found.items())


def test_a_checkpoint_records_what_was_added_since_the_one_before() -> None:
    assert added_since({}, {P0: 5}) == {P0: 5}
    assert added_since({P0: 5}, {P0: 5, P1: 2}) == {P1: 2}


class Batches:
    """A query, and its brokers."""

    def __init__(self, *, fail_on_data_loss: bool) -> None:
        self.batches: tuple[BatchRead, ...] = ()
        self.earliest: Positions = {P0: 0}
        self.asked = 0
        self.lossy = not fail_on_data_loss

    def kafka_inputs(self) -> tuple[KafkaInput, ...]:
        return (KafkaInput("0", "a:1", "orders", ("orders",), not self.lossy, lambda: self, min_partitions=4),)  # type: ignore[return-value,arg-type]

    def batches_read(self, since: datetime | None) -> tuple[BatchRead, ...]:
        return tuple(each for each in self.batches if since is None or each.at > since)

    def cores(self) -> int:
        return 8

    def begins(self, partitions: Collection[Partition]) -> Positions:
        self.asked += 1
        return {part: self.earliest[part] for part in partitions}

    def close(self) -> None:
        pass


class Watched:
    def __init__(self, query: Batches) -> None:
        self.clock = ManualClock()
        self.lanes = QueuedLanes(self.clock)
        self.told: list[Alarm] = []
        self.count = SkipCount()
        self.query: Any = query
        self.watch = ReadingWatch(
            query=self.query,
            count=self.count,
            alarms=Alarms("job", (self.told.append,), self.clock, AtOnce),
            clock=self.clock,
            lanes=self.lanes,  # type: ignore[arg-type]
            post=lambda work: work(),
        )

    def look(self) -> None:
        self.clock.sleep(LOOK_S)
        self.watch.poll(self.clock.monotonic())
        while self.lanes.waiting:
            self.lanes.waiting.popleft()()


def test_skipped_records_are_counted_once_with_an_alarm_that_names_them() -> None:
    run = Watched(Batches(fail_on_data_loss=False))
    run.query.batches, run.query.earliest = (read(1, {P0: 0}, {P0: 50}, rows=10),), {P0: 40}
    run.look()
    run.look()
    assert run.count.total == {P0: 40}
    (alarm,) = run.told
    assert alarm.code == SKIPPED
    assert "deleted 40 records before the query read them: orders[0]: 40" in alarm.message


def test_brokers_are_asked_only_for_batches_that_lack_rows_and_may_skip() -> None:
    full, strict = Watched(Batches(fail_on_data_loss=False)), Watched(Batches(fail_on_data_loss=True))
    full.query.batches = (read(1, {P0: 0}, {P0: 50}),)
    strict.query.batches = (read(1, {P0: 0}, {P0: 50}, rows=49),)
    for run in (full, strict):
        run.look()
        assert run.query.asked == 0
        assert run.watch.latest.skipped == {}


def test_the_watch_says_how_many_tasks_read_and_on_how_many_cores() -> None:
    run = Watched(Batches(fail_on_data_loss=True))
    run.query.batches = tuple(read(number, {P0: number}, {P0: number + 1}) for number in range(1, 4))
    run.look()
    seen = run.watch.latest
    assert (seen.cores, seen.tasks, seen.max_offsets) == (8, 4, None)
    assert seen.lately is not None
    assert seen.lately.total == 3


def finding(tmp_path: Path, code: str, trend: str = "steady", waiting: int = 100, **reading: Any) -> Finding | None:
    tmp_path.mkdir(exist_ok=True)
    history = History(tmp_path / "home")
    history.run()
    told = {"batches": 10, "every_s": 10.0, "batch_s": 9.0, "records": 10_000, "partitions": 4, "tasks": 4, **reading}
    lag = ReportedLag(at=history.now, processed=waiting, trend=trend)  # type: ignore[arg-type]
    report = SelfReport(kafka_reading=ReportedReading(**told), kafka_lag=lag)
    seen = replace(history.seen(), liveness=Liveness(True, "", "heartbeat", 0.0, None, report))
    return next((each for each in history_findings(seen) if each.code == code), None)


@pytest.mark.parametrize(
    ("code", "reading", "setting"),
    [
        ("kafka-idle-cores", {"cores": 8}, '.option("minPartitions", "8")'),
        ("kafka-hot-partition", {"hottest": "orders[3]", "hottest_records": 7_000}, '.option("minPartitions", "8")'),
        ("kafka-idle-partitions", {"idle": 2}, "kafka-get-offsets.sh"),
        ("kafka-batches-limited", {"max_offsets": 1_000, "batch_s": 2.0}, '.option("maxOffsetsPerTrigger", "3500")'),
        ("kafka-batch-unlimited", {"waiting": 50_000}, '.option("maxOffsetsPerTrigger", "5000")'),
    ],
)
def test_a_finding_computes_the_option(tmp_path: Path, code: str, reading: dict[str, Any], setting: str) -> None:
    found = finding(tmp_path, code, **reading)
    assert found is not None
    assert any(setting in line for line in found.fix), found.fix


@pytest.mark.parametrize(
    ("code", "reading"),
    [
        ("kafka-idle-cores", {"cores": 4}),
        ("kafka-idle-cores", {"cores": 8, "tasks": 8}),
        ("kafka-idle-cores", {"cores": 8, "batch_s": 1.0}),
        ("kafka-hot-partition", {"hottest": "orders[3]", "hottest_records": 4_000}),
        ("kafka-hot-partition", {"hottest": "orders[0]", "hottest_records": 10_000, "partitions": 1}),
        ("kafka-idle-partitions", {"idle": 2, "records": 20}),
        ("kafka-batches-limited", {"max_offsets": 1_000, "batch_s": 9.0}),
        ("kafka-batches-limited", {"max_offsets": 5_000, "batch_s": 2.0}),
        ("kafka-batches-limited", {"max_offsets": 1_000, "batch_s": 2.0, "waiting": 0}),
        ("kafka-batch-unlimited", {"waiting": 50_000, "max_offsets": 1_000}),
        ("kafka-batch-unlimited", {"waiting": 5_000}),
    ],
)
def test_what_is_as_it_should_be_is_no_finding(tmp_path: Path, code: str, reading: dict[str, Any]) -> None:
    assert finding(tmp_path, code, **reading) is None


def test_idle_cores_matter_where_the_lag_grows(tmp_path: Path) -> None:
    steady = finding(tmp_path / "steady", "kafka-idle-cores", cores=8)
    growing = finding(tmp_path / "growing", "kafka-idle-cores", trend="growing", cores=8)
    assert steady is not None
    assert growing is not None
    assert (steady.severity, growing.severity) == ("info", "warning")
