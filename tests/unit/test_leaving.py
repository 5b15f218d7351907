"""Which batches plain Spark skips, repeats or misses after a restore, by what the sink has and the home knows."""

import pytest

from holdfast.identifiers import BatchId
from holdfast.plans.leaving import continuation

CASES = [
    # barrier, newest plan, sink has, stateful → missing, skipped, replayed, repeated, twice, exact
    ((5, 5, 5, False), (None, None, None, None, None, True)),
    ((5, 6, 5, False), (None, None, None, 6, None, True)),
    ((5, 6, 6, False), (None, None, None, 6, None, True)),
    ((5, 9, 8, False), (None, (6, 8), None, 9, None, True)),
    ((5, 9, 9, False), (None, (6, 8), None, 9, None, True)),
    ((5, 9, 11, False), (None, (6, 10), None, 11, (10, 11), False)),
    ((5, 5, 7, False), (None, (6, 6), None, 7, (6, 7), False)),
    ((5, 9, 3, False), ((4, 5), None, None, 6, None, False)),
    ((5, 9, -1, False), ((0, 5), None, None, 6, None, False)),
    ((5, 9, None, False), (None, (6, 8), None, 9, None, False)),
    ((5, 5, None, False), (None, None, None, None, None, False)),
    ((5, 5, 5, True), (None, None, None, None, None, True)),
    ((5, 6, 5, True), (None, None, None, 6, None, True)),
    ((5, 6, 6, True), (None, None, (6, 6), None, None, True)),
    ((5, 9, 8, True), (None, None, (6, 8), 9, None, True)),
    ((5, 9, 9, True), (None, None, (6, 9), None, None, True)),
    ((5, 9, 11, True), (None, None, (6, 11), None, (10, 11), False)),
    ((5, 9, None, True), (None, None, (6, 8), 9, None, False)),
    ((5, 9, 3, True), ((4, 5), None, None, 6, None, False)),
]


@pytest.mark.parametrize(("given", "expected"), CASES, ids=str)
def test_each_batch_has_one_fate(given: tuple[int, int, int | None, bool], expected: tuple[object, ...]) -> None:
    barrier, planned, has, stateful = given
    sink = None if has is None else BatchId(has)
    way = continuation(BatchId(barrier), BatchId(planned), sink, stateful=stateful)
    assert (way.missing, way.skipped, way.replayed, way.repeated, way.twice, way.exact) == expected
