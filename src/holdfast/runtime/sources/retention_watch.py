"""Asks the brokers now and then how long they keep what the retained checkpoints need, and raises an alarm in time."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from holdfast.checkpoint.spark_files import NotUnderstood
from holdfast.errors import HoldfastError
from holdfast.identifiers import BatchId, CheckpointId
from holdfast.job_log import log
from holdfast.repository.entries import CheckpointCompleted
from holdfast.runtime.checkpoints.manifests import Manifests
from holdfast.runtime.clock import Clock
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.reports.alarms import Alarms
from holdfast.runtime.sources.asking import Question, by_brokers
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.positions import Partition, Positions, least, positions_in
from holdfast.sources.restorable import Kept, Restorable, expiring, restorable
from holdfast.storage.interface import ObjectStore

EXPIRES = "source_expires"
FIRST_S, LOOK_S = 20.0, 600.0
_HINT = (
    "raise retention.ms of the topic above the age of the oldest checkpoint that you want to go back to, or retain "
    "fewer; resuming from the newest checkpoint is not affected"
)


class RetentionWatch:
    def __init__(
        self,
        *,
        inputs: Sequence[KafkaInput],
        store: ObjectStore,
        manifests: Manifests,
        alarms: Alarms,
        clock: Clock,
        lanes: Lanes,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._inputs = inputs
        self._store = store
        self._manifests = manifests
        self._alarms = alarms
        self._clock = clock
        self._question = Question(lanes, post)
        self._positions: dict[CheckpointId, Mapping[str, Positions]] = {}
        """By checkpoint, then by source."""
        self._next = clock.monotonic() + FIRST_S
        self.latest: tuple[Restorable, ...] = ()
        """Oldest first; none when nothing is known."""

    # On the loop's thread.

    def poll(self, now: float, retained: Callable[[], Sequence[CheckpointCompleted]]) -> None:
        """`retained`: what a start may resume from or go back to."""
        if self._question.under_way or now < self._next:
            return
        wanted = {entry.id: entry.barrier_batch_id for entry in retained()}
        self._next = now + (LOOK_S if wanted else FIRST_S)
        if wanted:
            self._question.ask(lambda: self._look(wanted), self._told, self._failed)

    def _told(self, found: tuple[Restorable, ...]) -> None:
        self.latest = found
        ends = expiring(found, self._now())
        if ends is None or ends.until is None:
            self._alarms.clear(EXPIRES, "the brokers keep long enough what the checkpoints need")
            return
        at = datetime.fromtimestamp(ends.until, UTC)
        message = (
            f"checkpoint {ends.id} can be gone back to only until about {at:%Y-%m-%d %H:%M} UTC: then the brokers "
            f"delete what it needs of {ends.partition}"
        )
        self._alarms.raise_alarm(EXPIRES, "warning", message, _HINT)

    def _failed(self, why: str) -> None:
        self.latest = ()
        log.info("could not find out how long the brokers keep what the checkpoints need: %s", why)

    def _now(self) -> float:
        return self._clock.wall().timestamp()

    # On the lane.

    def _look(self, wanted: Mapping[CheckpointId, BatchId]) -> tuple[Restorable, ...]:
        self._positions = {id: self._needs(id, batch) for id, batch in sorted(wanted.items())}
        now = self._now()
        found: dict[CheckpointId, Restorable] = {}
        for inputs in by_brokers(self._inputs):
            needs = {id: least(by.get(each.name, {}) for each in inputs) for id, by in self._positions.items()}
            partitions = {part for positions in needs.values() for part in positions}
            kept = _asked(inputs[0], partitions, now)
            for id, positions in needs.items():
                here = restorable(id, positions, kept, now)
                found[id] = here if id not in found else _sooner(found[id], here)
        return tuple(found[id] for id in sorted(found))

    def _needs(self, id: CheckpointId, batch: BatchId) -> Mapping[str, Positions]:
        """Read once. Unknown until the manifest has been read for other reasons."""
        if id in self._positions:
            return self._positions[id]
        manifest = self._manifests.all().get(id)
        files = [] if manifest is None else [file for file in manifest.files() if file.path == f"offsets/{batch}"]
        try:
            data = [self._store.read(file.key, file.offset, file.size) for file in files]
            return {each.name: positions_in(one, each.name) for one in data for each in self._inputs}
        except (HoldfastError, NotUnderstood) as error:
            log.debug("could not find out what checkpoint %s needs of Kafka: %s", id, error)
            return {}


def _asked(source: KafkaInput, partitions: set[Partition], now: float) -> Kept:
    brokers = source.open()
    try:
        return brokers.kept(partitions, now)
    finally:
        brokers.close()


def _sooner(one: Restorable, other: Restorable) -> Restorable:
    """A checkpoint needs all its sources."""
    if one.gone or other.gone:
        return one if one.gone else other
    if one.until is None or other.until is None:
        return other if one.until is None else one
    return min(one, other, key=lambda each: each.until or 0.0)
