"""Lines, beginnings of events and needles, found with Python alone."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from holdfast.doctor.matching.clues import Rule
from holdfast.doctor.reading.formats import EVENT_START
from holdfast.doctor.reading.windows import REACH, Window

_LINE_FEED = re.compile(rb"\n")
_HEAD = re.compile(EVENT_START.removeprefix("^").encode())
_INDENTED = frozenset(b"\t ")


def line_starts(data: memoryview) -> Sequence[int]:
    starts = [0, *(found.end() for found in _LINE_FEED.finditer(data))]
    return starts[:-1] if len(starts) > 1 and starts[-1] == len(data) else starts


def heads(window: Window) -> Sequence[int]:
    data, starts = window.data, window.starts
    ends = [*starts[1:], len(data)]
    return [
        index
        for index in range(window.first_whole, len(starts))
        if (start := starts[index]) < len(data)
        and data[start] not in _INDENTED
        and _HEAD.match(data, start, min(ends[index], start + REACH))
    ]


class PlainNeedles:
    def __init__(self, rules: tuple[Rule, ...]) -> None:
        rare = {needle for rule in rules if not rule.frequent for needle in rule.needles}
        everything = sorted({needle for rule in rules for needle in rule.needles})
        sought = {needle for rule in rules if not rule.short_only for needle in rule.needles}
        self._needles = [(needle.encode(), needle in rare) for needle in sorted(sought)]
        self._wanted_by = [
            (needle, [number for number, rule in enumerate(rules) if needle in rule.needles]) for needle in everything
        ]

    def lines_of(self, window: Window) -> tuple[Sequence[int], Sequence[int]]:
        data, starts = bytes(window.data), window.starts
        found: dict[bool, set[int]] = {True: set(), False: set()}
        for needle, rare in self._needles:
            at = data.find(needle)
            while at >= 0:
                line = bisect_right(starts, at) - 1
                found[rare].add(line)
                after = starts[line + 1] if line + 1 < len(starts) else len(data)
                at = data.find(needle, max(at + 1, after - len(needle)))
        return sorted(found[True]), sorted(found[False] - found[True])

    def rules_for(self, text: str) -> Sequence[int]:
        return sorted({number for needle, numbers in self._wanted_by if needle in text for number in numbers})


@lru_cache(maxsize=8)
def compiled(rules: tuple[Rule, ...]) -> PlainNeedles:
    return PlainNeedles(rules)
