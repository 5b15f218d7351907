"""Two ways of finding lines, beginnings of events and needles in a window, with the same result.

`PLAIN` needs nothing but Python and starts at once: for a paste or a file. `fast()` needs numpy, pyarrow and hyperscan,
is many times faster, and takes half a second to import: for the workers of Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple, Protocol

from holdfast.doctor.matching import plain
from holdfast.doctor.matching.clues import Rule
from holdfast.doctor.reading.windows import LineStarts, Window

_PACKAGES = ("numpy", "pyarrow", "hyperscan")


class Needles(Protocol):
    """Finds all texts that the rules look for, in a whole window or in one event."""

    def lines_of(self, window: Window) -> tuple[Sequence[int], Sequence[int]]:
        """Those with a rare needle, and others with a needle that healthy jobs write all the time; in order."""
        ...

    def rules_for(self, text: str) -> Sequence[int]:
        """The numbers of the rules that may recognise something in it, in order."""
        ...


class CompileNeedles(Protocol):
    def __call__(self, rules: tuple[Rule, ...]) -> Needles: ...


class FindHeads(Protocol):
    def __call__(self, window: Window) -> Sequence[int]: ...


class Engine(NamedTuple):
    line_starts: LineStarts
    heads: FindHeads
    """The lines of a window at which events begin."""
    needles: CompileNeedles


PLAIN = Engine(plain.line_starts, plain.heads, plain.compiled)


@cache
def fast() -> Engine:
    """The plain one where a package is missing."""
    if any(find_spec(name) is None for name in _PACKAGES):
        return PLAIN
    from holdfast.doctor.matching import vectors

    return Engine(vectors.line_starts, vectors.heads, vectors.compiled)
