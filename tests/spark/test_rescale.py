"""Jobs that get another number of state partitions while they are stopped. About 30 s; all operators in `make long`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast.checkpoint.query_facts import SHUFFLE_PARTITIONS
from holdfast.checkpoint.spark_files import read_offsets
from holdfast.cli.main import main
from holdfast.repository.journal import read_entries
from holdfast.repository.state import JobState
from holdfast.sinks import Delta
from holdfast.storage.urls import open_store
from holdfast.workdir.barriers import newest_barrier
from holdfast.workdir.factory import work_directory
from holdfast.workdir.interface import WorkDirectory
from tests.end_to_end.operators import CASES, DELAY, SCHEMA, SECONDS, all_events, write_seconds
from tests.end_to_end.operators_driver import ONCE
from tests.end_to_end.test_operators import in_order, visible
from tests.spark.conftest import with_state_format

QUICK = ("windows",)


class Job:
    """One query of `operators`. Each life takes what is there, and ends."""

    def __init__(self, spark: SparkSession, root: Path, name: str, sink: Any = None) -> None:
        self._spark = spark
        self.root = root
        self.name = name
        self.case = CASES[name]
        self.output = root / "output"
        self.home = f"file://{root / 'home'}"
        self._sink = sink or (Delta(self.output) if self.case.columns else None)
        (root / "home").mkdir()
        write_seconds(root / "in", [])

    def put(self, *seconds: int) -> None:
        write_seconds(self.root / "in", seconds)

    def run(self, **options: Any) -> None:
        def build(spark: SparkSession) -> Any:
            built = self.case.build(lambda: self._read(spark), self.output)
            return built if self.case.columns else built.trigger(availableNow=True)

        given: dict[str, Any] = {
            "job": self.name,
            "home": self.home,
            "sink": self._sink,
            "spark": self._spark,
            "work": self.root / "work",
            "interval": "1h",
            "trigger": "once" if self.name in ONCE else "available-now",
        }
        holdfast.start(build, **{**given, **options}).await_termination()

    def _read(self, spark: SparkSession) -> DataFrame:
        events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2)
        return events.json(str(self.root / "in")).withWatermark("at", DELAY)

    def rescale(self, partitions: int, *more: str) -> int:
        return main(["rescale", self.name, "--home", self.home, "--partitions", str(partitions), *more])

    def state(self) -> JobState:
        return JobState.of(read_entries(open_store(self.home).scoped(self.name)))

    def directory(self) -> WorkDirectory:
        """Of the last run."""
        folder = work_directory(self.root / "work" / self.name)
        return folder.at(max(name for name in folder.folders() if not name.startswith(".")))

    def partitions(self) -> tuple[int, int]:
        """That the last batch was planned with, and that its first operator has."""
        directory = self.directory()
        conf = read_offsets(directory.read(f"offsets/{newest_barrier(directory)}")).conf
        return int(conf[SHUFFLE_PARTITIONS]), len([name for name in directory.names("state/0") if name.isdigit()])


@pytest.fixture
def four_partitions(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(SHUFFLE_PARTITIONS)
    spark.conf.set(SHUFFLE_PARTITIONS, "4")
    with_state_format(spark, "rocksdb-changelog")
    yield
    spark.conf.set(SHUFFLE_PARTITIONS, before or "2")


def _of(names: list[str]) -> list[Any]:
    return [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.long]) for name in names]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", _of([name for name in CASES if name != "stateless"]))
def test_the_output_is_exact_after_4_7_and_2_partitions(
    spark: SparkSession, four_partitions: None, tmp_path: Path, name: str
) -> None:
    job = Job(spark, tmp_path, name)
    job.put(0, 1, 2)
    job.run()
    assert job.partitions() == (4, 4)
    for partitions, seconds in ((7, (3, 4, 5)), (2, (6, 7, *range(SECONDS, SECONDS + 2)))):
        assert job.rescale(partitions) == 0
        job.put(*seconds)
        job.run()
        assert job.partitions() == (partitions, partitions)
    assert visible(job.output, job.case) == in_order(job.case.answer(all_events()))
