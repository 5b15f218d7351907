"""What every system computes, and the right answer.

The input is the numbers 0, 1, 2 … in order; number n happens at second n / `per_second` of event time.

    keyed     per key: count, sum, and the largest SHA-512 of its numbers. The state never shrinks. Updates go nowhere
    windowed  per second and key: count and sum, after a watermark. Each row is written once, to files
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

Query = Literal["keyed", "windowed"]
QUERIES: tuple[Query, ...] = ("keyed", "windowed")
STRIDE = 7919
"""Neighbours in the input are no neighbours in the state."""


class Shape(msgspec.Struct, frozen=True):
    """The sizes of both queries."""

    keys: int
    """Of the keyed query; about 250 bytes of state each."""
    window_keys: int
    """New groups per second of event time."""
    per_second: int
    """Rows per second of event time."""
    delay: int
    """Seconds of event time that the watermark stays behind: so many windows are open."""
    batch: int
    """Rows of a micro-batch when batches follow each other without a pause."""


class Group(NamedTuple):
    """One row of the windowed query."""

    second: int
    customer: int
    orders: int
    total: int


class Checked(msgspec.Struct, frozen=True):
    """Rows of the windowed query against the right answer."""

    seconds: int
    """Of event time, that were compared."""
    lost: int
    doubled: int
    wrong: int

    @property
    def right(self) -> bool:
        return self.lost == self.doubled == self.wrong == 0


@dataclass(frozen=True)
class _Window:
    """The right answer for one second."""

    shape: Shape
    second: int

    def groups(self) -> set[Group]:
        first = self.second * self.shape.per_second
        orders: Counter[int] = Counter()
        totals: Counter[int] = Counter()
        for number in range(first, first + self.shape.per_second):
            orders[number % self.shape.window_keys] += 1
            totals[number % self.shape.window_keys] += number
        return {Group(self.second, customer, count, totals[customer]) for customer, count in orders.items()}


def check(rows: Iterable[Group], shape: Shape, margin: int) -> Checked:
    """Windows are closed in order. Those of the newest seconds, `margin` of them, may still be on their way."""
    found = Counter(rows)
    end = max((row.second for row in found), default=0) - margin
    kept = {row: times for row, times in found.items() if row.second < end}
    right = {row for second in range(end) for row in _Window(shape, second).groups()}
    places = Counter((row.second, row.customer) for row in kept)
    lost = sum((row.second, row.customer) not in places for row in right)
    doubled = sum(kept.values()) - len(places)
    return Checked(max(end, 0), lost, doubled, sum(row not in right for row in kept))
