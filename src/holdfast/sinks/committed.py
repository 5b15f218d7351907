"""Writes a batch as Parquet and takes the list of files from the committed tasks, not from a listing.

Spark's own file sink works like that: each task that commits reports the files that it wrote, and the driver writes all
reports to `_spark_metadata` once every task has committed. A repeated, late or aborted task writes under its own names
and is never in the reports. The batch is written through that sink into its own directory, as batch 0.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ANSWERS = "_spark_metadata"
_ROWS = "holdfast rows"
_SINKS = (
    "org.apache.spark.sql.execution.streaming.sinks.FileStreamSink",  # Spark 4.1 and newer
    "org.apache.spark.sql.execution.streaming.FileStreamSink",
)
_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
_SETTINGS = {
    # Spark's default is INT96, which has no statistics and which other readers no longer read as a timestamp.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.commitProtocolClass": ("org.apache.spark.sql.execution.streaming.ManifestFileCommitProtocol"),
    "spark.sql.streaming.fileSink.log.compactInterval": "10",
}


@dataclass(frozen=True)
class Written:
    """What Spark reports about a batch that it has written."""

    rows: int
    """Counted in the writing tasks: a repeated or speculative task counts once."""
    files: dict[Path, int]
    """Those of the committed tasks, with their sizes."""


def write_parquet(batch: DataFrame, directory: Path, partition_by: tuple[str, ...] = ()) -> Written:
    """Write all rows of `batch` below `directory`, which must not exist yet."""
    from pyspark.sql import functions as spark_functions

    counted = batch.observe(_ROWS, spark_functions.count(spark_functions.lit(1)).alias(_ROWS))
    frame: Any = counted._jdf
    with _settings(batch.sparkSession):
        _file_sink(batch.sparkSession, directory, partition_by).addBatch(0, frame)
    rows = frame.queryExecution().observedMetrics().get(_ROWS)
    # Spark counts nothing if it knows in advance that there is no row.
    return Written(rows.get().getLong(0) if rows.isDefined() else 0, _answers(directory))


def _file_sink(spark: SparkSession, directory: Path, partition_by: tuple[str, ...]) -> Any:
    from py4j.java_gateway import JavaClass

    jvm: Any = spark._jvm
    make = next(found for name in _SINKS if isinstance(found := getattr(jvm, name), JavaClass))
    columns, options = jvm.PythonUtils.toSeq(list(partition_by)), jvm.PythonUtils.toScalaMap({})
    # A plain path would go to Hadoop's default file system.
    return make(spark._jsparkSession, f"file://{directory}", getattr(jvm, _PARQUET)(), columns, options)


class _Answer(msgspec.Struct):
    path: str
    size: int


# Created at import: msgspec crashes the process when threads create the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(_Answer)


def _answers(directory: Path) -> dict[Path, int]:
    """The files of the committed tasks, with their sizes. Deletes the reports."""
    try:
        lines = (directory / _ANSWERS / "0").read_bytes().splitlines()[1:]
        answers = [_DECODER.decode(line) for line in lines]
        files = {_named(directory, answer.path): answer.size for answer in answers}
    except (OSError, ValueError) as error:
        raise HoldfastError(
            f"could not stage {directory}: could not read which files the write tasks committed: {error}",
            hint="do not delete or add files there",
        ) from error
    shutil.rmtree(directory / _ANSWERS, ignore_errors=True)
    return files


def _named(directory: Path, url: str) -> Path:
    """Hadoop has resolved `..` in the path."""
    return directory / Path(unquote(urlsplit(url).path)).relative_to(os.path.normpath(directory))


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """Inside foreachBatch the session is the query's own copy, so the change affects no other query."""
    before = {name: str(spark.conf.get(name)) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
