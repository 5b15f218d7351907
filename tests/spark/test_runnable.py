"""What Spark would refuse is refused before anything is touched."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StatefulProcessor

import holdfast
from holdfast.checkpoint.query_facts import PROVIDER
from holdfast.errors import InvalidSettings
from holdfast.sinks import Files
from holdfast.spark.runnable import require_runnable
from tests.spark.conftest import HDFS, ROCKSDB


class Nothing(StatefulProcessor):
    def init(self, handle: Any) -> None: ...

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        yield from ()

    def close(self) -> None: ...


def events(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load()


def counted(spark: SparkSession) -> DataFrame:
    return events(spark).groupBy("value").count()


def processed(spark: SparkSession) -> DataFrame:
    return events(spark).groupBy("value").transformWithState(Nothing(), "n LONG", "append", "None")


def joined_outer(spark: SparkSession) -> DataFrame:
    return events(spark).join(events(spark), "value", "left_outer")


@pytest.fixture
def provider(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    yield lambda name: spark.conf.set(PROVIDER, name)
    spark.conf.unset(PROVIDER)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (counted, ("append", "watermark")),
        (joined_outer, ("append", "watermark")),
        (processed, ("transformWithState", HDFS.rpartition(".")[2], f"{PROVIDER}={ROCKSDB}")),
    ],
)
def test_nothing_is_touched(
    spark: SparkSession,
    provider: Callable[[str], None],
    tmp_path: Path,
    build: Callable[[SparkSession], DataFrame],
    words: tuple[str, ...],
) -> None:
    provider(HDFS)
    home = tmp_path / "home"
    home.mkdir()
    with pytest.raises(InvalidSettings) as refused:
        holdfast.start(
            build, job="j", home=f"file://{home}", sink=Files(tmp_path / "out"), spark=spark, work=tmp_path / "work"
        )
    for word in words:
        assert word in str(refused.value)
    assert len(str(refused.value).splitlines()) == 2, "what and why, then what to try"
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert not any(home.iterdir())


def test_the_provider_that_counts_is_the_one_that_spark_will_take(
    spark: SparkSession, provider: Callable[[str], None]
) -> None:
    provider(ROCKSDB)
    require_runnable(processed(spark), "append", begins=True)
    provider(HDFS)
    require_runnable(processed(spark), "append", begins=False)


def test_the_mode_of_a_writer_of_the_users_own_counts(spark: SparkSession) -> None:
    require_runnable(counted(spark).writeStream.outputMode("complete"), "append", begins=True)
    with pytest.raises(InvalidSettings, match="complete"):
        require_runnable(events(spark).writeStream.outputMode("complete"), "append", begins=True)


@pytest.mark.parametrize(
    ("options", "trigger", "words"),
    [
        ({}, {"continuous": "1 second"}, "runs continuously"),
        ({"asyncProgressTrackingEnabled": "true"}, {"processingTime": "1 second"}, "asynchronous progress tracking"),
    ],
)
def test_a_query_without_barriers_is_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], trigger: dict[str, str], words: str
) -> None:
    writer = events(spark).writeStream.format("noop").options(**options).trigger(**trigger)
    (home := tmp_path / "home").mkdir()
    with pytest.raises(InvalidSettings, match=words):
        holdfast.start(writer, job="j", home=f"file://{home}", spark=spark, work=tmp_path / "work")
    assert not spark.streams.active


def test_who_tells_spark_not_to_check_is_not_checked(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")
    try:
        require_runnable(counted(spark), "append", begins=True)
    finally:
        spark.conf.unset("spark.sql.streaming.unsupportedOperationCheck")
