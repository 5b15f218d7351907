"""How long sources still have what a checkpoint needs: what every kind of source answers, and Kafka's rule. Pure: the
time is passed in, in seconds since 1970.

Brokers delete records by age, whole segments at a time, so never before a record is as old as the retention says. They
are asked which offsets were written by several moments; a record at or behind one of those offsets is younger than that
moment. The result is therefore rather too early than too late.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from holdfast.identifiers import CheckpointId
from holdfast.sources.positions import Partition, Positions

MOMENTS = 12
"""Asked for over the time of the retention: the result is too early by a twelfth of it at most."""
SourceKind = Literal["kafka", "delta", "files"]
Offsets = Mapping[CheckpointId, Mapping[str, str]]
"""By checkpoint, then by source: the line of Spark's offset log."""
_NOTICE = 0.1
_NOTICE_LEAST_S = 3600.0


@dataclass(frozen=True)
class TopicRetention:
    seconds: float | None
    """None: records do not age."""
    by_size: bool
    """Records may go earlier, when others come."""
    compacts: bool
    """Of records with the same key only the newest stays: what is read again may be less than what was read."""


@dataclass(frozen=True)
class Kept:
    """What brokers said about the partitions."""

    retention: Mapping[str, TopicRetention]
    """By topic."""
    earliest: Positions
    written: Mapping[Partition, Sequence[tuple[float, int]]]
    """Moments, and the first record of that moment or later; ascending."""


@dataclass(frozen=True)
class Restorable:
    id: CheckpointId
    until: float | None
    """None: as far as age is concerned, for ever."""
    gone: bool = False
    """Something that it needs is already deleted."""
    by_size: bool = False
    compacts: bool = False
    source: SourceKind = "kafka"
    """The kind of the source that limits it."""
    first: str = ""
    """What goes first, or is gone: a partition, a table, a file."""
    retention_s: float | None = None
    """Of that."""


class KeptSource(Protocol):
    """A source that can be asked how long it has what comes behind a checkpoint."""

    def look(self, offsets: Offsets, now: float) -> Mapping[CheckpointId, Restorable]:
        """As far as that is known. May block; what it raises is told in the log."""


def moments(now: float, retention: TopicRetention) -> tuple[float, ...]:
    if retention.seconds is None:
        return ()
    step = retention.seconds / MOMENTS
    return tuple(now - retention.seconds + step * number for number in range(MOMENTS + 1))


def restorable(id: CheckpointId, needs: Positions, kept: Kept, now: float) -> Restorable:
    known = {part: at for part, at in needs.items() if part in kept.earliest and part.topic in kept.retention}
    by_size = any(kept.retention[part.topic].by_size for part in known)
    compacts = any(kept.retention[part.topic].compacts for part in known)
    gone = next((part for part, at in sorted(known.items()) if at < kept.earliest[part]), None)
    if gone is not None:
        seconds = kept.retention[gone.topic].seconds
        return Restorable(id, now, True, by_size, compacts, first=str(gone), retention_s=seconds)
    ends = [(until, part) for part, at in known.items() if (until := _until(part, at, kept, now)) is not None]
    if not ends:
        return Restorable(id, None, False, by_size, compacts)
    until, first = min(ends)
    seconds = kept.retention[first.topic].seconds
    return Restorable(id, until, False, by_size, compacts, first=str(first), retention_s=seconds)


def _until(partition: Partition, at: int, kept: Kept, now: float) -> float | None:
    seconds = kept.retention[partition.topic].seconds
    if seconds is None:
        return None
    younger = [moment for moment, first in kept.written.get(partition, ()) if first <= at]
    return max(younger) + seconds if younger else now


def sooner(one: Restorable, other: Restorable) -> Restorable:
    """A checkpoint needs all its sources."""
    if one.gone or other.gone:
        return one if one.gone else other
    if one.until is None or other.until is None:
        return other if one.until is None else one
    return min(one, other, key=lambda each: each.until or 0.0)


def expiring(found: Iterable[Restorable], now: float) -> Restorable | None:
    """The one to warn of: the first that can soon no longer be replayed, though it still can."""
    ends = [each for each in found if not each.gone and each.until is not None and each.until - now < _notice(each)]
    return min(ends, key=lambda each: each.until or now, default=None)


def _notice(each: Restorable) -> float:
    """A tenth of the retention, and at least an hour; half of it when it is shorter than two hours."""
    retention = each.retention_s or 0.0
    return min(max(retention * _NOTICE, _NOTICE_LEAST_S), retention / 2)
