"""How far a query is behind its topics: records, time, trend."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.sources.lag import Lag, LagLog
from holdfast.sources.positions import Partition

P0, P1 = Partition("orders", 0), Partition("orders", 1)


def watched(*looks: tuple[float, int, int]) -> Lag:
    """Each look: when, how far the query is, how far the topic is."""
    log = LagLog()
    for now, at, end in looks:
        lag = log.add(now, {P0: at}, None, {P0: end})
    return lag


def test_records_are_counted_by_partition_and_in_all() -> None:
    lag = LagLog().add(0.0, {P0: 10, P1: 20}, {P0: 4, P1: 20}, {P0: 15, P1: 20})
    assert [(each.partition, each.processed, each.published) for each in lag.partitions] == [(P0, 5, 11), (P1, 0, 0)]
    assert (lag.processed, lag.published) == (5, 11)


def test_what_is_not_known_is_left_out() -> None:
    lag = LagLog().add(0.0, {P0: 10, P1: 20}, {P0: 4}, {P0: 15})
    assert [each.partition for each in lag.partitions] == [P0], "a partition that is gone"
    assert LagLog().add(0.0, {P0: 1}, None, {P0: 2}).published is None
    assert LagLog().add(0.0, {P0: 1}, {}, {P0: 2}).partitions[0].published is None


def test_a_topic_that_was_cut_off_is_no_negative_lag() -> None:
    lag = LagLog().add(0.0, {P0: 10}, {P0: 10}, {P0: 3})
    assert (lag.processed, lag.published, lag.seconds) == (0, 0, 0.0)


def test_a_query_that_has_everything_is_not_late() -> None:
    assert watched((0, 5, 5)).seconds == 0.0
    assert watched((0, 5, 5), (60, 90, 90)).seconds == 0.0


def test_the_age_is_when_the_topic_ended_there() -> None:
    lag = watched((0, 0, 100), (60, 0, 200), (120, 150, 300))
    assert (lag.seconds, lag.at_least) == (90.0, False), "it ended at 150 in the midst of 0 and 60"
    lag = watched((0, 0, 100), (60, 0, 200), (120, 200, 300))
    assert lag.seconds == 60.0


def test_what_is_older_than_the_first_look_is_at_least_that_old() -> None:
    assert watched((0, 50, 100)).seconds is None
    lag = watched((0, 50, 100), (60, 50, 200))
    assert (lag.seconds, lag.at_least) == (60.0, True)


def test_looks_in_quick_succession_forget_nothing() -> None:
    looks = [(float(second), 0, 100 + second) for second in range(3600)]
    lag = watched(*looks, (3600.0, 3000, 3800))
    assert lag.seconds is not None
    assert lag.seconds == pytest.approx(700, abs=1)
    assert not lag.at_least


@pytest.mark.parametrize(
    ("lags", "trend", "ends"),
    [
        ([100, 100], "steady", None),
        ([100, 103], "steady", None),
        ([100, 200], "growing", None),
        ([0, 10], "growing", None),
        ([600, 300], "shrinking", 60.0),
        ([600, 0], "shrinking", 0.0),
        ([0, 0], "steady", None),
    ],
)
def test_it_is_said_whether_the_lag_grows_and_when_it_is_gone(lags: list[int], trend: str, ends: float | None) -> None:
    lag = watched(*((60.0 * n, 0, each) for n, each in enumerate(lags)))
    assert (lag.trend, lag.caught_up_in_s) == (trend, ends)


def test_too_short_a_time_shows_no_trend() -> None:
    assert watched((0, 0, 100)).trend is None
    assert watched((0, 0, 100), (15, 0, 900)).trend is None


def test_only_the_last_minutes_count() -> None:
    lag = watched((0, 0, 9000), (400, 0, 100), (500, 0, 200))
    assert lag.trend == "growing"


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 100), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=40))
def test_age_and_trend_fit_the_lag(steps: list[tuple[int, int, int]]) -> None:
    log, now, at, end = LagLog(), 0.0, 0, 0
    for took, wrote, read in steps:
        now, end = now + took, end + wrote
        at = min(end, at + read)
        lag = log.add(now, {P0: at}, {P0: at}, {P0: end})
        assert lag.processed == end - at == lag.published
        assert lag.seconds is None or 0.0 <= lag.seconds <= now
        assert (lag.seconds == 0.0) or lag.processed > 0
        assert (lag.caught_up_in_s is not None) == (lag.trend == "shrinking")
