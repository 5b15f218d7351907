"""The brokers are asked every quarter of a minute, on a lane; what they do not answer is not known."""

import json
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.identifiers import BatchId
from holdfast.repository.self_report import ReportedLag, ReportedPartition, SelfReport
from holdfast.runtime.sources.lag_watch import LOOK_S, LagWatch
from holdfast.sources.brokers import BrokersFailed, Refused
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.positions import Partition, Positions
from tests.unit.churning_runs import ManualClock, QueuedLanes
from tests.unit.job_histories import History
from tests.unit.test_offset_commits import Directory

FIRST = Partition("orders", 0)


class Growing:
    def __init__(self, ends: Positions) -> None:
        self.is_at = ends
        self.asked = 0
        self.opened = 0
        self.fails: BrokersFailed | None = None

    def opens(self) -> "Growing":
        self.opened += 1
        return self

    def ends(self, partitions: Collection[Partition]) -> Positions:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        return {part: self.is_at[part] for part in partitions if part in self.is_at}

    def close(self) -> None:
        pass


class Run:
    def __init__(self, *sources: tuple[str, str, Growing]) -> None:
        """Name, servers and brokers of each."""
        self.clock = ManualClock()
        self.lanes = QueuedLanes(self.clock)
        self.directory: Any = Directory()
        inputs = [KafkaInput(name, servers, "orders", (), True, brokers.opens) for name, servers, brokers in sources]
        self.watch = LagWatch(
            inputs=inputs,
            clock=self.clock,
            lanes=self.lanes,  # type: ignore[arg-type]
            post=lambda work: work(),
        )

    def poll(self, committed: int | None, published: int | None = None) -> None:
        batch, shown = (None if given is None else BatchId(given) for given in (committed, published))
        self.watch.poll(self.clock.monotonic(), batch, shown, self.directory)

    def look(self, committed: int | None, published: int | None = None) -> None:
        self.poll(committed, published)
        while self.lanes.waiting:
            self.lanes.waiting.popleft()()


def test_the_lag_is_that_of_the_newest_batch_and_of_the_published_one() -> None:
    brokers = Growing({FIRST: 100})
    run = Run(("0", "a:1", brokers))
    run.look(7, 5)
    assert run.watch.latest is not None
    assert (run.watch.latest.lag.processed, run.watch.latest.lag.published) == (30, 50)
    assert run.watch.latest.at == run.clock.wall()


def test_nobody_is_asked_before_the_first_batch_nor_twice_at_once_nor_too_often() -> None:
    brokers = Growing({FIRST: 100})
    run = Run(("0", "a:1", brokers))
    run.look(None)
    assert brokers.asked == 0
    run.poll(1)
    run.poll(1)
    assert len(run.lanes.waiting) == 1
    for _ in range(600):
        run.look(1)
        run.clock.sleep(0.1)
    assert 60 / LOOK_S <= brokers.asked <= 60 / LOOK_S + 1
    assert brokers.opened == 1


def test_what_brokers_do_not_answer_is_not_known_and_they_are_spared() -> None:
    brokers = Growing({FIRST: 100})
    run = Run(("0", "a:1", brokers))
    run.look(1)
    brokers.fails = BrokersFailed(Refused.UNREACHABLE, "away")
    for _ in range(12):
        run.clock.sleep(LOOK_S)
        run.look(1)
    assert run.watch.latest is None
    assert brokers.asked <= 5
    brokers.fails = None
    run.clock.sleep(60)
    run.look(1)
    assert run.watch.latest is not None
    assert brokers.opened >= 2, "a new client asks everything anew"


def test_a_published_batch_whose_offsets_are_deleted_is_not_known() -> None:
    run = Run(("0", "a:1", Growing({FIRST: 100})))
    run.directory.gone.add(2)
    run.look(7, 2)
    assert run.watch.latest is not None
    assert run.watch.latest.lag.published is None
    assert run.watch.latest.lag.processed == 30


def test_a_batch_whose_offsets_are_deleted_is_asked_about_later() -> None:
    brokers = Growing({FIRST: 100})
    run = Run(("0", "a:1", brokers))
    run.directory.gone.add(7)
    run.look(7)
    assert run.watch.latest is None
    run.clock.sleep(60)
    run.look(8)
    assert run.watch.latest is not None


def test_each_cluster_is_asked_about_its_own_topics() -> None:
    near, far = Growing({FIRST: 100}), Growing({Partition("far", 0): 8})
    run = Run(("0", "a:1", near), ("1", "b:1", far))
    run.directory.lines = lambda batch: ('{"orders":{"0":90}}', '{"far":{"0":5}}')
    run.look(1)
    assert run.watch.latest is not None
    assert [(each.partition.topic, each.processed) for each in run.watch.latest.lag.partitions] == [
        ("far", 3),
        ("orders", 10),
    ]


# --- status ---


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History(tmp_path / "home")
    history.run()
    return history


def shown(history: History, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert main(["status", "--home", f"file://{history.home}", "--job", "orders", *more]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({"processed": 0}, "0 records;"),
        ({"processed": 1204, "seconds": 42.0, "trend": "growing"}, "1,204 records, about 42.0s old, growing;"),
        ({"processed": 7, "seconds": 60.0, "at_least": True}, "7 records, more than 1m 00s old;"),
        (
            {"processed": 7, "trend": "shrinking", "caught_up_in_s": 70.0},
            "7 records, shrinking, caught up in about 1m 10s;",
        ),
        ({"processed": 7, "published": 1904}, "1,904 records that readers do not see yet"),
    ],
)
def test_status_shows_the_lag(
    history: History, capsys: pytest.CaptureFixture[str], told: dict[str, Any], line: str
) -> None:
    history.beat(report=SelfReport(kafka_lag=ReportedLag(at=datetime.now(UTC), **told)))
    assert line in shown(history, capsys)


def test_status_names_the_partitions_that_are_most_behind(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    parts = tuple(ReportedPartition(topic="clicks", partition=n, processed=9 - 3 * n) for n in range(5))
    lag = ReportedLag(at=datetime.now(UTC), processed=18, partitions=parts)
    history.beat(report=SelfReport(kafka_lag=lag))
    said = shown(history, capsys)
    assert "clicks[0]: 9" in said
    assert "clicks[2]: 3" in said
    assert "clicks[3]" not in said
    document = json.loads(shown(history, capsys, "--json"))["kafka_lag"]
    assert document["processed"] == 18
    assert document["partitions"][0] == {"topic": "clicks", "partition": 0, "processed": 9}


def test_the_lag_of_a_run_that_has_ended_is_not_shown(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    history.beat(report=SelfReport(kafka_lag=ReportedLag(at=datetime.now(UTC), processed=1)))
    history.end()
    assert "kafka lag" not in shown(history, capsys)
    assert json.loads(shown(history, capsys, "--json"))["kafka_lag"] is None
