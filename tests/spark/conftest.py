"""One Spark session for all tests of this folder: starting one takes longer than most tests."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.checkpoint_files import SETTING as FILE_MANAGER
from tests.short_lived_jvm import USUAL_FILES
from tests.torture import TORTURE

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

STATE_FORMATS = {
    "hdfs": (HDFS, "false", "1"),
    "rocksdb": (ROCKSDB, "false", "1"),
    "rocksdb-changelog": (ROCKSDB, "true", "1"),
    "rocksdb-v2": (ROCKSDB, "true", "2"),
}
"""Name → state store provider, changelog checkpointing, version of the checkpoint format."""
WITH_USUAL_FILES = "rocksdb-changelog"
SHOWN_ELSEWHERE = ("rocksdb", "rocksdb-changelog")
"""By the drivers of tests/end_to_end, which have these formats: here in `make long`."""
HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, short_lived_jvms: None) -> Iterator[SparkSession]:
    """Two cores, two partitions, and state maintenance every second, so that files come and go while tests look on."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("holdfast tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.streaming.stateStore.maintenanceInterval", "1s")
        .config("spark.sql.streaming.stopTimeout", "60s")
        # What Spark remembers for its web page, which is off: little, so that what is kept by mistake shows.
        .config("spark.ui.retainedJobs", "5")
        .config("spark.ui.retainedStages", "5")
        .config("spark.ui.retainedTasks", "50")
        .config("spark.sql.ui.retainedExecutions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The same orders of the same steps are shown without Spark by tests/trust/test_sinks_interleavings.py."""
    for item in items:
        if "overtaken_anywhere" in item.name and item.path.parent == HERE:
            item.add_marker(pytest.mark.long)


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.long] if name in SHOWN_ELSEWHERE else []) for name in STATE_FORMATS]
)
def state_format(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Each of Spark's four state formats in turn, with a short memory: eight batches. One writes as usual."""
    with_state_format(spark, request.param)
    if TORTURE or request.param == WITH_USUAL_FILES:
        spark.conf.set(FILE_MANAGER, USUAL_FILES)
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "8")
    spark.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "4")
    yield request.param
    for name in _STATE_SETTINGS:
        spark.conf.unset(name)
    spark.conf.unset(FILE_MANAGER)
    spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    spark.conf.unset("spark.sql.streaming.stateStore.minDeltasForSnapshot")


_STATE_SETTINGS = (
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
    "spark.sql.streaming.stateStore.checkpointFormatVersion",
)


def with_state_format(spark: SparkSession, name: str) -> None:
    for setting, value in zip(_STATE_SETTINGS, STATE_FORMATS[name], strict=True):
        spark.conf.set(setting, value)
