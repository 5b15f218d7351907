"""Checks whether files that a query has read still exist, through the same file systems as Spark's file source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession


def missing_files(spark: SparkSession, paths: Sequence[str]) -> tuple[str, ...]:
    """`paths` are URLs, as in the file source's log. Raises whatever the file system raises."""
    jvm: Any = spark._jvm
    conf = spark._jsc.hadoopConfiguration()
    return tuple(path for path in paths if not _exists(jvm, conf, path))


def _exists(jvm: Any, conf: Any, path: str) -> bool:
    file = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(path))
    return bool(file.getFileSystem(conf).exists(file))
