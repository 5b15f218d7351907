"""Every event as a row: the typed table, stored as Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import pyarrow as pa
from msgspec.structs import fields, replace
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession

from holdfast.doctor.matching.scanning import events_of
from holdfast.doctor.reading.blocks import Piece
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.inputs import PIECE, shared_out

_ROWS = 5_000

_LINK = pa.struct([("class_name", pa.string()), ("message", pa.string())])
_OTHER_TYPES = {
    "line": pa.int64(),
    "time": pa.timestamp("us", tz="UTC"),
    "checkpoint": pa.int64(),
    "exceptions": pa.list_(_LINK),
    "frames": pa.list_(pa.string()),
}
_COLUMNS = pa.schema([(each.name, _OTHER_TYPES.get(each.name, pa.string())) for each in fields(LogEvent)])

SCHEMA = (
    "source STRING, line LONG, time TIMESTAMP, level STRING, logger STRING, thread STRING, host STRING, job STRING, "
    "task STRING, subtask STRING, checkpoint LONG, exceptions ARRAY<STRUCT<class_name: STRING, message: STRING>>, "
    "message STRING, frames ARRAY<STRING>"
)


def table(spark: SparkSession, first_lines: Mapping[Piece, int]) -> DataFrame:
    """`first_lines`: from an examination of the same logs."""
    pieces = list(first_lines)
    shared = shared_out(pieces, PIECE, spark.sparkContext.defaultParallelism)
    tasks = [[(pieces[place], first_lines[pieces[place]]) for place in task] for task in shared]
    return spark.range(0, len(tasks), 1, max(1, len(tasks))).mapInArrow(
        _reading(spark.sparkContext.broadcast(tasks)), SCHEMA
    )


def _reading(
    tasks: Broadcast[list[list[tuple[Piece, int]]]],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for piece, first_line in tasks.value[number]:
                    yield from _rows(piece, first_line)

    return run


def _rows(piece: Piece, first_line: int) -> Iterator[pa.RecordBatch]:
    events = (replace(event, line=event.line + first_line - 1) for event in events_of(piece))
    while rows := list(islice(events, _ROWS)):
        yield pa.RecordBatch.from_arrays([_column(rows, each) for each in _COLUMNS], schema=_COLUMNS)


def _column(events: Sequence[LogEvent], column: pa.Field) -> pa.Array:
    values = [getattr(event, column.name) for event in events]
    if column.name == "time":
        return pa.array([None if value is None else value * 1000 for value in values], column.type)
    if column.name == "exceptions":
        links = [[{"class_name": link.class_name, "message": link.message} for link in chain] for chain in values]
        return pa.array(links, column.type)
    return pa.array(values, column.type)
