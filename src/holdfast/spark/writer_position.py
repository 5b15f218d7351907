"""The newest batch of the user's own DataStreamWriter, read from what it writes to.

PySpark's writer does not expose its format and path; its private fields do. When they cannot be read, the position is
unknown, and the caller treats it like that of any unknown sink.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from holdfast.checkpoint.layout import newest_barrier
from holdfast.errors import InvalidSettings
from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.runtime.own_writer import NONE_YET, Taken
from holdfast.workdir.interface import WorkDirectory

FILE_FORMATS = ("parquet", "orc", "json", "csv", "text", "avro", "xml")
REPEATING = ("kafka", "console", "noop", "memory")
"""They accept every batch, seen or not. Spark's memory sink is empty in a new process."""

Position = Callable[[], int | None]


def taken_by(
    writer: DataStreamWriter, spark: SparkSession, directory: WorkDirectory, position: Position | None
) -> Taken:
    source = str(field_of(writer, "source") or "").lower()
    path = _path(writer)
    planned = newest_planned(directory)
    if position is not None:
        return Taken("the sink of the query's own writer", _asked(position), known=True, planned=planned)
    if source in REPEATING:
        return Taken(f"the {source} sink", None, known=True, planned=planned)
    if path is not None and (ask := _ASKED.get(source, _files if source in FILE_FORMATS else None)):
        try:
            newest = ask(spark, path, directory)
        except Exception as error:
            log.warning("could not read the newest batch of %s: %s", path, str(error).partition("\n")[0])
        else:
            name = "Spark's Delta sink" if source == "delta" else "Spark's file sink"
            return Taken(f"{name} at {path}", newest, known=True, always_skips=True, planned=planned)
    return Taken(f"the query's own writer ({source or 'of an unknown kind'})", None, known=False, planned=planned)


def newest_planned(directory: WorkDirectory) -> BatchId:
    """A planned batch may have been written, committed or not."""
    found = newest_barrier(directory.names("offsets"))
    return NONE_YET if found is None else found


def _asked(position: Position) -> BatchId | None:
    answer = position()
    if answer is not None and (not isinstance(answer, int) or isinstance(answer, bool)):
        raise InvalidSettings.of("sink_position", answer, "must return the newest batch id that the sink has, or None")
    return None if answer is None else BatchId(answer)


def _files(spark: SparkSession, path: str, directory: WorkDirectory) -> BatchId | None:
    """Spark's file sink accepts a batch that is newer than its metadata log."""
    jvm: Any = spark._jvm
    folder = jvm.org.apache.hadoop.fs.Path(path, "_spark_metadata")
    files = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(folder):
        return None
    names = [str(status.getPath().getName()) for status in files.listStatus(folder)]
    return newest_barrier(name.removesuffix(".compact") for name in names)


def _delta(spark: SparkSession, path: str, directory: WorkDirectory) -> BatchId | None:
    """Spark's Delta sink accepts a batch that is newer than the table's transaction version for the query id."""
    try:
        query = json.loads(directory.read("metadata").decode())["id"]
    except FileNotFoundError:
        return None  # a new query gets an id that no table has
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(path):
        return None
    version = DeltaTable(path).transaction_version(query)
    return None if version is None else BatchId(version)


_ASKED = {"delta": _delta}


def _path(writer: DataStreamWriter) -> str | None:
    with suppress(Exception):
        found = field_of(writer, "extraOptions").get("path")
        return str(found.get()) if found.isDefined() else None
    return None


def field_of(writer: DataStreamWriter, name: str) -> Any:
    """What the writer in the JVM has under that name, None when that cannot be read."""
    with suppress(Exception):
        fields = writer._jwrite.getClass().getDeclaredFields()
        field = next(field for field in fields if field.getName().lower() == name.lower())
        field.setAccessible(True)
        return field.get(writer._jwrite)
    return None
