"""Whether the brokers still have what a checkpoint needs. Pure: positions and answers of brokers in, troubles out.

Offsets mean something only in the topic that they were read from. A topic that was deleted and created again has the
same name and another id; the same name on another cluster is another topic. Spark looks at neither.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from holdfast.sources.brokers import Cluster, Topic
from holdfast.sources.positions import Partition, Positions

Kind = Literal["another_cluster", "recreated", "topic_gone", "partitions_gone", "aged_out", "cut_off", "new_partitions"]


@dataclass(frozen=True)
class RecordedSource:
    """What the run that wrote the offsets knew of the brokers. What it did not know is not compared."""

    cluster: str | None
    topics: Mapping[str, str]
    """The id of each topic."""


@dataclass(frozen=True)
class Needed:
    """What a job that resumes reads again."""

    start: Positions
    """The first record, by partition."""
    planned: Positions
    """Up to here batches are already cut; at least the start."""


@dataclass(frozen=True)
class SourceTrouble:
    kind: Kind
    message: str
    """Names both sides: what the checkpoint needs, and what the brokers have."""

    @property
    def harmless(self) -> bool:
        return self.kind == "new_partitions"

    @property
    def of_another_topic(self) -> bool:
        """The offsets are of another topic than the brokers'. Only a person can say that they fit."""
        return self.kind in ("another_cluster", "recreated")


def troubles(recorded: RecordedSource, needed: Needed, found: Cluster) -> tuple[SourceTrouble, ...]:
    if recorded.cluster is not None and found.id is not None and recorded.cluster != found.id:
        topics = ", ".join(sorted({partition.topic for partition in needed.start}))
        why = f"its offsets of {topics} are of the Kafka cluster {recorded.cluster}, and the brokers are of {found.id}"
        return (SourceTrouble("another_cluster", why),)
    names = sorted({partition.topic for partition in needed.start})
    return tuple(trouble for name in names for trouble in _in_topic(name, recorded, needed, found.topics.get(name)))


def _in_topic(name: str, recorded: RecordedSource, needed: Needed, found: Topic | None) -> Iterator[SourceTrouble]:
    start = {partition: at for partition, at in needed.start.items() if partition.topic == name}
    if found is None:
        why = f"it has offsets of the topic {name}, which the brokers do not have"
        yield SourceTrouble("topic_gone", why)
        return
    known = recorded.topics.get(name)
    if known is not None and found.id is not None and known != found.id:
        why = (
            f"its offsets are of the topic {name} with the id {known}, and the one of that name now has the id "
            f"{found.id}: it was deleted and created again"
        )
        yield SourceTrouble("recreated", why)
        return
    yield from _partitions(name, start, found)
    for partition, at in sorted(start.items()):
        if partition.number in found.partitions:
            yield from _in_partition(partition, at, needed.planned.get(partition, at), found)


def _partitions(name: str, start: Positions, found: Topic) -> Iterator[SourceTrouble]:
    held = {partition.number for partition in start}
    if gone := sorted(held - set(found.partitions)):
        why = (
            f"it has offsets of partition {_listed(gone)} of {name}, and that has {len(found.partitions)} partitions "
            f"of {len(held)} now"
        )
        yield SourceTrouble("partitions_gone", why)
    if new := sorted(set(found.partitions) - held):
        why = f"{name} has partition {_listed(new)} beyond the {len(held)} that were read; read from the beginning"
        yield SourceTrouble("new_partitions", why)


def _in_partition(partition: Partition, start: int, planned: int, topic: Topic) -> Iterator[SourceTrouble]:
    has = topic.partitions[partition.number]
    if start < has.earliest:
        why = (
            f"it needs {partition} from offset {start}, and the oldest that the brokers still have is {has.earliest}: "
            f"{has.earliest - start} records are gone"
        )
        yield SourceTrouble("aged_out", why)
    if planned > has.latest:
        why = f"it has read {partition} up to offset {planned}, and the brokers have it only up to {has.latest}"
        yield SourceTrouble("cut_off", why)


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (f" and {len(numbers) - 5} more" if len(numbers) > 5 else "")
