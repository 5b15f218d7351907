"""Looks now and then how the query reads its Kafka topics, and counts what it passes over with failOnDataLoss=false."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from holdfast.job_log import log
from holdfast.runtime.clock import Clock
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.ports import Query
from holdfast.runtime.reports.alarms import Alarms
from holdfast.runtime.sources.asking import OpenClients, Question, by_brokers
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.positions import Partition, Positions, furthest
from holdfast.sources.reading import BatchRead, KafkaReading, ReadingLog
from holdfast.sources.skipped import SkipCount, Skipped, skipped_in

SKIPPED = "kafka_records_skipped"
SKIPPED_HINT = "failOnDataLoss=false gives them up; keep records as long as the oldest checkpoint that may be needed"
LOOK_S = 15.0
_NAMED = 3


@dataclass(frozen=True)
class _Seen:
    batches: tuple[BatchRead, ...]
    earliest: Positions
    """The oldest records that the brokers have, where a batch lacks rows."""
    cores: int | None


class ReadingWatch:
    def __init__(
        self,
        *,
        query: Query,
        count: SkipCount,
        alarms: Alarms,
        clock: Clock,
        lanes: Lanes,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._inputs = query.kafka_inputs()
        self._count = count
        self._cores: int | None = None
        self._query = query
        self._alarms = alarms
        # Not where offsets are committed: a JVM that does not answer must not delay that.
        self._question = Question(lanes, post, "batches")
        self._clients = OpenClients()
        self._log = ReadingLog()
        self._newest: datetime | None = None
        self._next = clock.monotonic() + LOOK_S

    @property
    def latest(self) -> KafkaReading:
        lately, limits = self._log.reading(), [each.max_offsets for each in self._inputs]
        wanted = sum(each.min_partitions or 0 for each in self._inputs)
        return KafkaReading(
            lately,
            self._cores,
            max(wanted, len(lately.records) if lately is not None else 0),
            None if None in limits else sum(limit or 0 for limit in limits),
            self._count.total,
        )

    # On the loop's thread.

    def poll(self, now: float) -> None:
        if not self._question.under_way and now >= self._next:
            self._next = now + LOOK_S
            since = self._newest
            self._question.ask(lambda: self._look(since), self._told, self._failed)

    def _told(self, seen: _Seen) -> None:
        new = self._log.add(seen.batches)
        self._cores = seen.cores
        self._newest = max((each.at for each in seen.batches), default=self._newest)
        if found := skipped_in(new, seen.earliest):
            self._count.add(found)
            self._alarms.raise_alarm(SKIPPED, "warning", _message(self._count.total), SKIPPED_HINT)

    def _failed(self, why: str) -> None:
        log.debug("how the query reads Kafka is not known now: %s", why)

    # On the lane.

    def _look(self, since: datetime | None) -> _Seen:
        batches = self._query.batches_read(since)
        tolerant = [each for each in self._inputs if not each.fail_on_data_loss]
        short = _lacking_rows(batches) if tolerant else set()
        earliest = furthest(self._begins(inputs[0], short) for inputs in by_brokers(tolerant) if short)
        return _Seen(batches, earliest, self._query.cores())

    def _begins(self, source: KafkaInput, partitions: set[Partition]) -> Positions:
        with self._clients.of(source) as brokers:
            return brokers.begins(partitions)


def _lacking_rows(batches: Sequence[BatchRead]) -> set[Partition]:
    """Partitions that were read with fewer rows than lie between the offsets."""
    short = [read for each in batches for read in each.sources if sum(read.records.values()) > read.rows]
    return {part for read in short for part in read.records}


def _message(total: Skipped) -> str:
    most = sorted(total, key=lambda part: -total[part])
    named = ", ".join(f"{part}: {total[part]:,}" for part in most[:_NAMED])
    more = f" and {len(most) - _NAMED} more partitions" if len(most) > _NAMED else ""
    return f"the brokers deleted {sum(total.values()):,} records before the query read them: {named}{more}"
