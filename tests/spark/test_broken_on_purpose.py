"""Spark queries broken on purpose, diagnosed from the log that Spark wrote meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.examination import added_up
from holdfast.doctor.matching.scanning import scan
from holdfast.doctor.reading.inputs import pieces_of, resolve

PATTERN = "%d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex"


@contextmanager
def logged(spark: SparkSession, path: Path) -> Iterator[None]:
    """What Spark logs within the block goes to the file, too, in Spark's own layout."""
    log4j = spark._jvm.org.apache.logging.log4j
    context = log4j.LogManager.getContext(False)
    layout = log4j.core.layout.PatternLayout.newBuilder().withPattern(PATTERN).build()
    appender = (
        log4j.core.appender.FileAppender.newBuilder().withFileName(str(path)).setName(path.name).setLayout(layout)
    )
    root = context.getConfiguration().getRootLogger()
    started = appender.build()
    started.start()
    root.addAppender(started, None, None)
    try:
        yield
    finally:
        root.removeAppender(path.name)
        started.stop()


def first_finding(log: Path) -> str:
    readings = added_up(scan(piece, RULES) for piece in pieces_of(resolve([str(log)]).files))
    return diagnose(readings.sightings)[0].code


def counts(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load().groupBy("value").count()


def run(query: DataFrame, checkpoint: Path, until: int) -> None:
    """Batches up to `until`, or until it breaks."""

    def each(batch: DataFrame, number: int) -> None:
        batch.count()
        if number >= until:
            (checkpoint / "offsets" / str(number + 1)).write_text("of another deployment")

    writer = query.writeStream.outputMode("update").foreachBatch(each).option("checkpointLocation", str(checkpoint))
    writer.start().awaitTermination(120)


@pytest.mark.long
def test_two_deployments_over_one_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    with logged(spark, tmp_path / "driver.log"), pytest.raises(StreamingQueryException):
        run(counts(spark), tmp_path / "checkpoint", until=1)
    assert first_finding(tmp_path / "driver.log") == "concurrent-stream-log"


def test_corrupt_state(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(StreamingQueryException):
        run(counts(spark), checkpoint, until=1)
    (checkpoint / "offsets" / "2").unlink()
    for delta in checkpoint.glob("state/0/*/*.delta"):
        delta.write_bytes(delta.read_bytes()[:60])
    for checksum in checkpoint.glob("state/0/*/*.crc"):
        checksum.unlink()
    with logged(spark, tmp_path / "driver.log"), pytest.raises(StreamingQueryException):
        run(counts(spark), checkpoint, until=9)
    assert first_finding(tmp_path / "driver.log") == "state-unreadable"
