"""A stream of bytes as overlapping windows of lines, in bounded memory.

A piece is the bytes from `start` to `end` of one file, of which there may be many. Each line belongs to the piece, and
within it to the window, in which its first byte is. A window also contains `REACH` bytes before and after its own
lines, so that no event is cut. A longer event is cut, at the same place wherever a piece begins.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from mmap import mmap

REACH = 512 * 1024
"""No event is longer; of a longer line, only this much is certain to be examined."""
WINDOW = 24 * 1024 * 1024
_CHUNK = 256 * 1024
"""Stays in the processor's cache until it is in the window."""
_BUFFERS: list[memoryview] = []
"""Of earlier streams, for later ones: new memory costs more than what is read into it. Taken and put back whole."""

Read = Callable[[int], bytes]
LineStarts = Callable[[memoryview], Sequence[int]]
"""Where lines begin in the data, 0 among them; none at its end. `matching/engines.py` has two ways."""


@dataclass(frozen=True)
class Window:
    """Valid until the next one is requested: windows share their memory."""

    data: memoryview
    offset: int
    """Of the first byte of `data` in the file."""
    lines_before: int
    """Lines of the piece that belong to earlier windows."""
    own_start: int
    own_end: int
    """Offsets in the file between which a line must begin to belong to this window."""

    line_starts: LineStarts
    numbers: Sequence[int] | None = None
    """Of each line in the file, from 0, and of all lines together: where lines were joined or taken apart."""

    @cached_property
    def starts(self) -> Sequence[int]:
        """Where lines begin in `data`; the first may have begun earlier, then it is no line of this window."""
        return self.line_starts(self.data)

    def index_of(self, offset: int) -> int:
        """The first line that begins at `offset` of the file or later."""
        return bisect_left(self.starts, offset - self.offset)

    @property
    def first_whole(self) -> int:
        return 0 if self.offset == 0 else 1

    @cached_property
    def own(self) -> tuple[int, int]:
        """The lines of this window, from and up to."""
        return max(self.index_of(self.own_start), self.first_whole), self.index_of(self.own_end)

    @property
    def own_lines(self) -> int:
        if self.numbers is not None:
            return self.numbers[-1]
        first, end = self.own
        return max(0, end - first)

    def line_number(self, index: int) -> int:
        """From 0, counted from the piece's first line."""
        if self.numbers is not None:
            return self.numbers[index]
        return self.lines_before + index - self.own[0]

    def text_of(self, first: int, end: int) -> str:
        """Lines from and up to, together at most as long as an event may be."""
        begin = self.starts[first]
        limit = self.starts[end] if end < len(self.starts) else len(self.data)
        return self._decoded(begin, min(limit, begin + REACH))

    def text(self, index: int, most: int) -> str:
        start = self.starts[index]
        end = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.data)
        return self._decoded(start, min(end, start + most))

    def _decoded(self, start: int, end: int) -> str:
        return decoded(bytes(self.data[start:end])).rstrip("\r\n")


def decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\xa0", " ")


def short_window(lines: Sequence[str], numbers: Sequence[int], whole: bytes, line_starts: LineStarts) -> Window:
    """Of a whole short text, from the lines that were found in it, each with its number there."""
    data = memoryview("\n".join(lines).encode())
    total = whole.count(b"\n") + (not whole.endswith(b"\n")) if whole else 0
    return Window(data, 0, 0, 0, max(len(whole), len(data)), line_starts, (*numbers, total))


def windows(read: Read, start: int, end: int | None, line_starts: LineStarts, size: int = WINDOW) -> Iterator[Window]:
    """`read` gives the bytes from `start - REACH` on, or from 0; `end` None is where they end."""
    buffer = _taken(size + 2 * REACH)
    try:
        yield from _windows_in(buffer, read, start, end, line_starts)
    finally:
        _BUFFERS.append(buffer)


def _taken(size: int) -> memoryview:
    try:
        buffer = _BUFFERS.pop()
    except IndexError:
        buffer = memoryview(b"")
    return buffer if len(buffer) == size else memoryview(mmap(-1, size))  # only what is filled takes memory


def _windows_in(
    buffer: memoryview, read: Read, start: int, end: int | None, line_starts: LineStarts
) -> Iterator[Window]:
    filled = 0
    offset, own_start, lines_before = max(0, start - REACH), start, 0
    while True:
        wanted = len(buffer) if end is None else min(len(buffer), end + REACH - offset)
        filled = _filled(buffer, filled, wanted, read)
        at_end = filled < wanted or wanted < len(buffer)
        reached = offset + filled
        own_end = (reached if end is None else min(end, reached)) if at_end else reached - REACH
        window = Window(buffer[:filled], offset, lines_before, own_start, max(own_start, own_end), line_starts)
        yield window
        if at_end:
            return
        lines_before += window.own_lines
        keep_from = max(0, own_end - REACH - offset)
        buffer[: filled - keep_from] = bytes(buffer[keep_from:filled])
        filled, offset, own_start = filled - keep_from, offset + keep_from, own_end


def _filled(buffer: memoryview, filled: int, wanted: int, read: Read) -> int:
    """How much of the buffer is filled: less than wanted only where the bytes end."""
    while filled < wanted and (chunk := read(min(_CHUNK, wanted - filled))):
        buffer[filled : filled + len(chunk)] = chunk
        filled += len(chunk)
    return filled
