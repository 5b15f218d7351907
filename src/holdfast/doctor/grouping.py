"""Lines -> events: where each begins, which lines follow it, and which events are worth taking apart.

Most lines of a log are never looked at in Python. RE2 finds, in a whole window at once, the lines at which events begin
and the lines that contain a needle; only events with such a line are assembled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow.compute as pc

from holdfast.doctor.assembling import event_of, headless
from holdfast.doctor.events import LogEvent
from holdfast.doctor.formats import EVENT_START
from holdfast.doctor.lines import writer_of
from holdfast.doctor.prefixes import stripped
from holdfast.doctor.traces import starts_trace
from holdfast.doctor.windows import REACH, Window

EVENT_LINES = 5_000
_LINE_CHARACTERS = REACH


def needle_pattern(needles: Iterable[str]) -> str:
    return "|".join(re.escape(needle) for needle in sorted(needles))


class Grouping:
    """The events of one window. An event belongs to the window in which it begins."""

    def __init__(self, source: str, window: Window) -> None:
        self._source = source
        self._window = window
        self._writers: dict[int, tuple[str, ...]] = {}

    @cached_property
    def heads(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The lines at which events begin, whoever they belong to."""
        found = np.flatnonzero(pc.match_substring_regex(self._window.lines, EVENT_START).to_numpy(zero_copy_only=False))
        return found[np.searchsorted(found, self._window.first_whole) :]

    def own_heads(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        first, end = self._window.own
        return self.heads[np.searchsorted(self.heads, first) : np.searchsorted(self.heads, end)]

    def all_events(self) -> Iterator[LogEvent]:
        for head in self.own_heads():
            yield self._event(int(head))

    def events_with(self, pattern: str) -> Iterator[LogEvent]:
        """In the order of their first lines; of those that begin with a log line and those that do not."""
        first, end = self._window.own
        hits = np.flatnonzero(
            pc.match_substring_regex(self._window.lines.slice(first), pattern).to_numpy(zero_copy_only=False)
        )
        begins = {self._beginning(int(hit) + first) for hit in hits}
        for index, headed in sorted(begins):
            if first <= index < end:
                yield self._event(index) if headed else self._headless_event(index)

    def _beginning(self, hit: int) -> tuple[int, bool]:
        """Where the event of this line begins, and whether with a log line."""
        writer = self._writer(hit)
        head = self._nearest_head(hit) if not writer else self._nearest_head_of(hit, writer)
        if head is not None:
            return head, True
        return self._nearest_exception(hit, writer), False

    def _nearest_head(self, hit: int) -> int | None:
        place = int(np.searchsorted(self.heads, hit, side="right")) - 1
        if place < 0:
            return None
        head = int(self.heads[place])
        return head if self._within_reach(head, hit) else None

    def _nearest_head_of(self, hit: int, writer: tuple[str, ...]) -> int | None:
        """What looks like a writer is one when it begins events, too; else it was only text."""
        place = int(np.searchsorted(self.heads, hit, side="right")) - 1
        nearest = self._nearest_head(hit)
        while place >= 0 and self._within_reach(head := int(self.heads[place]), hit):
            if self._writer(head) == writer:
                return head
            place -= 1
        return nearest if nearest is not None and not self._writer(nearest) else None

    def _nearest_exception(self, hit: int, writer: tuple[str, ...]) -> int:
        index = hit
        while index >= self._window.first_whole and self._within_reach(index, hit):
            if self._writer(index) == writer and starts_trace(stripped(self._text(index)).text):
                return index
            index -= 1
        return hit

    def _within_reach(self, head: int, line: int) -> bool:
        starts = self._window.starts
        return line - head < EVENT_LINES and int(starts[line]) - int(starts[head]) < REACH

    def _event(self, head: int) -> LogEvent:
        return event_of(self._source, self._window.line_number(head), self._lines_from(head, exceptions_end=False))

    def _headless_event(self, index: int) -> LogEvent:
        return headless(self._source, self._window.line_number(index), self._lines_from(index, exceptions_end=True))

    def _lines_from(self, index: int, exceptions_end: bool) -> Sequence[str]:
        writer = self._writer(index)
        lines = [self._text(index)]
        for each in range(index + 1, self._limit(index, writer)):
            if writer and self._writer(each) != writer:
                continue
            text = self._text(each)
            if exceptions_end and starts_trace(stripped(text).text):
                break
            lines.append(text)
        return lines

    def _limit(self, index: int, writer: tuple[str, ...]) -> int:
        """The first line behind the event."""
        starts = self._window.starts
        limit = min(int(np.searchsorted(starts, int(starts[index]) + REACH)), index + EVENT_LINES, len(starts))
        place = int(np.searchsorted(self.heads, index, side="right"))
        while place < len(self.heads) and int(self.heads[place]) < limit:
            if not writer or self._writer(int(self.heads[place])) == writer:
                return int(self.heads[place])
            place += 1
        return limit

    def _writer(self, index: int) -> tuple[str, ...]:
        if index not in self._writers:
            self._writers[index] = writer_of(self._text(index))
        return self._writers[index]

    def _text(self, index: int) -> str:
        return self._window.text(index, _LINE_CHARACTERS)
