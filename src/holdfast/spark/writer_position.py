"""The newest batch of the user's own DataStreamWriter, read from what it writes to.

PySpark's writer does not expose its format and path; its private fields do. When they cannot be read, the position is
unknown, and the caller treats it like that of any unknown sink.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from holdfast.checkpoint.layout import newest_barrier
from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.plans.query_id import query_id
from holdfast.runtime.own_writer import NONE_YET, Taken
from holdfast.spark.delta_table import DeltaTable
from holdfast.spark.iceberg_table import IcebergTable
from holdfast.spark.sink_position import SinkPosition
from holdfast.workdir.interface import WorkDirectory

FILE_FORMATS = ("parquet", "orc", "json", "csv", "text", "avro", "xml")
REPEATING = ("kafka", "console", "noop", "memory")
"""They accept every batch, seen or not. Spark's memory sink is empty in a new process."""


def taken_by(
    writer: DataStreamWriter,
    spark: SparkSession,
    directory: WorkDirectory,
    position: SinkPosition | None,
    *,
    new_line: bool = False,
) -> Taken:
    """`directory` is the one that the query resumes in: it has the query's id, once there was a batch. `new_line`: its
    batches are cut anew behind the newest one there, under another id of the query where the sink knows ids."""
    source = str(field_of(writer, "source") or "").lower()
    planned = newest_planned(directory)
    if position is not None:
        name, newest = "the sink of the query's own writer", position.newest()
        return Taken(name, newest, known=True, earlier="reported", planned=planned)
    if source in REPEATING:
        return Taken(f"the {source} sink", None, known=True, planned=planned)
    if (sink := _sink(writer, spark, source)) is not None:
        try:
            return taken_from(sink, directory, new_line=new_line)
        except Exception as error:
            log.warning("could not read the newest batch of %s: %s", sink.name, str(error).partition("\n")[0])
    return Taken(f"the query's own writer ({source or 'of an unknown kind'})", None, known=False, planned=planned)


def taken_from(sink: OwnSink, directory: WorkDirectory, *, new_line: bool) -> Taken:
    """Raises what the sink's library raises."""
    query, planned = _id_in(directory), newest_planned(directory)
    if new_line and query is not None and not isinstance(sink, FileSink):
        return _to_take_back(sink, query, planned)
    newest = sink.newest_of(query)
    # Spark's file sink has an entry for each batch, also for one without rows.
    earlier: Literal["reported", "all"] = "all" if isinstance(sink, FileSink) else "reported"
    has = Taken(sink.name, newest, known=True, always_skips=True, earlier=earlier, planned=planned)
    return replace(has, restored_to=_restored(sink, query, newest))


def _to_take_back(table: DeltaTable | IcebergTable, query: str, planned: BatchId) -> Taken:
    found = table.shown(query, planned)
    if found.beyond is None:
        has = Taken(table.name, None, known=True, earlier="reported", planned=planned)
        return replace(has, shows=found.upto, shows_another_line=found.of_another_line)
    last_good = found.beyond.last_good
    command = "" if last_good is None else table.take_back(last_good)
    return Taken(table.name, found.beyond.newest, known=True, planned=planned, shows_left=True, take_back=command)


def _restored(sink: OwnSink, query: str | None, newest: BatchId | None) -> Callable[[], BatchId | None]:
    def ask() -> BatchId | None:
        if isinstance(sink, FileSink) or query is None or newest is None:
            return None
        try:
            return sink.restored_to(query, newest)
        except Exception as error:
            log.warning("could not read the history of %s: %s", sink.name, str(error).partition("\n")[0])
            return None

    return ask


def _sink(writer: DataStreamWriter, spark: SparkSession, source: str) -> OwnSink | None:
    """None when it is not known how to ask it."""
    if (path := _option(writer, "path")) is None:
        return None
    if source == "delta":
        return DeltaTable(spark, path)
    if source == "iceberg":
        return IcebergTable(spark, path, _option(writer, "branch"))
    return FileSink(spark, path) if source in FILE_FORMATS else None


def _id_in(directory: WorkDirectory) -> str | None:
    try:
        return query_id(directory.read("metadata").decode())
    except FileNotFoundError:
        return None


def newest_planned(directory: WorkDirectory) -> BatchId:
    """A planned batch may have been written, committed or not."""
    found = newest_barrier(directory.names("offsets"))
    return NONE_YET if found is None else found


class FileSink:
    """Spark's own. It accepts a batch that is newer than its metadata log, whatever the query's id."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.name = f"Spark's file sink at {path}"
        self._spark = spark
        self._path = path

    def newest_of(self, query: str | None) -> BatchId | None:
        jvm: Any = self._spark._jvm
        folder = jvm.org.apache.hadoop.fs.Path(self._path, "_spark_metadata")
        files = folder.getFileSystem(self._spark._jsparkSession.sessionState().newHadoopConf())
        if not files.exists(folder):
            return None
        names = [str(status.getPath().getName()) for status in files.listStatus(folder)]
        return newest_barrier(name.removesuffix(".compact") for name in names)


OwnSink: TypeAlias = DeltaTable | IcebergTable | FileSink


def _option(writer: DataStreamWriter, name: str) -> str | None:
    with suppress(Exception):
        found = field_of(writer, "extraOptions").get(name)
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
