"""Writes a batch as Parquet and takes the list of files from the committed tasks, not from a listing.

Spark's own file sink works like that: each task that commits reports the files that it wrote, and the driver writes all
reports to `_spark_metadata` once every task has committed. A repeated, late or aborted task writes under its own names
and is never in the reports. The batch is written through that sink into its own directory, as batch 0.
"""

from __future__ import annotations

import functools
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
    spark = batch.sparkSession
    made = _made_once(spark._jvm, partition_by)
    frame: Any = batch._jdf.observe(_ROWS, made.count, made.nothing)
    with _settings(spark):
        # A plain path would go to Hadoop's default file system.
        sink = made.sink(spark._jsparkSession, f"file://{directory}", made.parquet, made.columns, made.options)
        sink.addBatch(0, frame)
    rows = frame.queryExecution().observedMetrics().get(_ROWS)
    # Spark counts nothing if it knows in advance that there is no row.
    return Written(rows.get().getLong(0) if rows.isDefined() else 0, _answers(directory))


@dataclass(frozen=True)
class _MadeOnce:
    """What each batch needs of the JVM, and is the same for all: every call into the JVM delays the batch."""

    sink: Any
    """The class."""
    parquet: Any
    columns: Any
    options: Any
    count: Any
    nothing: Any
    """No further column."""


@functools.lru_cache(maxsize=16)
def _made_once(jvm: Any, partition_by: tuple[str, ...]) -> _MadeOnce:
    from py4j.java_gateway import JavaClass
    from pyspark.sql import functions as spark_functions

    count: Any = spark_functions.count(spark_functions.lit(1)).alias(_ROWS)
    return _MadeOnce(
        sink=next(found for name in _SINKS if isinstance(found := getattr(jvm, name), JavaClass)),
        parquet=getattr(jvm, _PARQUET)(),
        columns=jvm.PythonUtils.toSeq(list(partition_by)),
        options=jvm.PythonUtils.toScalaMap({}),
        count=count._jc,
        nothing=jvm.PythonUtils.toSeq([]),
    )


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
    conf = spark.conf
    others = {name: found for name, value in _SETTINGS.items() if (found := str(conf.get(name))) != value}
    for name in others:
        conf.set(name, _SETTINGS[name])
    try:
        yield
    finally:
        for name, value in others.items():
            conf.set(name, value)
