"""A `Delta` sink whose batches are written by pyarrow: what others do to its table needs no Spark."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql.types import StructType

from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.sinks import Delta, SinkContext, StagedBatch
from holdfast.sinks.committed import Written
from holdfast.sinks.delta_statistics import delta_statistics
from holdfast.sinks.staging import staged_files
from tests.trust.files_sink import columns, context

ROWS = 2
"""Per batch, each in a file of its own."""
_UNIQUE = count()
_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"


def opened(place: Path, who: SinkContext | None = None, schema: StructType | None = None, **options: Any) -> Delta:
    sink = Delta(place, **options)
    sink.open(who or context(), None, schema or columns())  # type: ignore[arg-type]
    return sink


def staged(sink: Delta, epoch: int, *batches: int) -> tuple[StagedBatch, ...]:
    return tuple(_staged(sink, epoch, batch) for batch in batches)


def _staged(sink: Delta, epoch: int, batch: int) -> StagedBatch:
    directory = sink._staging / str(epoch) / f"{batch}-u{next(_UNIQUE)}"
    directory.mkdir(parents=True)
    paths = [directory / f"part-{n}.parquet" for n in range(ROWS)]
    for n, path in enumerate(paths):
        rows = pa.table({"id": [batch * 10 + n]})
        pq.write_table(rows.replace_schema_metadata({_SPARK_SCHEMA: columns().json()}), path)
    written = Written(ROWS, {path: path.stat().st_size for path in paths})
    files = staged_files(sink._place, directory, written, delta_statistics)
    return StagedBatch(BatchId(batch), FencingEpoch(epoch), files)


def published(place: Path, *batches: int, who: SinkContext | None = None) -> Delta:
    """A run that published these batches, each with a checkpoint of its own."""
    who = who or context()
    sink = opened(place, who)
    for batch in staged(sink, who.fencing_epoch, *batches):
        sink.publish(batch.batch_id, (batch,))
    return sink


def rows(place: Path) -> list[int]:
    return sorted(DeltaTable(str(place)).to_pyarrow_table().column("id").to_pylist())


def expected(*batches: int) -> list[int]:
    return [batch * 10 + n for batch in batches for n in range(ROWS)]


def trace(place: Path) -> set[tuple[str, int]]:
    """Everything below a place, to show that something left no trace."""
    return {(str(path.relative_to(place)), path.stat().st_mtime_ns) for path in place.rglob("*") if path.is_file()}
