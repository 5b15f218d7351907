"""Lines -> events: where each begins, which lines belong to it, and which events to parse.

Most lines of a log are never parsed: an engine finds the lines at which events begin and those that contain a needle;
only events with such a line are parsed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import takewhile

from holdfast.doctor.matching.engines import Engine, Needles
from holdfast.doctor.reading.assembling import headed, headless, loose
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.lines import first_line, writer_of
from holdfast.doctor.reading.paragraphs import end_of_message, paragraphs
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

    def __init__(self, source: str, window: Window, engine: Engine) -> None:
        self._source = source
        self._engine = engine
        self._window = window
        self._writers: dict[int, tuple[str, ...]] = {}
        self._lines: dict[int, Stripped] = {}

    @cached_property
    def heads(self) -> Sequence[int]:
        """The lines at which events begin, whichever window they belong to."""
        return self._engine.heads(self._window)

    def own_heads(self) -> Sequence[int]:
        first, end = self._window.own
        return self.heads[bisect_left(self.heads, first) : bisect_left(self.heads, end)]

    def all_events(self) -> Iterator[LogEvent]:
        for head in self.own_heads():
            yield self._event(head)

    def events_with(self, needles: Needles) -> Iterator[LogEvent]:
        """In the order of their first lines; of those that begin with a log line and those that do not."""
        if self._window.numbers is not None:
            yield from self._pasted_events()
            return
        first, end = self._window.own
        begins = {self._beginning(hit) for hit in self._hits(needles)}
        for index, has_head in sorted(begins):
            if first <= index < end:
                yield self._event(index) if has_head else self._headless_event(index)

    def _pasted_events(self) -> Iterator[LogEvent]:
        """All of a text that went through other hands: also what belongs to no line of a log, and what was broken."""
        first, end = 0, len(self._window.starts)
        for head in (*self.heads, end):
            yield from self._loose_events(first, head)
            if head < end:
                first = self._end_of_message(head)
                yield self._event(head, first)

    def _end_of_message(self, head: int) -> int:
        following = range(head + 1, self._next_head(head))
        return head + 1 + end_of_message([self._line(index).text for index in following])

    def _loose_events(self, first: int, end: int) -> Iterator[LogEvent]:
        lines = [self._line(index) for index in range(first, end)]
        for places in paragraphs([line.text for line in lines], [bool(line.writer or line.written) for line in lines]):
            number = self._window.line_number(first + places.start) + 1
            yield loose(self._source, number, [lines[place] for place in places])

    def _hits(self, needles: Needles) -> Iterator[int]:
        rare, frequent = needles.lines_of(self._window)
        yield from rare[bisect_left(rare, self._window.own[0]) :]
        yield from self._thinned(frequent)

    def _thinned(self, hits: Sequence[int]) -> Iterator[int]:
        """The first and the last of each stretch of the file, more of its first: the same wherever a window begins."""
        window, first = self._window, 0
        while first < len(hits):
            stretch = self._offset(hits[first]) // _STRETCH
            end = bisect_left(hits, window.index_of((stretch + 1) * _STRETCH), first)
            few = _FEW_AT_FIRST if stretch == 0 else 1
            for line in dict.fromkeys((*hits[first : min(end, first + few)], hits[end - 1])):
                if window.own_start <= self._offset(line) < window.own_end + _STRETCH:  # its stretch is seen whole
                    yield line
            first = end

    def _offset(self, line: int) -> int:
        return self._window.starts[line] + self._window.offset

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
        place = bisect_right(self.heads, hit) - 1
        return self.heads[place] if place >= 0 and self._within_reach(self.heads[place], hit) else None

    def _nearest_head_of(self, hit: int, writer: tuple[str, ...], nearest: int | None) -> int | None:
        """What looks like a writer is one if it also begins events; otherwise it is only text."""
        place = bisect_right(self.heads, hit) - 1
        while place >= 0 and self._within_reach(self.heads[place], hit):
            if self._writer(self.heads[place]) == writer:
                return self.heads[place]
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
        return line - head < EVENT_LINES and starts[line] - starts[head] < REACH

    def _event(self, head: int, end: int | None = None) -> LogEvent:
        """`end`: before which its lines end, if not at the next event."""
        text, number = self._text(head), self._window.line_number(head) + 1
        found = first_line(text)
        if found is None:
            return headless(self._source, number, [stripped(text)])
        prefix, first = found
        return headed(self._source, number, prefix, first, self._continuation(head, prefix, end))

    def _continuation(self, head: int, prefix: Stripped, end: int | None) -> str:
        if not prefix.writer and self._next_head(head) == head + 1:
            return ""
        limit = self._limit(head, prefix.writer)
        limit = limit if end is None or prefix.writer else min(limit, end)
        if limit <= head + 1:
            return ""
        text = self._window.text_of(head + 1, limit)
        if not prefix.writer and not prefix.written:
            return text
        bare = same_writer(text, prefix.writer) if self._next_head(head) >= limit else None
        if bare is None:
            bare = "\n".join(line.text for line in self._lines_between(head + 1, limit, prefix.writer))
        return bare

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
        place = bisect_right(self.heads, index)
        return self.heads[place] if place < len(self.heads) else len(self._window.starts)

    def _limit(self, index: int, writer: tuple[str, ...]) -> int:
        """The first line behind the event."""
        place = bisect_right(self.heads, index)
        while place < len(self.heads) and self._within_reach(index, self.heads[place]):
            if not writer or self._writer(self.heads[place]) == writer:
                return self.heads[place]
            place += 1
        starts = self._window.starts
        return min(bisect_left(starts, starts[index] + REACH), index + EVENT_LINES, len(starts))

    def _writer(self, index: int) -> tuple[str, ...]:
        if not self._is_head(index):
            return self._line(index).writer
        if index not in self._writers:
            self._writers[index] = writer_of(self._text(index))
        return self._writers[index]

    def _is_head(self, index: int) -> bool:
        place = bisect_left(self.heads, index)
        return place < len(self.heads) and self.heads[place] == index

    def _line(self, index: int) -> Stripped:
        """A line that begins no event."""
        if index not in self._lines:
            self._lines[index] = stripped(self._text(index))
        return self._lines[index]

    def _text(self, index: int) -> str:
        return self._window.text(index, _LINE_CHARACTERS)
