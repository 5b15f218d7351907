"""Where a batch ends in each partition, from Spark's offset log. Pure.

Spark writes for each Kafka source one line: `{"orders":{"0":17,"1":12}}`. A number is the offset of the next record to
read, as in a consumer group.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from holdfast.checkpoint.spark_files import NotUnderstood, source_offsets


class Partition(NamedTuple):
    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


Positions = Mapping[Partition, int]
"""The next record to read, by partition."""

# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(dict[str, dict[str, int]])


def positions_in(data: bytes, source: str) -> Positions:
    """Of one source in an entry of the offset log; none before its first record. `source` is the name that the user
    gave it, else its place. Raises `NotUnderstood`."""
    offsets = dict(source_offsets(data))
    if source not in offsets:
        raise NotUnderstood(f"the offsets have no source {source}, only {', '.join(offsets) or 'none'}")
    return parsed(offsets[source])


def parsed(offset: str) -> Positions:
    """One line of Spark. Raises `NotUnderstood`."""
    if offset in ("", "-"):
        return {}
    try:
        topics = _DECODER.decode(offset)
    except msgspec.DecodeError as error:
        raise NotUnderstood(f"these are not offsets of Kafka: {error}") from error
    return {_partition(topic, number, at): at for topic, found in topics.items() for number, at in found.items()}


def _partition(topic: str, number: str, at: int) -> Partition:
    if not (number.isascii() and number.isdigit()):
        raise NotUnderstood(f"{number!r} is not a partition of {topic}")
    if at < 0:
        raise NotUnderstood(f"{at} is not an offset of {topic}[{number}]")
    return Partition(topic, int(number))


def least(several: Iterable[Positions]) -> Positions:
    """Where a partition is read by several sources, only what all of them have read counts."""
    found: dict[Partition, int] = {}
    for positions in several:
        for partition, at in positions.items():
            found[partition] = min(at, found.get(partition, at))
    return found


def furthest(several: Iterable[Positions]) -> Positions:
    found: dict[Partition, int] = {}
    for positions in several:
        for partition, at in positions.items():
            found[partition] = max(at, found.get(partition, at))
    return found
