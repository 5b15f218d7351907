"""What the program that serves the pages says itself, above what its home says: the score of `holdfast demo`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    at: str
    text: str
    mark: str
    bad: bool = False


@dataclass(frozen=True)
class Board:
    title: str
    about: str
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str | int, ...], ...] = ()
    bad: frozenset[int] = frozenset()
    """Rows, by number, that say that something is wrong."""
    lines: tuple[Line, ...] = ()
    """Newest first."""
