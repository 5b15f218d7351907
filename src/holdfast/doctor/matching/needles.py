"""Finds all texts that the rules look for in a whole window, or in one event, at once.

Most lines have nothing. Hyperscan looks for all needles at once, at more than a gigabyte a second.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import cast

import hyperscan
import numpy as np

from holdfast.doctor.matching.clues import Rule
from holdfast.doctor.reading.windows import Window

Indices = np.ndarray[tuple[int], np.dtype[np.int64]]


class Needles:
    def __init__(self, rules: tuple[Rule, ...]) -> None:
        rare = {needle for rule in rules if not rule.frequent for needle in rule.needles}
        everything = sorted({needle for rule in rules for needle in rule.needles})
        self._is_rare = np.array([needle in rare for needle in everything], dtype=bool)
        self._wanted_by = [
            [number for number, rule in enumerate(rules) if needle in rule.needles] for needle in everything
        ]
        self._database = hyperscan.Database() if everything else None
        if self._database is not None:
            self._database.compile(expressions=[needle.encode() for needle in everything], literal=True)

    def lines_of(self, window: Window) -> tuple[Indices, Indices]:
        """Those with a rare needle, and others with a needle that healthy jobs write all the time; in order."""
        needles, ends = self._found(window.data)
        lines = np.searchsorted(window.starts, np.array(ends, dtype=np.int64) - 1, side="right") - 1
        rare = self._is_rare[np.array(needles, dtype=np.int64)]
        with_rare: Indices = np.unique(lines[rare])
        others: Indices = np.setdiff1d(lines[~rare], with_rare)
        return with_rare, others

    def rules_for(self, text: str) -> list[int]:
        """The numbers of the rules that may recognise something in it."""
        needles, _ = self._found(text.encode("utf-8", "replace"))
        return sorted({number for needle in needles for number in self._wanted_by[needle]})

    def _found(self, data: bytes | memoryview) -> tuple[list[int], list[int]]:
        """The numbers of needles, and where each ends."""
        needles: list[int] = []
        ends: list[int] = []

        def found(needle: int, start: int, end: int, flags: int, context: object) -> None:
            needles.append(needle)
            ends.append(end)

        if self._database is not None and data:
            self._database.scan(cast(bytes, data), match_event_handler=found)  # any buffer will do
        return needles, ends


def needles_of(rules: Iterable[Rule]) -> Needles:
    return _compiled(tuple(rules))


@lru_cache(maxsize=8)
def _compiled(rules: tuple[Rule, ...]) -> Needles:
    return Needles(rules)
