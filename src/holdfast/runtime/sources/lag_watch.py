"""Asks the brokers now and then how far the topics have grown, and tells how far the query is behind them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from holdfast.checkpoint.spark_files import NotUnderstood
from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.runtime.clock import Clock
from holdfast.runtime.failure_reasons import message_of
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.ports import RunDirectory
from holdfast.sources.brokers import Brokers, BrokersFailed
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.lag import Lag, LagLog
from holdfast.sources.positions import Partition, Positions, least, positions_in

LOOK_S = 15.0
_AFTER_FAILURE_S = 60.0


@dataclass(frozen=True)
class SeenLag:
    at: datetime
    lag: Lag


class LagWatch:
    def __init__(
        self,
        *,
        inputs: Sequence[KafkaInput],
        clock: Clock,
        lanes: Lanes,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._inputs = inputs
        self._clock = clock
        self._lanes = lanes
        self._post = post
        self._log = LagLog()
        self._open: dict[str, Brokers] = {}
        self._next = clock.monotonic()
        self._looking = False
        self.latest: SeenLag | None = None
        """None when nothing is known, and when the brokers did not answer the last time."""

    # On the loop's thread.

    def poll(self, now: float, committed: BatchId | None, published: BatchId | None, directory: RunDirectory) -> None:
        """`published` is None where readers are not known."""
        if self._looking or committed is None or now < self._next:
            return
        self._looking = True
        batch = committed
        self._lanes.submit("kafka", lambda: self._look(batch, published, directory))

    def _told(self, processed: Positions, published: Positions | None, ends: Positions) -> None:
        now = self._clock.monotonic()
        self._looking, self._next = False, now + LOOK_S
        self.latest = SeenLag(self._clock.wall(), self._log.add(now, processed, published, ends))

    def _failed(self, why: str) -> None:
        if self.latest is not None:
            log.info("the lag is not known now: %s", why)
        self._looking, self._next = False, self._clock.monotonic() + _AFTER_FAILURE_S
        self.latest = None

    # On the lane.

    def _look(self, committed: BatchId, published: BatchId | None, directory: RunDirectory) -> None:
        processed: dict[Partition, int] = {}
        ends: dict[Partition, int] = {}
        try:
            data = directory.read(f"offsets/{committed}")
            shown = self._published(published, directory)
            for servers in dict.fromkeys(each.servers for each in self._inputs):
                inputs = [each for each in self._inputs if each.servers == servers]
                positions = _positions(inputs, data)
                processed |= positions
                ends |= self._ends(inputs[0], positions)
        except BrokersFailed as error:
            why = error.message
            self._post(lambda: self._failed(why))
        except Exception as error:
            reason = message_of(error)
            self._post(lambda: self._failed(reason))
        else:
            self._post(lambda: self._told(processed, shown, ends))

    def _published(self, batch: BatchId | None, directory: RunDirectory) -> Positions | None:
        try:
            return None if batch is None else _positions(self._inputs, directory.read(f"offsets/{batch}"))
        except (OSError, NotUnderstood):  # Spark keeps only the newest
            return None

    def _ends(self, source: KafkaInput, positions: Positions) -> Positions:
        try:
            brokers = self._open[source.servers] = self._open.get(source.servers) or source.open()
            return brokers.ends(tuple(positions))
        except BrokersFailed:
            if (failing := self._open.pop(source.servers, None)) is not None:
                failing.close()
            raise


def _positions(inputs: Sequence[KafkaInput], data: bytes) -> dict[Partition, int]:
    return dict(least(positions_in(data, each.name) for each in inputs))
