"""Which records a query with failOnDataLoss=false passed over: the brokers deleted them before it read them. Pure.

Spark says nothing of it but how many rows a batch had. A batch that had fewer than lie between its offsets, and whose
beginning the brokers no longer have, was late for what is missing. Marks of transactions and records that compaction
removed are no rows either, so where a topic has those, the count may be too high, by as many as were among the deleted.
"""

from collections.abc import Iterable, Mapping

from holdfast.sources.positions import Partition, Positions
from holdfast.sources.reading import BatchRead, SourceRead

Skipped = Mapping[Partition, int]


def skipped_in(batches: Iterable[BatchRead], earliest: Positions) -> Skipped:
    """`earliest`: the oldest record of each partition that the brokers have now."""
    found: dict[Partition, int] = {}
    for source in (source for batch in batches for source in batch.sources):
        for part, count in _of(source, earliest).items():
            found[part] = found.get(part, 0) + count
    return found


def _of(source: SourceRead, earliest: Positions) -> Skipped:
    missing = sum(source.records.values()) - source.rows
    deleted = {
        part: min(earliest[part], source.end[part]) - source.start[part]
        for part in source.records
        if earliest.get(part, 0) > source.start[part]
    }
    return _shared_out(missing, deleted) if missing > 0 else {}


def _shared_out(missing: int, deleted: Skipped) -> Skipped:
    """No partition misses more than was deleted of it; what several may miss is divided in proportion."""
    room = sum(deleted.values())
    if missing >= room:
        return deleted
    shares = {part: missing * count // room for part, count in deleted.items()}
    rest = missing - sum(shares.values())
    for part in sorted(deleted, key=lambda part: (shares[part] - missing * deleted[part] / room, part))[:rest]:
        shares[part] += 1
    return {part: count for part, count in shares.items() if count}


class SkipCount:
    """Of one run. One thread adds; any thread may read."""

    def __init__(self) -> None:
        self.total: Skipped = {}

    def add(self, found: Skipped) -> None:
        self.total = {part: self.total.get(part, 0) + found.get(part, 0) for part in {**self.total, **found}}


def added_since(earlier: Skipped, total: Skipped) -> Skipped:
    return {part: count - earlier.get(part, 0) for part, count in total.items() if count > earlier.get(part, 0)}
