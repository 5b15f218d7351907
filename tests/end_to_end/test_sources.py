"""Kafka, Delta and the rate source: run, checkpoint, kill -9, wipe, restore to another place: every row, once.

The file source, with its compacted log, is what `test_operators` reads from. In CI it is the rate source alone: a
broker takes three quarters of a minute, and Delta's connector needs an older Spark. `make torture` has all.
"""

import json
import shutil
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from holdfast.checkpoint.query_facts import Source
from holdfast.identifiers import BatchId
from holdfast.repository.journal import read_entries
from holdfast.repository.state import JobState
from holdfast.storage.urls import open_store
from holdfast.workdir.barriers import newest_barrier
from holdfast.workdir.factory import work_directory
from holdfast.workdir.query_record import held_facts
from tests.compat.environments import interpreter_of
from tests.end_to_end.connectors import DELTA_SPARK, kafka_broker
from tests.end_to_end.harness import TORTURE, WARM_JVM, Driver
from tests.end_to_end.sources_driver import FIRST, PARTS, RATE, SECOND, THIRD, WINDOW
from tests.patience import PATIENCE

JOBS = ("kafka", "rate", "forgotten") if TORTURE else ("rate",)


class Story:
    """Two lives of a process with a job per source, and what they left."""

    def __init__(self, root: Path, jobs: Sequence[str], servers: str = "", **how: Any) -> None:
        self.root = root
        self.servers = servers
        self._given = {"root": str(root), "servers": servers, "jobs": jobs}
        self._how = how
        (root / "home").mkdir()
        first = self._life("work", finish=False)
        try:
            self.lag = json.loads(first.next_starting("lag ").removeprefix("lag "))
        finally:
            first.kill()
        self.killed_at = {job: self._barrier(job) for job in jobs}
        self.recorded = {
            job: held_facts(work_directory(self._directory(job)), self.killed_at[job]).sources for job in jobs
        }
        shutil.rmtree(root / "work")

        second = self._life("elsewhere", finish=True)
        self.errors = [line for line in second.lines() if line.startswith("error ")]
        code = second.process.wait(PATIENCE)
        assert code == 0, f"exit {code}: see {root / 'driver.log'}"

    def _life(self, work: str, *, finish: bool) -> Driver:
        given = {**self._given, "work": str(self.root / work), "finish": finish}
        return Driver(given, self.root / "driver.log", program="tests.end_to_end.sources_driver", **self._how)

    def _directory(self, job: str) -> Path:
        (directory,) = (self.root / "work" / job).glob("[0-9]*-1")
        return directory

    def _barrier(self, job: str) -> BatchId:
        barrier = newest_barrier(work_directory(self._directory(job)))
        assert barrier is not None
        return barrier

    def state(self, job: str) -> JobState:
        return JobState.of(read_entries(open_store(f"file://{self.root / 'home'}").scoped(job)))

    def visible(self, job: str) -> list[dict[str, Any]]:
        """What a reader of the sink sees."""
        tables = [pyarrow.parquet.read_table(path) for path in (self.root / "output" / job).glob("*.parquet")]
        return [row for table in tables for row in table.to_pylist()]

    def require_restored(self, job: str) -> None:
        """The second life began at a checkpoint that the first had gone beyond."""
        first, *_ = (entry for _, entry in sorted(self.state(job).completed.items()))
        assert first.barrier_batch_id < self.killed_at[job]

    def require_exact_sums(self, job: str) -> None:
        found = sorted((row["part"], row["start"], row["n"], row["total"]) for row in self.visible(job))
        assert found == expected_sums()


def expected_sums() -> list[tuple[int, int, int, int]]:
    windows: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number in (*FIRST, *SECOND, *THIRD):
        windows[number % PARTS, number // WINDOW * WINDOW].append(number)
    return sorted((part, start, len(numbers), sum(numbers)) for (part, start), numbers in windows.items())


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    root = tmp_path_factory.mktemp("sources")
    if not TORTURE:
        return Story(root, JOBS, jvm=WARM_JVM)
    with kafka_broker(root / "kafka") as servers:
        return Story(root, JOBS, servers)


@pytest.mark.parametrize("job", JOBS)
def test_the_second_life_began_at_a_checkpoint_that_the_first_had_gone_beyond(story: Story, job: str) -> None:
    story.require_restored(job)


def test_the_rate_source_goes_on_where_and_when_it_was(story: Story) -> None:
    rows = sorted(story.visible("rate"), key=lambda row: row["value"])
    assert len(rows) > RATE
    assert [row["value"] for row in rows] == list(range(len(rows)))
    began = rows[0]["timestamp"]
    assert [row["timestamp"] for row in rows] == [began + timedelta(seconds=n) / RATE for n in range(len(rows))]
    assert story.recorded["rate"] == (Source("rate"),)


if TORTURE:

    def test_every_record_of_every_partition_of_a_topic_counts_once(story: Story) -> None:
        story.require_exact_sums("kafka")
        assert not story.state("kafka").restarts

    def test_a_topic_is_known_by_name_and_servers_before_the_start(story: Story) -> None:
        """So that a query that reads elsewhere is refused instead of skipping what it has not read."""
        assert story.recorded["kafka"] == (Source("kafka", "numbers", servers=story.servers),)

    def test_how_far_kafka_is_ahead_is_known_to_spark_and_to_no_consumer_group(story: Story) -> None:
        assert {"minOffsetsBehindLatest", "maxOffsetsBehindLatest"} <= story.lag["kafka"].keys()
        topics = {path.name.rpartition("-")[0] for path in (story.root / "kafka" / "logs").glob("*-[0-9]")}
        assert "numbers" in topics
        assert "__consumer_offsets" not in topics, "somebody has committed offsets"

    def test_records_that_are_deleted_before_they_were_read_end_the_job_and_the_message_says_so(story: Story) -> None:
        (error,) = story.errors
        assert error.startswith("error forgotten 1 "), error
        assert "forgotten-" in error, error
        assert "failOnDataLoss" in error, error
        restarts = story.state("forgotten").restarts
        assert {restart.cause for restart in restarts} == {"source"}
        assert len(restarts) == 2, "restarts do not bring records back"

    def test_who_gives_those_records_up_goes_on_with_what_is_left(story: Story) -> None:
        found = [row["number"] for row in story.visible("forgotten")]
        assert len(found) == len(set(found))
        assert set(THIRD) <= set(found)
        assert not set(SECOND) <= set(found)

    def test_every_row_of_a_delta_table_counts_once(tmp_path: Path) -> None:
        story = Story(tmp_path, ["delta"], python=interpreter_of(DELTA_SPARK))
        story.require_restored("delta")
        story.require_exact_sums("delta")
        assert story.recorded["delta"] == (Source("delta", str(tmp_path / "table")),)
