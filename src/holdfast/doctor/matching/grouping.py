"""Lines -> events: where each begins, which lines belong to it, and which events to parse.

Python never processes most lines of a log. For a whole window at once, RE2 finds the lines at which events begin, and
Hyperscan those that contain a needle; only events with such a line are parsed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import takewhile

import numpy as np
import pyarrow.compute as pc

from holdfast.doctor.matching.needles import Indices, Needles
from holdfast.doctor.reading.assembling import headed, headless
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.formats import EVENT_START
from holdfast.doctor.reading.lines import first_line, writer_of
from holdfast.doctor.reading.prefixes import Stripped, same_writer, stripped
from holdfast.doctor.reading.traces import starts_trace
from holdfast.doctor.reading.windows import REACH, Window

EVENT_LINES = 5_000
_STRETCH = REACH // 2
_FEW_AT_FIRST = 8
"""Many logs are no longer than one stretch."""
_LINE_CHARACTERS = REACH


class Grouping:
    """The events of one window. An event belongs to the window in which it begins."""

    def __init__(self, source: str, window: Window) -> None:
        self._source = source
        self._window = window
        self._writers: dict[int, tuple[str, ...]] = {}
        self._lines: dict[int, Stripped] = {}

    @cached_property
    def heads(self) -> Indices:
        """The lines at which events begin, whichever window they belong to."""
        indices = pc.indices_nonzero(pc.match_substring_regex(self._window.lines, EVENT_START))
        found = np.frombuffer(indices.buffers()[1], dtype=np.int64, count=len(indices))  # to_numpy() imports pandas
        return found[np.searchsorted(found, self._window.first_whole) :]

    @cached_property
    def _heads(self) -> memoryview:
        """The same, quick to look up by place."""
        return self.heads.data

    def own_heads(self) -> Indices:
        first, end = self._window.own
        return self.heads[np.searchsorted(self.heads, first) : np.searchsorted(self.heads, end)]

    def all_events(self) -> Iterator[LogEvent]:
        for head in self.own_heads():
            yield self._event(int(head))

    def events_with(self, needles: Needles) -> Iterator[LogEvent]:
        """In the order of their first lines; of those that begin with a log line and those that do not."""
        first, end = self._window.own
        begins = {self._beginning(hit) for hit in self._hits(needles).tolist()}
        for index, has_head in sorted(begins):
            if first <= index < end:
                yield self._event(index) if has_head else self._headless_event(index)

    def _hits(self, needles: Needles) -> Indices:
        rare, frequent = needles.lines_of(self._window)
        return np.concatenate((self._from_own(rare), self._thinned(frequent)))

    def _from_own(self, hits: Indices) -> Indices:
        return hits[np.searchsorted(hits, self._window.own[0]) :]

    def _thinned(self, hits: Indices) -> Indices:
        """The first and the last of each stretch of the file, more of its first: the same wherever a window begins."""
        window = self._window
        offsets = window.starts[hits].astype(np.int64) + window.offset
        stretches = offsets // _STRETCH
        rank = np.arange(len(hits)) - np.searchsorted(stretches, stretches)
        last = np.append(stretches[1:] != stretches[:-1], True)
        seen_whole = (offsets >= window.own_start) & (offsets < window.own_end + _STRETCH)
        few = np.where(stretches == 0, _FEW_AT_FIRST, 1)
        kept: Indices = hits[((rank < few) | last) & seen_whole]
        return kept

    def _beginning(self, hit: int) -> tuple[int, bool]:
        """Where the event of this line begins, and whether with a log line."""
        nearest = self._nearest_head(hit)
        if nearest == hit:
            return hit, True
        writer = self._writer(hit)
        head = nearest if not writer else self._nearest_head_of(hit, writer, nearest)
        if head is not None:
            return head, True
        return self._nearest_exception(hit, writer), False

    def _nearest_head(self, hit: int) -> int | None:
        place = bisect_right(self._heads, hit) - 1
        return self._heads[place] if place >= 0 and self._within_reach(self._heads[place], hit) else None

    def _nearest_head_of(self, hit: int, writer: tuple[str, ...], nearest: int | None) -> int | None:
        """What looks like a writer is one if it also begins events; otherwise it is only text."""
        place = bisect_right(self._heads, hit) - 1
        while place >= 0 and self._within_reach(self._heads[place], hit):
            if self._writer(self._heads[place]) == writer:
                return self._heads[place]
            place -= 1
        return nearest if nearest is not None and not self._writer(nearest) else None

    def _nearest_exception(self, hit: int, writer: tuple[str, ...]) -> int:
        index = hit
        while index >= self._window.first_whole and self._within_reach(index, hit):
            line = self._line(index)
            if line.writer == writer and starts_trace(line.text):
                return index
            index -= 1
        return hit

    def _within_reach(self, head: int, line: int) -> bool:
        starts = self._window.starts
        return line - head < EVENT_LINES and int(starts[line]) - int(starts[head]) < REACH

    def _event(self, head: int) -> LogEvent:
        text, number = self._text(head), self._window.line_number(head) + 1
        found = first_line(text)
        if found is None:
            return headless(self._source, number, [stripped(text)])
        prefix, first = found
        return headed(self._source, number, prefix, first, self._continuation(head, prefix))

    def _continuation(self, head: int, prefix: Stripped) -> list[str]:
        if not prefix.writer and self._next_head(head) == head + 1:
            return []
        limit = self._limit(head, prefix.writer)
        if limit <= head + 1:
            return []
        text = self._window.text_of(head + 1, limit)
        if not prefix.writer and not prefix.written:
            return text.split("\n")
        lines = same_writer(text, prefix.writer) if self._next_head(head) >= limit else None
        if lines is None:
            lines = [line.text for line in self._lines_between(head + 1, limit, prefix.writer)]
        return lines

    def _headless_event(self, index: int) -> LogEvent:
        """An exception with its trace, or else a single line that belongs to no event."""
        lines = [self._line(index)]
        if starts_trace(lines[0].text):
            lines += takewhile(lambda line: not starts_trace(line.text), self._lines_after(index, lines[0].writer))
        return headless(self._source, self._window.line_number(index) + 1, lines)

    def _lines_after(self, index: int, writer: tuple[str, ...]) -> Iterator[Stripped]:
        return self._lines_between(index + 1, self._limit(index, writer), writer)

    def _lines_between(self, first: int, end: int, writer: tuple[str, ...]) -> Iterator[Stripped]:
        lines = (self._line(each) for each in range(first, end) if not self._is_head(each))
        return (line for line in lines if not writer or line.writer == writer)

    def _next_head(self, index: int) -> int:
        place = bisect_right(self._heads, index)
        return self._heads[place] if place < len(self._heads) else len(self._window.starts)

    def _limit(self, index: int, writer: tuple[str, ...]) -> int:
        """The first line behind the event."""
        place = bisect_right(self._heads, index)
        while place < len(self._heads) and self._within_reach(index, self._heads[place]):
            if not writer or self._writer(self._heads[place]) == writer:
                return self._heads[place]
            place += 1
        starts = self._window.starts
        return min(int(np.searchsorted(starts, int(starts[index]) + REACH)), index + EVENT_LINES, len(starts))

    def _writer(self, index: int) -> tuple[str, ...]:
        if not self._is_head(index):
            return self._line(index).writer
        if index not in self._writers:
            self._writers[index] = writer_of(self._text(index))
        return self._writers[index]

    def _is_head(self, index: int) -> bool:
        place = bisect_left(self._heads, index)
        return place < len(self._heads) and self._heads[place] == index

    def _line(self, index: int) -> Stripped:
        """A line that begins no event."""
        if index not in self._lines:
            self._lines[index] = stripped(self._text(index))
        return self._lines[index]

    def _text(self, index: int) -> str:
        return self._window.text(index, _LINE_CHARACTERS)
