"""R8, the other end: a source may forget only what a durable checkpoint holds. About 5 s beside the session."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, SimpleDataSourceStreamReader

import holdfast
from holdfast.errors import InvalidSettings
from holdfast.sinks import Files
from holdfast.spark.forgetting import require_keeping_sources


class Reading(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self) -> dict[str, int]:
        return {"at": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (1,)


class Acknowledging(Reading):
    def commit(self, end: dict[str, int]) -> None:
        """Tells the queue to forget."""


class SimplyAcknowledging(SimpleDataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def read(self, start: dict[str, int]) -> Any:
        return iter([(1,)]), {"at": 1}

    def commit(self, end: dict[str, int]) -> None: ...


def source_of(name: str, reader: Any) -> type[DataSource]:
    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return "a int"

        if issubclass(reader, DataSourceStreamReader):

            def streamReader(self, schema: Any) -> Any:
                return reader()

        else:

            def simpleStreamReader(self, schema: Any) -> Any:
                return reader()

    return Source


def stream(spark: SparkSession, name: str, reader: Any) -> DataFrame:
    spark.dataSource.register(source_of(name, reader))
    return spark.readStream.format(name).load()


@pytest.mark.parametrize("mode", ["delete", "ARCHIVE"])
def test_files_that_are_tidied_up_at_sparks_commit_are_refused_before_anything_is_touched(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    (tmp_path / "in").mkdir()

    def build(session: SparkSession) -> DataFrame:
        reader = session.readStream.format("text").option("cleanSource", mode)
        return reader.option("sourceArchiveDir", str(tmp_path / "archive")).load(str(tmp_path / "in"))

    (tmp_path / "home").mkdir()
    with pytest.raises(InvalidSettings, match=f"has cleanSource={mode.lower()}") as caught:
        holdfast.start(
            build,
            job="j",
            home=f"file://{tmp_path / 'home'}",
            sink=Files(tmp_path / "out"),
            spark=spark,
            work=tmp_path / "work",
        )
    assert "leave cleanSource out" in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "work").exists()


def test_a_python_source_that_acts_at_sparks_commit_is_refused(spark: SparkSession) -> None:
    for name, reader in (("acking", Acknowledging), ("acking_simply", SimplyAcknowledging)):
        with pytest.raises(InvalidSettings, match=f"{name}.*has a commit method"):
            require_keeping_sources(stream(spark, name, reader))


def test_sources_that_keep_pass_without_a_word(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        require_keeping_sources(stream(spark, "reading", Reading))
        require_keeping_sources(spark.readStream.format("rate").load())
        require_keeping_sources(spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load())
        require_keeping_sources(spark.readStream.format("text").option("cleanSource", "off").load(str(tmp_path)))
    assert caplog.messages == []


def test_a_socket_keeps_nothing(spark: SparkSession) -> None:
    rows = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", 9).load()
    with pytest.raises(InvalidSettings, match=r"socket.* keeps nothing to be read again"):
        require_keeping_sources(rows)
