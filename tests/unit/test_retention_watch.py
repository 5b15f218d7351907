"""The brokers are asked every ten minutes how long they keep what the checkpoints need; an alarm comes in time."""

import json
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.repository.self_report import ReportedRestorable, SelfReport
from holdfast.runtime.reports.alarms import Alarms, AtOnce
from holdfast.runtime.sources.retention_watch import EXPIRES, FIRST_S, LOOK_S, RetentionWatch
from holdfast.sources.brokers import BrokersFailed, Refused
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.kafka_kept import KafkaKept
from holdfast.sources.positions import Partition
from holdfast.sources.restorable import Kept, TopicRetention
from tests.unit.churning_runs import ManualClock, QueuedLanes
from tests.unit.job_histories import History
from tests.unit.test_kafka_positions import entry

FIRST = Partition("orders", 0)
DAY = 86_400.0


class Checkpoint:
    def __init__(self, id: int) -> None:
        self.id, self.barrier_batch_id = id, 10 * id


class Home:
    """Checkpoint N ends at batch N0, which ends at offset N00."""

    def __init__(self, *ids: int) -> None:
        self._ids = ids
        self.reads = 0

    def all(self) -> dict[int, Any]:
        return {id: Home(id) for id in self._ids}

    def files(self) -> list[Any]:
        return [
            type("File", (), {"path": f"offsets/{id}0", "key": str(id), "offset": 0, "size": 9}) for id in self._ids
        ]

    def read(self, key: str, offset: int, size: int) -> bytes:
        self.reads += 1
        return entry(f'{{"orders":{{"0":{key}00}}}}')


class Keeping:
    def __init__(self, earliest: int = 0) -> None:
        self.earliest = earliest
        self.asked: list[set[Partition]] = []
        self.fails: BrokersFailed | None = None

    def opens(self) -> "Keeping":
        return self

    def kept(self, partitions: Collection[Partition], now: float) -> Kept:
        """Offset 100 was written six and a half days ago, later ones now."""
        self.asked.append(set(partitions))
        if self.fails is not None:
            raise self.fails
        retention = TopicRetention(7 * DAY, by_size=False, compacts=False)
        return Kept({"orders": retention}, {FIRST: self.earliest}, {FIRST: [(now - 6.5 * DAY, 100), (now, 200)]})

    def close(self) -> None:
        pass


class Run:
    def __init__(self, brokers: Keeping, *ids: int) -> None:
        self.clock = ManualClock()
        self.lanes = QueuedLanes(self.clock)
        self.alarms = Alarms("job", (), self.clock, AtOnce)
        self.home = Home(*ids)
        self.retained: list[Any] = [Checkpoint(id) for id in ids]
        self.watch = RetentionWatch(
            sources=(KafkaKept((KafkaInput("0", "a:1", "orders", (), True, brokers.opens),)),),
            store=self.home,  # type: ignore[arg-type]
            manifests=self.home,  # type: ignore[arg-type]
            alarms=self.alarms,
            clock=self.clock,
            lanes=self.lanes,  # type: ignore[arg-type]
            post=lambda work: work(),
        )

    def after(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        self.watch.poll(self.clock.monotonic(), lambda: self.retained)
        while self.lanes.waiting:
            self.lanes.waiting.popleft()()


def test_an_old_checkpoint_is_an_alarm_before_it_is_too_late_and_until_it_is_retired() -> None:
    brokers = Keeping()
    run = Run(brokers, 1, 2)
    run.after(FIRST_S)
    old, new = run.watch.latest
    now = run.clock.wall().timestamp()
    assert (old.until, new.until) == (now + 0.5 * DAY, now + 7 * DAY)
    alarm = run.alarms.active[EXPIRES]
    assert "checkpoint 1 can be gone back to only until about 2026-01-01 12:00 UTC" in alarm.message
    assert "orders[0]" in alarm.message
    del run.retained[0]
    run.after(LOOK_S)
    assert run.alarms.active == {}
    assert run.home.reads == 2, "each checkpoint is read once"


def test_what_is_gone_is_told_and_no_alarm_any_more() -> None:
    run = Run(Keeping(earliest=150), 1, 2)
    run.after(FIRST_S)
    assert [each.gone for each in run.watch.latest] == [True, False]
    assert run.alarms.active == {}


def test_brokers_are_asked_seldom_and_not_before_there_is_a_checkpoint() -> None:
    brokers = Keeping()
    run = Run(brokers)
    for _ in range(100):
        run.after(1.0)
    assert brokers.asked == []
    run.retained.append(Checkpoint(2))
    run.home._ids = (2,)
    for _ in range(3600):
        run.after(1.0)
    assert 6 <= len(brokers.asked) <= 7


def test_brokers_that_do_not_tell_leave_it_unknown() -> None:
    brokers = Keeping()
    run = Run(brokers, 1)
    run.after(FIRST_S)
    brokers.fails = BrokersFailed(Refused.NOT_ALLOWED_TOPIC, "not allowed")
    run.after(LOOK_S)
    assert run.watch.latest == ()


# --- status, checkpoints ---


def test_status_and_checkpoints_tell_until_when(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = History(tmp_path / "home")
    history.run()
    for id in (1, 2, 3):
        history.complete(id, batch=id)
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=5)
    told = (
        ReportedRestorable(id=1, until=until, gone=True),  # type: ignore[arg-type]
        ReportedRestorable(id=2, until=until),  # type: ignore[arg-type]
        ReportedRestorable(id=3),  # type: ignore[arg-type]
    )
    history.beat(report=SelfReport(restorable=told))
    place = ["--home", f"file://{history.home}", "--job", "orders"]
    assert main(["status", *place]) == 0
    said = capsys.readouterr().out
    assert "it no longer has what checkpoint 1 needs" in said
    assert "checkpoint 2 can be gone back to until about" in said
    assert main(["checkpoints", *place, "--json"]) == 0
    documents = {item["id"]: item for item in json.loads(capsys.readouterr().out)["checkpoints"]}
    assert [documents[id]["source_gone"] for id in (1, 2, 3)] == [True, False, False]
    assert datetime.fromisoformat(documents[2]["source_until"]) == until
    assert documents[3]["source_until"] is None
