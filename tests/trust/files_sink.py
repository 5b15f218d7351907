"""A `Files` sink whose batches are written by pyarrow: what others do to its directory needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import DataType, LongType, StructField, StructType

from holdfast.identifiers import AttemptId, BatchId, FencingEpoch, JobName
from holdfast.sinks import Files, SinkContext, StagedBatch, StagedFile

ROWS = 2
"""Per batch, each in a file of its own."""
_UNIQUE = count()


def columns(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in (kinds or {"id": LongType()}).items()])


def context(
    epoch: int = 1,
    lineage: str = "home-1",
    *,
    job: str = "orders",
    claim: str = "",
    new_life: bool = False,
    accept: bool = False,
) -> SinkContext:
    return SinkContext(JobName(job), FencingEpoch(epoch), lineage, AttemptId(claim), new_life, accept)


def opened(place: Path, who: SinkContext, schema: StructType | None = None) -> Files:
    sink = Files(place)
    sink.open(who, None, schema or columns())  # type: ignore[arg-type]
    return sink


def staged(sink: Files, epoch: int, *batches: int) -> tuple[StagedBatch, ...]:
    return tuple(_staged(sink, epoch, batch) for batch in batches)


def published(place: Path, *batches: int, who: SinkContext | None = None) -> Files:
    """A run that published these batches, each with a checkpoint of its own."""
    who = who or context()
    sink = opened(place, who)
    for batch in staged(sink, who.fencing_epoch, *batches):
        sink.publish(batch.batch_id, (batch,))
    return sink


def rows(place: Path) -> list[int]:
    """What a reader sees."""
    return sorted(value for path in visible(place) for value in pq.read_table(path).column("id").to_pylist())


def expected(*batches: int) -> list[int]:
    return [batch * 10 + n for batch in batches for n in range(ROWS)]


def visible(place: Path) -> list[Path]:
    return sorted(path for path in place.iterdir() if path.is_file())


def files_of(place: Path, *batches: int) -> list[Path]:
    return [path for path in visible(place) if any(f"-{batch:010d}-" in path.name for batch in batches)]


def compact(place: Path, files: Iterable[Path]) -> Path:
    """What a person's nightly script does: the same rows in one file."""
    files = list(files)
    merged = pa.concat_tables([pq.read_table(path) for path in files])
    target = place / "compacted.parquet"
    pq.write_table(merged, target)
    for path in files:
        path.unlink()
    return target


def snapshot(place: Path) -> dict[str, bytes]:
    """Everything below a directory, to see whether a refusal left a trace."""
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def _staged(sink: Files, epoch: int, batch: int) -> StagedBatch:
    directory = sink._layout.staging(FencingEpoch(epoch), BatchId(batch), f"u{next(_UNIQUE)}")
    directory.mkdir(parents=True)
    files = []
    for number in range(ROWS):
        path = directory / f"part-{number}.parquet"
        pq.write_table(pa.table({"id": [batch * 10 + number]}), path)
        files.append(StagedFile(path.relative_to(sink._place).as_posix(), path.stat().st_size, 1))
    return StagedBatch(BatchId(batch), FencingEpoch(epoch), tuple(files))
