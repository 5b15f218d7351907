"""What Spark says of finished batches, in few records however many there are. Pure."""

from collections.abc import Iterable, Sequence
from itertools import chain

from holdfast.identifiers import BatchId
from holdfast.repository.entries import BatchSpan

KEPT = 12
"""Records in an entry of the journal, and in a heartbeat."""


def summed_up(spans: Sequence[BatchSpan], most: int = KEPT) -> tuple[BatchSpan, ...]:
    """Oldest first. Neighbours are added up until there are at most `most`; where their numbers do not follow one
    another, the oldest are left out."""
    held = tuple(spans)
    while len(held) > most:
        fewer = tuple(chain.from_iterable(_joined(pair) for pair in _pairs(held)))
        if len(fewer) == len(held):
            return held[-most:]
        held = fewer
    return held


def upto(spans: Iterable[BatchSpan], barrier: BatchId) -> tuple[BatchSpan, ...]:
    return tuple(span for span in spans if span.last <= barrier)


def behind(spans: Iterable[BatchSpan], barrier: BatchId) -> tuple[BatchSpan, ...]:
    return tuple(span for span in spans if span.last > barrier)


def mean_s(spans: Iterable[BatchSpan]) -> float | None:
    """How long a batch took; None when there is none."""
    told = list(spans)
    batches = sum(span.last + 1 - span.first for span in told)
    return sum(span.ms for span in told) / 1000 / batches if batches else None


def _pairs(spans: Sequence[BatchSpan]) -> Iterable[tuple[BatchSpan, ...]]:
    return (tuple(spans[at : at + 2]) for at in range(0, len(spans), 2))


def _joined(pair: tuple[BatchSpan, ...]) -> tuple[BatchSpan, ...]:
    if len(pair) < 2 or pair[0].last + 1 != pair[1].first:
        return pair
    a, b = pair
    longest = max(a.longest_ms, b.longest_ms)
    return (BatchSpan(a.first, b.last, b.at, a.ms + b.ms, longest, a.rows + b.rows, b.state_rows),)
