"""Files that a query reads, or has read, through the same file systems as Spark's own sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession


def missing_files(spark: SparkSession, paths: Sequence[str]) -> tuple[str, ...]:
    """`paths` are URLs, as in the file source's log. Raises whatever the file system raises."""
    return tuple(path for path in paths if not _exists(spark, path))


def qualified(spark: SparkSession, path: str) -> str:
    """The URL of a path as a user gives it."""
    given: Any = spark._jvm.org.apache.hadoop.fs.Path(path)
    return str(given.getFileSystem(_conf(spark)).makeQualified(given).toUri().toString())


def modified_at(spark: SparkSession, path: str) -> float | None:
    """None when there is no such file."""
    file = _path(spark, path)
    system = file.getFileSystem(_conf(spark))
    return int(system.getFileStatus(file).getModificationTime()) / 1000 if system.exists(file) else None


def text_of(spark: SparkSession, path: str) -> str:
    jvm: Any = spark._jvm
    file = _path(spark, path)
    stream = file.getFileSystem(_conf(spark)).open(file)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def _exists(spark: SparkSession, path: str) -> bool:
    file = _path(spark, path)
    return bool(file.getFileSystem(_conf(spark)).exists(file))


def _path(spark: SparkSession, url: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(url))


def _conf(spark: SparkSession) -> Any:
    return spark._jsc.hadoopConfiguration()
