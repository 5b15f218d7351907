"""Many failures and restarts of one query within one process: nothing that a life held is left behind."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast.sinks import Files
from tests.patience import PATIENCE
from tests.spark.conftest import with_state_format
from tests.spark.footprint import Footprint, footprint

RESTARTS = int(os.environ.get("HOLDFAST_RESTARTS", "12"))
PARTITIONS = int(os.environ.get("HOLDFAST_RESTART_PARTITIONS", "5"))
WARM = RESTARTS // 3
"""Restarts after which everything that is made once has been made."""
MIB = 2**20
UNSTEADY = 16
"""So many MiB a heap goes up and down by itself, above all that of a JVM which other tests have used."""


class Feed:
    """Input of one row per file. The first attempt at each of them kills the query. The state is that of `WARM` keys,
    so that what grows after these is no state."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.source, self.tried = root / "in", root / "tried"
        self.source.mkdir()
        self.tried.mkdir()

    def put(self, number: int) -> None:
        part = self._root / "part.json"
        part.write_text(f'{{"life": {number}, "key": {number % WARM}}}\n')
        part.rename(self.source / f"{number}.json")

    def query(self, spark: SparkSession) -> DataFrame:
        tried = str(self.tried)

        @F.udf("long", useArrow=False)
        def dying_once(life: int, key: int) -> int:
            try:
                os.close(os.open(f"{tried}/{life}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return key
            raise ValueError(f"a poisonous row: {life}")

        rows = spark.readStream.schema("life LONG, key LONG").option("maxFilesPerTrigger", 1).json(str(self.source))
        return rows.select(dying_once("life", "key").alias("key")).dropDuplicates(["key"])


def until_none(left: Callable[[], object], pause: float = 0.02) -> None:
    deadline = time.monotonic() + PATIENCE
    while found := left():
        assert time.monotonic() < deadline, f"still there after {PATIENCE:g} s: {found}"
        time.sleep(pause)


def settled(held: Callable[[], Footprint]) -> Footprint:
    """When Spark's maintenance of state, once a second, has let go of the stores of queries that died."""
    lowest = held()
    for _ in range(3):
        time.sleep(1.0)
        now = held()
        lowest = now if now.jvm_files < lowest.jvm_files else lowest
    return lowest


@pytest.mark.long
@pytest.mark.timeout(1200 + 120 * RESTARTS)
def test_nothing_is_left_behind(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    with_state_format(session, "rocksdb-changelog")
    session.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    feed = Feed(tmp_path)
    (tmp_path / "home").mkdir()
    threads = {thread.name for thread in threading.enumerate()}
    running = holdfast.start(
        feed.query,
        job="restarts",
        home=f"file://{tmp_path / 'home'}",
        sink=Files(str(tmp_path / "out")),
        spark=session,
        work=tmp_path / "work",
        interval="500ms",
        retained=2,
        restart_delay="10ms",
    )

    def held() -> Footprint:
        return footprint(spark, tmp_path / "work" / "restarts")

    def live_through(number: int) -> None:
        feed.put(number)
        until_none(lambda: f"batch {number}" if running.status().barrier != number else None)

    for number in range(WARM):
        live_through(number)
    warm = settled(held)
    for number in range(WARM, RESTARTS):
        live_through(number)
    assert running.status().restarts == RESTARTS
    few = (RESTARTS - WARM) // 2
    allowed = {
        **dict.fromkeys(("python_files", "python_threads", "jvm_files", "jvm_threads", "processes"), few),
        **dict.fromkeys(("python_memory", "jvm_heap"), max(few, UNSTEADY) * MIB),
        **dict.fromkeys(("ports", "directories"), 0),
    }
    until_none(lambda: held().beyond(warm, allowed), pause=1.0)

    running.stop()
    until_none(lambda: _ours() - threads)
    tables = [parquet.read_table(path) for path in (tmp_path / "out").glob("*.parquet")]
    assert sorted(key for table in tables for key in table.column("key").to_pylist()) == list(range(WARM))


def _ours() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("holdfast")}
