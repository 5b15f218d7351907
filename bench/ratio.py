"""One measured ratio, and whether it is what was promised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """holdfast divided by what it is compared with."""

    name: str
    value: float
    more_is_better: bool
    expected: float | None = None
    """The least, or the most, that was promised; None when nothing was."""
    disturbed: bool = False
    """Other programs kept the machine busy meanwhile: the value says nothing."""

    @property
    def met(self) -> bool | None:
        if self.expected is None or self.disturbed:
            return None
        return self.value >= self.expected if self.more_is_better else self.value <= self.expected

    @property
    def promise(self) -> str:
        if self.expected is None:
            return ""
        return f"{'≥' if self.more_is_better else '≤'} {self.expected:.2f}"


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that is not below `share` of all values. No interpolation: it is one that was measured."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
