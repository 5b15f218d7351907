"""When something was seen, as periods of time: finds overlaps without comparing each sighting."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from holdfast.doctor.matching.sightings import Sighting


class Spans:
    """A sighting without a time overlaps with everything."""

    def __init__(self, sightings: Iterable[Sighting]) -> None:
        spans = sorted((sighting.samples[0].time, sighting.last.time) for sighting in sightings)
        self._any = bool(spans)
        self._timeless = self._any and spans[0][0] < 0
        self._begins: list[int] = []
        self._ends: list[int] = []
        for begin, end in spans:
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._begins.append(begin)
                self._ends.append(end)

    def touch(self, sighting: Sighting, before: int, after: int) -> bool:
        """Whether one of them is at most `before` milliseconds before the sighting, or `after` behind it."""
        begin, end = sighting.samples[0].time, sighting.last.time
        if self._timeless or begin < 0:
            return self._any
        place = bisect_right(self._begins, end + after) - 1
        return place >= 0 and self._ends[place] >= begin - before
