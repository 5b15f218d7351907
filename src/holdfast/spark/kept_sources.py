"""The files and the Delta tables that a query reads, as sources that can be asked how long they keep things."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.job_log import log
from holdfast.sources.delta_kept import DeltaKept
from holdfast.sources.files_kept import FilesKept, Logs
from holdfast.sources.restorable import KeptSource
from holdfast.spark.input_files import missing_files, modified_at, qualified, text_of
from holdfast.spark.planning import sequence
from holdfast.spark.query_facts import given_name, options_of


def kept_places(frame: DataFrame, logs: Callable[[], Logs | None]) -> tuple[KeptSource, ...]:
    """`logs`: the checkpoint directory of the query that runs. None of a version of Spark that hides its plan."""
    try:
        leaves = sequence(frame._jdf.queryExecution().analyzed().collectLeaves())
        streams = [leaf for leaf in leaves if leaf.isStreaming()]
        return tuple(
            each for place, leaf in enumerate(streams) for each in _kept(frame.sparkSession, place, leaf, logs)
        )
    except Exception as error:
        log.debug("could not look for files and tables that the query reads: %s", type(error).__name__)
        return ()


def _kept(spark: SparkSession, place: int, leaf: Any, logs: Callable[[], Logs | None]) -> Iterator[KeptSource]:
    kind, name = str(leaf.sourceName()), given_name(leaf) or str(place)
    if kind.startswith("FileSource["):
        yield FilesKept(name, logs, partial(missing_files, spark))
    elif kind.lower() == "delta":
        options = {key.lower(): value for key, value in options_of(leaf).items()}
        if "path" in options:
            yield DeltaKept(name, _DeltaFiles(spark, options["path"]))


class _DeltaFiles:
    def __init__(self, spark: SparkSession, path: str) -> None:
        self.name = f"the Delta table {path}"
        self._spark = spark
        self._path = path

    def properties(self) -> Mapping[str, str]:
        (row,) = self._spark.sql(f"DESCRIBE DETAIL delta.`{self._path}`").select("properties").collect()
        return dict(row.properties or {})

    def modified(self, path: str) -> float | None:
        return modified_at(self._spark, self._url(path))

    def text(self, path: str) -> str:
        return text_of(self._spark, self._url(path))

    def missing(self, paths: Sequence[str]) -> Sequence[str]:
        return [path for path in paths if missing_files(self._spark, [self._url(path)])]

    def _url(self, path: str) -> str:
        """Of a file of another table, which a clone may have, the log has the whole URL."""
        return path if "://" in path else f"{qualified(self._spark, self._path)}/{path}"
