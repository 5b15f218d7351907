"""How far a query is behind its topics: in records, in time, and whether it catches up. Pure: the time is passed in.

The age of a record is not asked for. It is estimated from when the topic ended there, as earlier looks saw it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.sources.positions import Partition, Positions

Trend = Literal["growing", "shrinking", "steady"]
_SPACING_S = 30.0
_KEPT = 120
"""Looks that are kept: an hour of them."""
_TREND_S = 300.0
_TREND_LEAST_S = 30.0
_STEADY = 0.05
"""A smaller change, relative to the lag, is none."""


@dataclass(frozen=True)
class PartitionLag:
    partition: Partition
    processed: int
    """Records that no committed batch has."""
    published: int | None
    """Records that readers of the sink do not see; None when that is not known."""


@dataclass(frozen=True)
class Lag:
    partitions: tuple[PartitionLag, ...]
    seconds: float | None
    """Age of the oldest record that no committed batch has, estimated; None when it is not known yet."""
    at_least: bool
    """It is older than what was ever seen: `seconds` is too little."""
    trend: Trend | None
    """None when it was not watched for long enough."""
    caught_up_in_s: float | None
    """At the pace of the last minutes; None when it does not shrink."""

    @property
    def processed(self) -> int:
        return sum(each.processed for each in self.partitions)

    @property
    def published(self) -> int | None:
        known = [each.published for each in self.partitions if each.published is not None]
        return sum(known) if known or not self.partitions else None


class LagLog:
    """Remembers earlier looks."""

    def __init__(self) -> None:
        self._ends: deque[tuple[float, Positions]] = deque(maxlen=_KEPT)
        self._totals: deque[tuple[float, int]] = deque()

    def add(self, now: float, processed: Positions, published: Positions | None, ends: Positions) -> Lag:
        """`ends` are the next records to be written. A partition without an end is left out."""
        if not self._ends or now - self._ends[-1][0] >= _SPACING_S:
            self._ends.append((now, dict(ends)))
        found = tuple(
            PartitionLag(
                partition,
                max(0, ends[partition] - at),
                None
                if published is None or partition not in published
                else max(0, ends[partition] - published[partition]),
            )
            for partition, at in sorted(processed.items())
            if partition in ends
        )
        total = sum(each.processed for each in found)
        self._totals.append((now, total))
        while self._totals[0][0] < now - _TREND_S:
            self._totals.popleft()
        trend, pace = _trend(self._totals)
        seconds, at_least = self._age(now, processed, ends)
        return Lag(found, seconds, at_least, trend, total / pace if trend == "shrinking" and pace else None)

    def _age(self, now: float, processed: Positions, ends: Positions) -> tuple[float | None, bool]:
        ages = [self._age_of(now, partition, at) for partition, at in processed.items() if ends.get(partition, at) > at]
        oldest = max(ages, default=(0.0, False))
        return (None, False) if oldest == (0.0, True) else oldest

    def _age_of(self, now: float, partition: Partition, at: int) -> tuple[float, bool]:
        """How long ago the topic ended there, and whether it is longer than was watched."""
        later: tuple[float, int] | None = None
        for seen, ends in reversed(self._ends):
            end = ends.get(partition)
            if end is None:
                continue
            if end <= at:
                return max(0.0, now - _between(seen, end, later or (now, end), at)), False
            later = (seen, end)
        return (0.0 if later is None else max(0.0, now - later[0])), True


def _between(seen: float, end: int, later: tuple[float, int], at: int) -> float:
    """When the topic ended at `at`, if it grew evenly between the two looks."""
    grown = later[1] - end
    return later[0] if grown <= 0 else seen + (later[0] - seen) * (at - end) / grown


def _trend(totals: Sequence[tuple[float, int]]) -> tuple[Trend | None, float]:
    """With the pace of shrinking, in records per second."""
    (began, before), (ended, after) = totals[0], totals[-1]
    took = ended - began
    if took < _TREND_LEAST_S:
        return None, 0.0
    change = after - before
    if abs(change) <= _STEADY * max(before, after):
        return "steady", 0.0
    return ("growing", 0.0) if change > 0 else ("shrinking", -change / took)
