"""Lines, beginnings of events and needles, found for a whole window at once.

Python never processes most lines of a log: numpy finds the lines, RE2 those at which events begin, and Hyperscan those
that contain a needle, at more than a gigabyte a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import hyperscan
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.doctor.matching.clues import Rule
from holdfast.doctor.reading.formats import EVENT_START
from holdfast.doctor.reading.windows import Window

_CACHED = 256 * 1024
"""Bytes that stay in the processor's cache while they are scanned twice."""
_LINE_FEED = 10


def line_starts(data: memoryview) -> Sequence[int]:
    bytes_of_data = np.frombuffer(data, dtype=np.uint8)
    parts = [
        np.flatnonzero(bytes_of_data[begin : begin + _CACHED] == _LINE_FEED) + (begin + 1)
        for begin in range(0, len(data), _CACHED)
    ]
    starts = np.concatenate([np.zeros(1, dtype=np.int64), *parts]).astype(np.int32)
    return (starts[:-1] if len(starts) > 1 and starts[-1] == len(data) else starts).data  # quick to look up by place


def heads(window: Window) -> Sequence[int]:
    limits = np.append(np.asarray(window.starts), np.int32(len(window.data)))
    buffers = [None, pa.py_buffer(limits), pa.py_buffer(window.data)]
    lines = pa.Array.from_buffers(pa.binary(), len(window.starts), buffers)  # each with its line feed, none copied
    indices = pc.indices_nonzero(pc.match_substring_regex(lines, EVENT_START))
    found = np.frombuffer(indices.buffers()[1], dtype=np.int64, count=len(indices))  # to_numpy() imports pandas
    return found[np.searchsorted(found, window.first_whole) :].data


class VectorNeedles:
    def __init__(self, rules: tuple[Rule, ...]) -> None:
        rare = {needle for rule in rules if not rule.frequent for needle in rule.needles}
        everything = sorted({needle for rule in rules for needle in rule.needles})
        sought = sorted({needle for rule in rules if not rule.short_only for needle in rule.needles})
        self._is_rare = np.array([needle in rare for needle in sought], dtype=bool)
        self._wanted_by = [
            [number for number, rule in enumerate(rules) if needle in rule.needles] for needle in everything
        ]
        self._in_texts = _database(everything)
        self._in_windows = self._in_texts if sought == everything else _database(sought)

    def lines_of(self, window: Window) -> tuple[Sequence[int], Sequence[int]]:
        needles, ends = _found(self._in_windows, window.data)
        starts = np.asarray(window.starts)
        lines = np.searchsorted(starts, np.array(ends, dtype=np.int64) - 1, side="right") - 1
        rare = self._is_rare[np.array(needles, dtype=np.int64)]
        with_rare = np.unique(lines[rare])
        return with_rare.tolist(), np.setdiff1d(lines[~rare], with_rare).tolist()

    def rules_for(self, text: str) -> Sequence[int]:
        needles, _ = _found(self._in_texts, text.encode("utf-8", "replace"))
        return sorted({number for needle in needles for number in self._wanted_by[needle]})


def _database(needles: Sequence[str]) -> hyperscan.Database | None:
    if not needles:
        return None
    database = hyperscan.Database()
    database.compile(expressions=[needle.encode() for needle in needles], literal=True)
    return database


def _found(database: hyperscan.Database | None, data: bytes | memoryview) -> tuple[list[int], list[int]]:
    """The numbers of needles, and where each ends."""
    needles: list[int] = []
    ends: list[int] = []

    def found(needle: int, start: int, end: int, flags: int, context: object) -> None:
        needles.append(needle)
        ends.append(end)

    if database is not None and data:
        database.scan(cast(bytes, data), match_event_handler=found)  # any buffer will do
    return needles, ends


@lru_cache(maxsize=8)
def compiled(rules: tuple[Rule, ...]) -> VectorNeedles:
    return VectorNeedles(rules)
