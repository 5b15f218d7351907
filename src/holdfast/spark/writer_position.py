"""How far a DataStreamWriter of the user's own has come, asked of what it writes to.

Spark's writer does not tell what it is; its fields do. Where they cannot be read, the writer is one that cannot be
asked, and the caller is as careful as with any other unknown one.
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
"""They take every batch, seen or not. Spark's memory sink is empty in a new process."""

Position = Callable[[], int | None]


def taken_by(
    writer: DataStreamWriter, spark: SparkSession, directory: WorkDirectory, position: Position | None
) -> Taken:
    source = str(_field(writer, "source") or "").lower()
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
            log.warning("%s could not be asked how far it is: %s", path, str(error).partition("\n")[0])
        else:
            name = "Spark's Delta sink" if source == "delta" else "Spark's file sink"
            return Taken(f"{name} at {path}", newest, known=True, always_skips=True, planned=planned)
    return Taken(f"the query's own writer ({source or 'of an unknown kind'})", None, known=False, planned=planned)


def newest_planned(directory: WorkDirectory) -> BatchId:
    """A batch that was planned may have been written, committed or not."""
    found = newest_barrier(directory.names("offsets"))
    return NONE_YET if found is None else found


def _asked(position: Position) -> BatchId | None:
    answer = position()
    if answer is not None and (not isinstance(answer, int) or isinstance(answer, bool)):
        raise InvalidSettings.of("sink_position", answer, "must return the newest batch id that the sink has, or None")
    return None if answer is None else BatchId(answer)


def _files(spark: SparkSession, path: str, directory: WorkDirectory) -> BatchId | None:
    """Spark's file sink takes a batch when its log of batches ends before it."""
    jvm: Any = spark._jvm
    folder = jvm.org.apache.hadoop.fs.Path(path, "_spark_metadata")
    files = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(folder):
        return None
    names = [str(status.getPath().getName()) for status in files.listStatus(folder)]
    return newest_barrier(name.removesuffix(".compact") for name in names)


def _delta(spark: SparkSession, path: str, directory: WorkDirectory) -> BatchId | None:
    """Spark's Delta sink takes a batch when the table's transaction of the query's id is older."""
    try:
        query = json.loads(directory.read("metadata").decode())["id"]
    except FileNotFoundError:
        return None  # a query that begins gets an id that no table knows
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(path):
        return None
    version = DeltaTable(path).transaction_version(query)
    return None if version is None else BatchId(version)


_ASKED = {"delta": _delta}


def _path(writer: DataStreamWriter) -> str | None:
    with suppress(Exception):
        found = _field(writer, "extraOptions").get("path")
        return str(found.get()) if found.isDefined() else None
    return None


def _field(writer: DataStreamWriter, name: str) -> Any:
    with suppress(Exception):
        fields = writer._jwrite.getClass().getDeclaredFields()
        field = next(field for field in fields if field.getName().lower() == name.lower())
        field.setAccessible(True)
        return field.get(writer._jwrite)
    return None
