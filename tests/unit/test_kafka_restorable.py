"""How long brokers keep what a checkpoint needs: never promised for longer than they do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.identifiers import CheckpointId
from holdfast.sources.positions import Partition
from holdfast.sources.restorable import MOMENTS, Kept, Restorable, TopicRetention, expiring, moments, restorable

P0, P1 = Partition("orders", 0), Partition("orders", 1)
DAY = 86_400.0
NOW = 100 * DAY
WEEK = TopicRetention(7 * DAY, by_size=False, compacts=False)
ID = CheckpointId(3)


def kept(retention: TopicRetention = WEEK, earliest: int = 0, per_day: int = 100, age_days: int = 7) -> Kept:
    """One partition, written evenly since `age_days` ago; the newest record is `per_day * age_days`."""

    def first_since(moment: float) -> int:
        written = (moment - (NOW - age_days * DAY)) / DAY * per_day
        return max(earliest, min(per_day * age_days, int(-(-written // 1))))

    table = [(moment, first_since(moment)) for moment in moments(NOW, retention)]
    return Kept({"orders": retention}, {P0: earliest}, {P0: table})


def test_a_checkpoint_at_the_end_lasts_as_long_as_new_records() -> None:
    found = restorable(ID, {P0: 700}, kept(), NOW)
    assert found.until == NOW + 7 * DAY
    assert found.first == str(P0)


def test_a_checkpoint_of_two_days_ago_lasts_two_days_less_but_not_too_long() -> None:
    found = restorable(ID, {P0: 500}, kept(), NOW)
    assert found.until is not None
    assert NOW + 5 * DAY - 7 * DAY / MOMENTS <= found.until <= NOW + 5 * DAY


def test_what_is_deleted_is_gone() -> None:
    found = restorable(ID, {P0: 99}, kept(earliest=100), NOW)
    assert (found.gone, found.first) == (True, str(P0))
    assert not restorable(ID, {P0: 100}, kept(earliest=100), NOW).gone


def test_what_has_aged_and_is_still_there_may_go_at_any_time() -> None:
    table = Kept({"orders": WEEK}, {P0: 0}, {P0: [(moment, 50) for moment in moments(NOW, WEEK)]})
    found = restorable(ID, {P0: 10}, table, NOW)
    assert (found.until, found.gone) == (NOW, False)


def test_the_partition_that_goes_first_decides() -> None:
    two = Kept({"orders": WEEK}, {P0: 0, P1: 0}, {P0: [(NOW, 5)], P1: [(NOW - DAY, 5), (NOW, 9)]})
    found = restorable(ID, {P0: 5, P1: 6}, two, NOW)
    assert (found.until, found.first) == (NOW + 6 * DAY, str(P1))


def test_records_that_do_not_age_set_no_limit() -> None:
    for_ever = TopicRetention(None, by_size=True, compacts=True)
    found = restorable(ID, {P0: 5}, kept(for_ever), NOW)
    assert (found.until, found.by_size, found.compacts) == (None, True, True)
    assert moments(NOW, for_ever) == ()
    assert restorable(ID, {P0: 5}, kept(for_ever, earliest=6), NOW).gone, "size took it"


def test_what_brokers_say_nothing_about_is_not_judged() -> None:
    assert restorable(ID, {P1: 0}, kept(earliest=100), NOW) == Restorable(ID, None)
    assert restorable(ID, {}, kept(), NOW) == Restorable(ID, None)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 700), st.integers(1, 14), st.integers(1, 14))
def test_it_is_never_promised_longer_than_the_record_is_kept(at: int, keeps_days: int, age_days: int) -> None:
    """The record at `at` was written `at / 100` days after the first one."""
    retention = TopicRetention(keeps_days * DAY, by_size=False, compacts=False)
    found = restorable(ID, {P0: min(at, 100 * age_days)}, kept(retention, age_days=age_days), NOW)
    written = NOW - age_days * DAY + min(at, 100 * age_days) / 100 * DAY
    assert found.until is not None
    assert found.until <= max(NOW, written + retention.seconds) + 1  # type: ignore[operator]


@pytest.mark.parametrize(
    ("left", "retention", "warned"),
    [
        (10 * 3600.0, 7 * DAY, True),
        (20 * 3600.0, 7 * DAY, False),
        (1800.0, 6 * 3600.0, True),
        (7200.0, 6 * 3600.0, False),
        (400.0, 600.0, False),
        (200.0, 600.0, True),
    ],
)
def test_a_warning_comes_in_time_and_not_always(left: float, retention: float, warned: bool) -> None:
    found = Restorable(ID, NOW + left, first=str(P0), retention_s=retention)
    assert (expiring([found], NOW) is found) is warned


def test_the_first_to_go_is_named_and_what_is_gone_is_not() -> None:
    soon = Restorable(CheckpointId(1), NOW + 60, retention_s=7 * DAY)
    sooner = Restorable(CheckpointId(2), NOW + 30, retention_s=7 * DAY)
    gone = Restorable(CheckpointId(0), NOW, gone=True, retention_s=7 * DAY)
    assert expiring([gone, soon, sooner, Restorable(CheckpointId(4), None)], NOW) is sooner
    assert expiring([gone], NOW) is None
