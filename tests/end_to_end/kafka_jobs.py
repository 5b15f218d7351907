"""A job that reads from a real broker, its topic, and what the broker's own tools show of it."""

import json
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from holdfast.repository.journal import read_entries
from holdfast.repository.ownership import read_heartbeat
from holdfast.repository.self_report import SelfReport
from holdfast.repository.state import JobState
from holdfast.sources.positions import Partition, Positions, positions_in
from holdfast.storage.urls import open_store
from tests.end_to_end.harness import Driver
from tests.patience import PATIENCE

PARTS = 2


class Topic:
    """With two partitions: a number is in number % 2."""

    def __init__(self, servers: str, name: str) -> None:
        self.name = name
        self._servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self.create()

    def create(self, partitions: int = PARTS) -> None:
        def created() -> bool:
            futures = self._admin.create_topics([NewTopic(self.name, partitions, 1)])
            return all(future.exception() is None for future in futures.values())

        until(created)

    def add_partition(self) -> None:
        for future in self._admin.create_partitions([NewPartitions(self.name, PARTS + 1)]).values():
            future.result()

    def delete(self) -> None:
        for future in self._admin.delete_topics([self.name]).values():
            future.result()
        until(lambda: self.name not in self._admin.list_topics(timeout=PATIENCE).topics)

    def send(self, numbers: Iterable[int]) -> None:
        self._produce(Producer({"bootstrap.servers": self._servers, "log_level": 0}), numbers)

    def send_committed(self, portion: int, numbers: Sequence[int]) -> None:
        """In a transaction that is open for a while, after one that ends in nothing with numbers that nobody sends."""
        producer = self._transactional()
        producer.begin_transaction()
        self._produce(producer, [-1 - portion * PARTS - part for part in range(PARTS)])
        producer.abort_transaction(PATIENCE)
        producer.begin_transaction()
        half = len(numbers) // 2
        self._produce(producer, numbers[:half])
        self._produce(producer, numbers[half:])
        producer.commit_transaction(PATIENCE)

    @cache  # noqa: B019
    def _transactional(self) -> Producer:
        named = {"bootstrap.servers": self._servers, "transactional.id": self.name, "log_level": 0}
        producer = Producer(named)
        producer.init_transactions(PATIENCE)
        return producer

    def _produce(self, producer: Producer, numbers: Iterable[int]) -> None:
        for number in numbers:
            producer.produce(self.name, str(number), partition=number % PARTS)
        assert producer.flush(PATIENCE) == 0

    def delete_all_records(self) -> None:
        """What retention does, without waiting for it."""
        ends = [TopicPartition(part.topic, part.number, at) for part, at in self.ends().items()]
        for future in self._admin.delete_records(ends).values():
            future.result()

    def ends(self) -> Positions:
        wanted = {TopicPartition(self.name, number): OffsetSpec.latest() for number in range(PARTS)}
        answers = self._admin.list_offsets(wanted).items()
        return {Partition(asked.topic, asked.partition): future.result().offset for asked, future in answers}

    def committed(self, group: str) -> Positions:
        """What `kafka-consumer-groups.sh --describe` shows."""
        # Not by AdminClient.list_consumer_group_offsets: that ends the process where no group has a coordinator yet.
        asking = Consumer({"bootstrap.servers": self._servers, "group.id": group, "log_level": 0})
        try:
            found = asking.committed([TopicPartition(self.name, number) for number in range(PARTS)], timeout=PATIENCE)
        except KafkaException:
            return {}
        finally:
            asking.close()
        return {Partition(part.topic, part.partition): part.offset for part in found if part.offset >= 0}


class Job:
    def __init__(self, root: Path, reader: Mapping[str, str], **options: Any) -> None:
        self.root = root
        self.home = f"file://{root / 'home'}"
        self._reader = reader
        self._options = options
        (root / "home").mkdir(parents=True)

    def start(self, *, reader: Mapping[str, str] | None = None, **options: Any) -> Driver:
        given = {
            "home": self.home,
            "work": str(self.root / "work"),
            "output": str(self.root / "output"),
            "reader": {**self._reader, **(reader or {})},
            "options": {**self._options, **options},
        }
        return Driver(given, self.log, program="tests.end_to_end.kafka_driver")

    def refused(self, **how: Any) -> str:
        """What a start said that was refused, before it claimed anything."""
        before = [path.name for path in (self.root / "home" / "records" / "journal").iterdir()]
        code, last = self.start(**how).end()
        assert (code, last[:8]) == (2, "error 2 "), f"exit {code}: {last}; see {self.log}"
        assert [path.name for path in (self.root / "home" / "records" / "journal").iterdir()] == before
        return last

    def stop(self, driver: Driver) -> None:
        driver.send(signal.SIGTERM)
        code, last = driver.end()
        assert code == 0, f"exit {code}: {last}; see {self.log}"

    @property
    def log(self) -> Path:
        return self.root / "driver.log"

    def state(self) -> JobState:
        return JobState.of(read_entries(open_store(self.home).scoped("records")))

    def reported(self) -> SelfReport:
        """With the newest heartbeat."""
        beat = read_heartbeat(open_store(self.home).scoped("records"))
        return beat.report if beat is not None and beat.report is not None else SelfReport()

    def newest_offsets(self) -> Positions:
        """Of the newest checkpoint; the job has stopped."""
        barrier = self.state().restorable()[0].barrier_batch_id
        (path,) = (self.root / "work" / "records").glob(f"[0-9]*/offsets/{barrier}")
        return positions_in(path.read_bytes(), "0")

    def visible(self) -> list[int]:
        tables = [pyarrow.parquet.read_table(path) for path in (self.root / "output").glob("*.parquet")]
        return sorted(row["number"] for table in tables for row in table.to_pylist())


def alarm_from(driver: Driver, code: str, change: str) -> tuple[str, str]:
    """Message and hint of the next such alarm."""
    while True:
        found, changed, message, hint = json.loads(driver.next_starting("alarm ").removeprefix("alarm "))
        if (found, changed) == (code, change):
            return message, hint


def until(holds: Callable[[], bool]) -> None:
    """Asks a server that tells nobody by itself."""
    limit = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < limit, "it never came to hold"
        time.sleep(0.1)
