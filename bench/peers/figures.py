"""The figures of the page, from the records: each with its spread, and who is better than holdfast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from bench.peers.pipeline import Query
from bench.peers.record import Faults, Round, Rounds, Suffered

OURS = ("own-writer", "our-sink")


@dataclass(frozen=True)
class Spread:
    """One value per round."""

    values: tuple[float, ...]
    disturbed: bool

    @property
    def middle(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class Figure:
    name: str
    unit: str
    more_is_better: bool
    of: Callable[[Round], Iterable[float]]
    """Of one round; none where the round does not say."""
    worst: bool = False
    """The worst of each round, where a round has several."""

    def spread(self, rounds: Sequence[Round]) -> Spread | None:
        each = [(round, tuple(self.of(round))) for round in rounds]
        told = [(round, values) for round, values in each if values]
        if not told:
            return None
        values = tuple(max(values) if self.worst else median(values) for _, values in told)
        return Spread(values, any(round.disturbed for round, _ in told))


THROUGHPUT = Figure("throughput", "rows/s", True, lambda round: (round.per_second,))
PROCESSOR = Figure("processor time per million rows", "s", False, lambda round: (round.processor_per_million,))
WRITTEN = Figure("first output written after `kill -9`", "s", False, lambda round: _known(round.first_written_s))
VISIBLE = Figure("first output visible after `kill -9`", "s", False, lambda round: _known(round.first_visible_s))
INCREMENTAL = Figure("incremental checkpoint", "ms", False, lambda round: _milliseconds(round, full=False))
SLOWEST = Figure("slowest incremental checkpoint", "ms", False, lambda round: _milliseconds(round, False), worst=True)
INCREMENTAL_BYTES = Figure("bytes of an incremental checkpoint", "MB", False, lambda round: _megabytes(round, False))
FULL = Figure("full checkpoint", "ms", False, lambda round: _milliseconds(round, full=True))
FULL_BYTES = Figure("bytes of a full checkpoint", "MB", False, lambda round: _megabytes(round, full=True))
RUNNING = (THROUGHPUT, PROCESSOR)
RECOVERY = (WRITTEN, VISIBLE)
CHECKPOINTS = (INCREMENTAL, SLOWEST, INCREMENTAL_BYTES, FULL, FULL_BYTES)


def _known(value: float | None) -> tuple[float, ...]:
    return () if value is None else (value,)


def _milliseconds(round: Round, full: bool) -> list[float]:
    return [each.seconds * 1000 for each in round.checkpoints if each.full == full]


def _megabytes(round: Round, full: bool) -> list[float]:
    return [each.written / 1e6 for each in round.checkpoints if each.full == full]


def of_query(rounds: Rounds | None, query: Query) -> list[Round]:
    return [each for each in rounds.rounds if each.query == query] if rounds is not None else []


@dataclass(frozen=True)
class Loss:
    figure: Figure
    query: Query
    other: str
    theirs: Spread
    ours: dict[str, Spread]


def losses(records: dict[str, Rounds], query: Query, figures: Sequence[Figure]) -> Iterator[Loss]:
    """Where somebody else is better than a variant of holdfast; all variants that lose are named."""
    for figure in figures:
        spreads = {name: figure.spread(of_query(rounds, query)) for name, rounds in records.items()}
        for other, theirs in spreads.items():
            if other in OURS or theirs is None:
                continue
            lost = {
                name: ours
                for name in OURS
                if (ours := spreads.get(name)) is not None and _better(figure, theirs.middle, ours.middle)
            }
            if lost:
                yield Loss(figure, query, other, theirs, lost)


def _better(figure: Figure, one: float, other: float) -> bool:
    return one > other if figure.more_is_better else one < other


def advantages(fault: str, records: dict[str, Faults]) -> Iterator[tuple[str, str, str]]:
    """(other, ours, in what) where another system came out of a fault better."""
    told = {name: each for name, faults in records.items() for each in faults.suffered if each.fault == fault}
    for other, theirs in told.items():
        for ours in OURS:
            if other in OURS or theirs.not_applicable or ours not in told or told[ours].not_applicable:
                continue
            for what in _ahead(theirs, told[ours]):
                yield other, ours, what


def _ahead(one: Suffered, other: Suffered) -> Iterator[str]:
    ranks = ("no", "by hand", "by itself")
    if one.kept_running and not other.kept_running:
        yield "no process had to be started again"
    if one.progressed and not other.progressed:
        yield "it wrote output again without a hand"
    if ranks.index(one.restored) > ranks.index(other.restored):
        yield f"it was restored {one.restored}"
    if one.checked is not None and other.checked is not None and one.checked.right and not other.checked.right:
        yield "its output was right"
    longer = other.silent_s - one.silent_s
    if one.progressed and other.progressed and longer > max(one.usual_silent_s, other.usual_silent_s):
        yield f"{one.silent_s:.0f} s without output instead of {other.silent_s:.0f} s"
