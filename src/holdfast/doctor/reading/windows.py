"""A stream of bytes as overlapping windows of lines, in bounded memory.

A piece is the bytes from `start` to `end` of one file, of which there may be many. Each line belongs to the piece, and
within it to the window, in which its first byte is. A window also contains `REACH` bytes before and after its own
lines, so that no event is cut. A longer event is cut, at the same place wherever a piece begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

REACH = 512 * 1024
"""No event is longer; of a longer line, only this much is certain to be examined."""
WINDOW = 24 * 1024 * 1024
_CHUNK = 1024 * 1024
_CACHED = 256 * 1024
"""Bytes that stay in the processor's cache while they are scanned twice."""

Read = Callable[[int], bytes]
_LINE_FEED = 10


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

    @cached_property
    def starts(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """Where lines begin in `data`; the first may have begun earlier, then it is no line of this window."""
        data = np.frombuffer(self.data, dtype=np.uint8)
        parts = [
            np.flatnonzero(data[begin : begin + _CACHED] == _LINE_FEED) + (begin + 1)
            for begin in range(0, len(data), _CACHED)
        ]
        starts = np.concatenate([np.zeros(1, dtype=np.int64), *parts]).astype(np.int32)
        return starts[:-1] if len(starts) > 1 and starts[-1] == len(self.data) else starts

    @cached_property
    def lines(self) -> pa.Array:
        """Each with its line feed, none copied."""
        limits = np.append(self.starts, np.int32(len(self.data)))
        return pa.Array.from_buffers(
            pa.binary(), len(self.starts), [None, pa.py_buffer(limits), pa.py_buffer(self.data)]
        )

    def index_of(self, offset: int) -> int:
        """The first line that begins at `offset` of the file or later."""
        return int(np.searchsorted(self.starts, offset - self.offset))

    @property
    def first_whole(self) -> int:
        return 0 if self.offset == 0 else 1

    @cached_property
    def own(self) -> tuple[int, int]:
        """The lines of this window, from and up to."""
        return max(self.index_of(self.own_start), self.first_whole), self.index_of(self.own_end)

    @property
    def own_lines(self) -> int:
        first, end = self.own
        return max(0, end - first)

    def line_number(self, index: int) -> int:
        """From 0, counted from the piece's first line."""
        return self.lines_before + index - self.own[0]

    def text_of(self, first: int, end: int) -> str:
        """Lines from and up to, together at most as long as an event may be."""
        begin = int(self.starts[first])
        limit = int(self.starts[end]) if end < len(self.starts) else len(self.data)
        return self._decoded(begin, min(limit, begin + REACH))

    def text(self, index: int, most: int) -> str:
        start = int(self.starts[index])
        end = int(self.starts[index + 1]) if index + 1 < len(self.starts) else len(self.data)
        return self._decoded(start, min(end, start + most))

    def _decoded(self, start: int, end: int) -> str:
        return bytes(self.data[start:end]).decode("utf-8", "replace").replace("\xa0", " ").rstrip("\r\n")


def windows(read: Read, start: int, end: int | None, size: int = WINDOW) -> Iterator[Window]:
    """`read` gives the bytes from `start - REACH` on, or from 0; `end` None is where they end."""
    buffer, filled = np.empty(size + 2 * REACH, dtype=np.uint8).data, 0
    offset, own_start, lines_before = max(0, start - REACH), start, 0
    while True:
        wanted = len(buffer) if end is None else min(len(buffer), end + REACH - offset)
        filled = _filled(buffer, filled, wanted, read)
        at_end = filled < wanted or wanted < len(buffer)
        reached = offset + filled
        own_end = (reached if end is None else min(end, reached)) if at_end else reached - REACH
        window = Window(buffer[:filled], offset, lines_before, own_start, max(own_start, own_end))
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
