"""Lines that contain what any rule looks for, found in a whole window at once.

Most lines have nothing. RE2 looks at several lines at a time, because a call costs it as much as a short line does;
only where it finds something it looks again, at each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.doctor.clues import Rule
from holdfast.doctor.windows import Window

Indices = np.ndarray[tuple[int], np.dtype[np.int64]]

_TOGETHER = 16


@dataclass(frozen=True)
class Needles:
    rare: str
    """A pattern for RE2."""
    frequent: tuple[bytes, ...]
    """What healthy jobs write all the time."""

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> Needles:
        rules = tuple(rules)
        rare = {needle for rule in rules if not rule.frequent for needle in rule.needles}
        everything = {needle for rule in rules for needle in rule.needles}
        return cls(_pattern(rare), tuple(needle.encode() for needle in sorted(everything - rare)))


def _pattern(needles: Iterable[str]) -> str:
    """One that matches nothing, when there are none."""
    return "|".join(re.escape(needle) for needle in sorted(needles)) or r"[^\x00-\xff]"


def rare_lines(window: Window, needles: Needles) -> Indices:
    """Those with a rare needle, in order."""
    limits = np.append(window.starts[::_TOGETHER], np.int32(len(window.data)))
    blocks = _matching(_array(window, limits), needles.rare)
    lines = (blocks[:, None] * _TOGETHER + np.arange(_TOGETHER)).ravel()
    lines = lines[lines < len(window.starts)]
    if not len(lines):
        return lines
    return lines[_matching(window.lines.take(pa.array(lines)), needles.rare)]


def frequent_lines(window: Window, needles: Needles) -> Indices:
    """Those with a frequent needle, in order."""
    places = np.fromiter((place for needle in needles.frequent for place in _places(window.data, needle)), np.int64)
    found: Indices = np.unique(np.searchsorted(window.starts, places, side="right") - 1)
    return found


def _places(data: bytes, needle: bytes) -> Iterator[int]:
    """One in each line at most."""
    place = data.find(needle)
    while place >= 0:
        yield place
        end = data.find(b"\n", place)
        place = data.find(needle, end) if end >= 0 else -1


def _array(window: Window, limits: np.ndarray[tuple[int], np.dtype[np.int32]]) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), len(limits) - 1, [None, pa.py_buffer(limits), pa.py_buffer(window.data)])


def _matching(texts: pa.Array, pattern: str) -> Indices:
    found: Indices = np.flatnonzero(pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False))
    return found
