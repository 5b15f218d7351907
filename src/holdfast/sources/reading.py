"""How a query reads its topics: how much of each partition lately, and how long its batches took. Pure."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from holdfast.identifiers import BatchId
from holdfast.sources.positions import Partition, Positions

_BATCHES = 100
_WINDOW_S = 600.0
_LEAST = 3
"""Fewer batches tell nothing."""


@dataclass(frozen=True)
class SourceRead:
    start: Positions
    """The first record that one source had to read, by partition."""
    end: Positions
    rows: int
    """That it did read."""

    @property
    def records(self) -> Mapping[Partition, int]:
        """As many as lie between start and end."""
        return {part: at - self.start[part] for part, at in self.end.items() if at > self.start.get(part, at)}


@dataclass(frozen=True)
class BatchRead:
    """What a batch read, as Spark reports it."""

    batch: BatchId
    at: datetime
    seconds: float
    """From its trigger to its commit."""
    sources: tuple[SourceRead, ...]
    """Those that read Kafka."""


@dataclass(frozen=True)
class RecentReading:
    """Of the last minutes."""

    batches: int
    every_s: float
    """From the beginning of a batch to that of the next."""
    batch_s: float
    """How long a batch took, on average."""
    records: Mapping[Partition, int]
    """0 for a partition that gave nothing."""

    @property
    def total(self) -> int:
        return sum(self.records.values())


@dataclass(frozen=True)
class KafkaReading:
    """How a run reads Kafka."""

    lately: RecentReading | None
    """None before a few batches have read something."""
    cores: int | None
    tasks: int
    """That read: one for each partition, or as many as `minPartitions` says."""
    max_offsets: int | None
    """The limit of a batch."""
    skipped: Mapping[Partition, int]
    """Records that the brokers deleted before the query read them."""


class ReadingLog:
    """Remembers the newest batches."""

    def __init__(self) -> None:
        self._batches: deque[BatchRead] = deque(maxlen=_BATCHES)

    def add(self, batches: Iterable[BatchRead]) -> tuple[BatchRead, ...]:
        """Returns those that were not known. A job that went back begins anew."""
        new = []
        for each in sorted(batches, key=lambda batch: batch.at):
            if self._batches and each.at <= self._batches[-1].at:
                continue
            if self._batches and each.batch <= self._batches[-1].batch:
                self._batches.clear()
            self._batches.append(each)
            new.append(each)
        return tuple(new)

    def reading(self) -> RecentReading | None:
        """None before it can be told."""
        if not self._batches:
            return None
        newest = self._batches[-1].at
        lately = [each for each in self._batches if (newest - each.at).total_seconds() <= _WINDOW_S]
        if len(lately) < _LEAST:
            return None
        records: dict[Partition, int] = {}
        for source in (source for each in lately for source in each.sources):
            for part in source.end:
                records[part] = records.get(part, 0) + source.records.get(part, 0)
        every = (newest - lately[0].at).total_seconds() / (len(lately) - 1)
        return RecentReading(len(lately), every, sum(each.seconds for each in lately) / len(lately), records)
