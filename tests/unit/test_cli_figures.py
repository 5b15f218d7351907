"""Numbers as a person reads them."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.cli import figures


@pytest.mark.parametrize(
    ("count", "shown"),
    [(None, "-"), (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_960, "1.0 MB"), (123_456_789, "123 MB")],
)
def test_size(count: int | None, shown: str) -> None:
    assert figures.size(count) == shown


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (None, "-"),
        (0, "0ms"),
        (999.7, "1.0s"),
        (59_999, "1m 00s"),
        (3_599_999, "1h 00m"),
        (7_800_000, "2h 10m"),
        (356_400_000, "4d 3h"),
    ],
)
def test_duration(ms: float | None, shown: str) -> None:
    assert figures.duration(ms) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-5, "just now"), (0.4, "just now"), (59.9, "59s ago"), (60, "1m 00s ago")]
)
def test_age(seconds: float, shown: str) -> None:
    then = datetime(2025, 1, 1, tzinfo=UTC)
    assert figures.age(then, then + timedelta(seconds=seconds)) == shown


def test_a_bar_is_as_long_as_its_share_and_never_vanishes_above_zero() -> None:
    assert figures.bar(5, 10, 10) == "█" * 5
    assert figures.bar(1, 1000, 10) == "▏"
    assert figures.bar(0, 10, 10) == ""
    assert figures.bar(20, 10, 10) == "█" * 10


@pytest.mark.parametrize(
    ("part", "whole", "filled"), [(0, 10, 0), (1, 1000, 1), (5, 10, 5), (10, 10, 10), (12, 10, 10), (0, 0, 0)]
)
def test_a_split_bar_always_has_its_width(part: int, whole: int, filled: int) -> None:
    """More than the whole happens: new bytes include the manifest, the total does not."""
    assert figures.split_bar(part, whole, 10) == ("█" * filled, "░" * (10 - filled))


def test_a_spark_line_crosses_out_what_failed() -> None:
    assert figures.spark_line([0, 50, None, 100]) == "▁▅✗█"
    assert figures.spark_line([]) == ""
