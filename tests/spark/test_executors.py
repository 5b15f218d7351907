"""Copy tasks on real Spark: they copy, they are cancelled, and what goes wrong is told in one line."""

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.checkpoint.layout import ShardPlan
from holdfast.identifiers import JobName
from holdfast.repository.blobs import Blobs
from holdfast.repository.journal import entry_key
from holdfast.snapshot.carrier import Cancelled, copy_shards
from holdfast.snapshot.copy_task import CopyReport, CopyTask, WorkerUnavailable
from holdfast.snapshot.remote_copier import HomeOfCopies, RemoteCopier
from holdfast.spark.executors import POOL, Executors
from holdfast.spark.visiting import visit_executors
from holdfast.workdir.factory import work_directory
from tests.patience import PATIENCE
from tests.unit.work_files import EPOCH, MIB, RecordingStore, new_store, shards, write


class Recording(Executors):
    """Remembers what was sent and answered."""

    copy_task: CopyTask
    report: CopyReport

    def send(self, copy_task: CopyTask, cancelled: Any) -> CopyReport:
        self.copy_task = copy_task
        self.report = super().send(copy_task, cancelled)
        return self.report


@pytest.fixture
def executors(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Recording]:
    yield Recording(spark, JobName(request.node.name), most=4, slots=2)
    # Executors expect to be called in threads of their own.
    for name in ("spark.scheduler.pool", "spark.jobGroup.id", "spark.job.description"):
        spark.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> RecordingStore:
    (tmp_path / "home").mkdir()
    store = new_store(tmp_path / "home" / "orders")
    store.create(entry_key(EPOCH), b"claim")
    return store


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write(tmp_path / "work", {"a/small": b"one", "a/large": os.urandom(MIB), "b/small": b"two"})
    return tmp_path / "work"


def carrier_of(executors: Executors, store: RecordingStore, bandwidth: float | None = None) -> RemoteCopier:
    home = HomeOfCopies(store.url.removesuffix("/orders"), "orders", store, 1.0, bandwidth)
    return RemoteCopier(executors, home, worthwhile=0)


def states_of(spark: SparkSession, job: str) -> list[str]:
    tracker = spark.sparkContext.statusTracker()
    infos = [tracker.getJobInfo(id) for id in tracker.getJobIdsForGroup(f"holdfast: {job}")]
    return [info.status for info in infos if info is not None]


def test_a_task_copies_as_the_driver_does(
    spark: SparkSession, executors: Recording, store: RecordingStore, work: Path, tmp_path: Path
) -> None:
    blobs = Blobs(store, EPOCH)
    copies = carrier_of(executors, store)(work_directory(work), shards(work), blobs, lambda: False)
    assert executors.report.pid != os.getpid()
    assert store.uploaded == []
    here = copy_shards(work_directory(work), shards(work), Blobs(new_store(tmp_path / "other"), EPOCH), lambda: False)
    assert copies == tuple(replace(copy, host=socket.gethostname()) for copy in here)
    assert states_of(spark, executors._job) == ["SUCCEEDED"]
    assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") == POOL


def test_a_copy_that_is_not_wanted_any_more_ends(
    spark: SparkSession, executors: Recording, store: RecordingStore, work: Path
) -> None:
    def uploading() -> bool:
        return any(store.temporaries())

    with pytest.raises(Cancelled):
        carrier_of(executors, store, bandwidth=1000.0)(
            work_directory(work), shards(work), Blobs(store, EPOCH), uploading
        )
    deadline = time.monotonic() + PATIENCE
    while states_of(spark, executors._job) != ["FAILED"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert states_of(spark, executors._job) == ["FAILED"]
    assert not [*store.list("packs/"), *store.list("blobs/")]


def test_a_task_that_breaks_is_told_in_one_line(executors: Recording, store: RecordingStore, work: Path) -> None:
    carrier_of(executors, store)(work_directory(work), shards(work), Blobs(store, EPOCH), lambda: False)
    broken: tuple[ShardPlan, ...] = (None,)  # type: ignore[assignment]
    with pytest.raises(
        WorkerUnavailable, match=r"^Spark could not run the task: AttributeError: 'NoneType' object has no attr"
    ):
        executors.send(replace(executors.copy_task, shards=broken), lambda: False)


def test_where_there_are_few_slots_no_task_is_sent(
    spark: SparkSession, store: RecordingStore, work: Path, caplog: pytest.LogCaptureFixture
) -> None:
    few = Executors(spark, JobName("few"), most=4, slots=3)
    assert (few.slots(), few.at_once()) == (2, 1)
    copies = carrier_of(few, store)(work_directory(work), shards(work), Blobs(store, EPOCH), lambda: False)
    assert len(store.uploaded) == sum(copy.objects_written for copy in copies) == 2
    assert states_of(spark, "few") == []
    assert "the executors have 2 task slots" in caplog.messages[-1]


def test_a_visit_finds_the_work_directory_and_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    visits = visit_executors(spark, work_directory(tmp_path / "work"))
    assert {(visit.unseen, visit.unable) for visit in visits} == {(None, None)}
    assert not (tmp_path / "work").exists()
