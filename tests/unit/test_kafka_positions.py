"""Positions in partitions, from Spark's offset log."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.checkpoint.spark_files import NotUnderstood
from holdfast.sources.positions import Partition, furthest, least, parsed, positions_in

TOPICS = st.dictionaries(
    st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True),
    st.dictionaries(st.integers(0, 500), st.integers(0, 2**62), max_size=4),
    max_size=3,
)


def entry(*offsets: str, version: str = "v1") -> bytes:
    return "\n".join([version, '{"batchWatermarkMs":0,"conf":{}}', *offsets]).encode()


def as_spark(topics: dict[str, dict[int, int]]) -> str:
    return json.dumps({topic: {str(number): at for number, at in parts.items()} for topic, parts in topics.items()})


@settings(deadline=None, max_examples=50)
@given(TOPICS)
def test_every_partition_that_spark_writes_is_read(topics: dict[str, dict[int, int]]) -> None:
    expected = {Partition(topic, number): at for topic, parts in topics.items() for number, at in parts.items()}
    assert parsed(as_spark(topics)) == expected
    assert positions_in(entry("-", as_spark(topics)), "1") == expected


def test_a_source_is_found_by_its_place_or_by_its_name() -> None:
    orders, clicks = '{"orders":{"0":1}}', '{"clicks":{"0":2}}'
    assert positions_in(entry(orders, clicks), "1") == {Partition("clicks", 0): 2}
    named = entry(f"mine:{clicks}", f"0:{orders}", version="v2")
    assert positions_in(named, "mine") == {Partition("clicks", 0): 2}
    assert positions_in(named, "0") == {Partition("orders", 0): 1}


def test_a_source_without_a_record_yet_has_no_position() -> None:
    assert positions_in(entry("-"), "0") == {}


@pytest.mark.parametrize(
    "offset", ['{"logOffset":3}', "7", '{"a":{"x":1}}', '{"a":{"0":-2}}', '{"a":{"0":"1"}}', "{", '{"a":{"²":1}}']
)
def test_what_is_no_offset_of_kafka_is_not_understood(offset: str) -> None:
    with pytest.raises(NotUnderstood):
        parsed(offset)


def test_a_source_that_is_not_there_is_named() -> None:
    with pytest.raises(NotUnderstood, match="no source 2, only 0, 1"):
        positions_in(entry("-", "-"), "2")
    with pytest.raises(NotUnderstood):
        positions_in(b"v1", "0")


def test_a_partition_that_two_sources_read_counts_as_far_as_both_have_read_it() -> None:
    one, other, third = Partition("a", 0), Partition("a", 1), Partition("b", 0)
    several = [{one: 5, other: 7}, {one: 3, third: 1}]
    assert least(several) == {one: 3, other: 7, third: 1}
    assert furthest(several) == {one: 5, other: 7, third: 1}
