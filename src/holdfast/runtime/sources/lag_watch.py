"""Asks the brokers now and then how far the topics have grown, and tells how far the query is behind them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from holdfast.checkpoint.spark_files import NotUnderstood
from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.runtime.clock import Clock
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.ports import RunDirectory
from holdfast.runtime.sources.asking import OpenClients, Question, by_brokers
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.lag import Lag, LagLog
from holdfast.sources.positions import Partition, Positions, least, positions_in

LOOK_S = 15.0
_AFTER_FAILURE_S = 60.0


@dataclass(frozen=True)
class SeenLag:
    at: datetime
    lag: Lag


@dataclass(frozen=True)
class _Looked:
    processed: Positions
    published: Positions | None
    ends: Positions


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
        self._question = Question(lanes, post)
        self._clients = OpenClients()
        self._log = LagLog()
        self._next = clock.monotonic()
        self.latest: SeenLag | None = None
        """None when nothing is known, and when the brokers did not answer the last time."""

    # On the loop's thread.

    def poll(self, now: float, committed: BatchId | None, published: BatchId | None, directory: RunDirectory) -> None:
        """`published` is None where readers are not known."""
        if not self._question.under_way and committed is not None and now >= self._next:
            batch = committed
            self._question.ask(lambda: self._look(batch, published, directory), self._told, self._failed)

    def _told(self, found: _Looked) -> None:
        now = self._clock.monotonic()
        self._next = now + LOOK_S
        self.latest = SeenLag(self._clock.wall(), self._log.add(now, found.processed, found.published, found.ends))

    def _failed(self, why: str) -> None:
        if self.latest is not None:
            log.info("could not measure the lag: %s", why)
        self._next = self._clock.monotonic() + _AFTER_FAILURE_S
        self.latest = None

    # On the lane.

    def _look(self, committed: BatchId, published: BatchId | None, directory: RunDirectory) -> _Looked:
        processed: dict[Partition, int] = {}
        ends: dict[Partition, int] = {}
        data = directory.read(f"offsets/{committed}")
        shown = self._published(published, directory)
        for inputs in by_brokers(self._inputs):
            positions = _positions(inputs, data)
            processed |= positions
            with self._clients.of(inputs[0]) as brokers:
                ends |= brokers.ends(tuple(positions))
        return _Looked(processed, shown, ends)

    def _published(self, batch: BatchId | None, directory: RunDirectory) -> Positions | None:
        try:
            return None if batch is None else _positions(self._inputs, directory.read(f"offsets/{batch}"))
        except (OSError, NotUnderstood):  # Spark keeps only the newest
            return None


def _positions(inputs: Sequence[KafkaInput], data: bytes) -> dict[Partition, int]:
    return dict(least(positions_in(data, each.name) for each in inputs))
