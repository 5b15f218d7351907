"""`holdfast doctor --follow`: a directory of growing logs as a source of Structured Streaming."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.doctor.matching.clues import Rule
from holdfast.doctor.matching.scanning import Reading, moved, scan
from holdfast.doctor.matching.sightings import Sighting, merged
from holdfast.doctor.reading.growth import Growth, Stretch, piece_of, stretches

_FORMAT = "holdfast-logs"
_SCHEMA = "identity STRING, start LONG, reading BINARY"

OnSightings = Callable[[Sequence[Sighting]], None]


@dataclass
class _ToRead(InputPartition):  # type: ignore[misc]
    stretch: Stretch


class _GrowingLogs(DataSource):  # type: ignore[misc]
    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        return _GrowthReader(self.options["path"], pickle.loads(bytes.fromhex(self.options["rules"])))


class _GrowthReader(DataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, directory: str, rules: Sequence[Rule]) -> None:
        self._directory = directory
        self._rules = rules
        self._growth = Growth(directory)

    def initialOffset(self) -> dict[str, int]:
        return {}

    def latestOffset(self, start: Mapping[str, int] | None = None, limit: Any = None) -> dict[str, int]:
        return self._growth.look()

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> list[InputPartition]:
        return [_ToRead(stretch) for stretch in stretches(start, end)]

    def read(self, partition: _ToRead) -> Iterator[pa.RecordBatch]:
        stretch = partition.stretch
        piece = piece_of(stretch, self._directory)
        if piece is not None:
            reading = pickle.dumps(scan(piece, self._rules))
            columns = [pa.array([stretch.identity]), pa.array([stretch.start]), pa.array([reading], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, ["identity", "start", "reading"])


class _Lines:
    """Line numbers over all batches: each batch reports how many lines it read, the next continues from there."""

    def __init__(self) -> None:
        self._read: dict[str, int] = {}

    def placed(self, identity: str, reading: Reading) -> list[Sighting]:
        before = 0 if reading.piece.start == 0 else self._read.get(identity, 0)
        self._read[identity] = before + reading.lines
        return [moved(sighting, before) for sighting in reading.sightings]


def follow(
    spark: SparkSession, directory: str, rules: Sequence[Rule], checkpoint: Path, every: str, on_sightings: OnSightings
) -> StreamingQuery:
    """Reports sightings batch by batch. Returns at once; the query runs until it is stopped."""
    lines = _Lines()

    def take(batch: DataFrame, number: int) -> None:
        rows = sorted(batch.collect(), key=lambda row: (row.identity, row.start))
        seen = [sighting for row in rows for sighting in lines.placed(row.identity, pickle.loads(row.reading))]
        if seen:
            on_sightings(merged(seen))

    spark.dataSource.register(_GrowingLogs)
    logs = spark.readStream.format(_FORMAT).option("rules", pickle.dumps(tuple(rules)).hex()).load(directory)
    writer = logs.writeStream.option("checkpointLocation", str(checkpoint)).trigger(processingTime=every)
    return writer.foreachBatch(take).start()
