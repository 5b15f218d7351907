"""Asks the sources now and then how long they keep what the retained checkpoints need, and raises an alarm in time."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from holdfast.checkpoint.spark_files import NotUnderstood, source_offsets
from holdfast.errors import HoldfastError
from holdfast.identifiers import BatchId, CheckpointId
from holdfast.job_log import log
from holdfast.repository.entries import CheckpointCompleted
from holdfast.runtime.checkpoints.manifests import Manifests
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors_and_reasons import message_of
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.reports.alarms import Alarms
from holdfast.runtime.sources.asking import Question
from holdfast.sources.brokers import BrokersFailed
from holdfast.sources.restorable import KeptSource, Restorable, SourceKind, expiring, sooner
from holdfast.storage.interface import ObjectStore

EXPIRES = "source_expires"
FIRST_S, LOOK_S = 20.0, 600.0
_HINTS: Mapping[SourceKind, str] = {
    "kafka": "raise retention.ms of the topic",
    "delta": "raise delta.logRetentionDuration and delta.deletedFileRetentionDuration of the table",
    "files": "keep the files",
}
_HINT = (
    "{} above the age of the oldest checkpoint that you want to go back to, or retain fewer; resuming from the newest "
    "checkpoint is not affected"
)


class RetentionWatch:
    def __init__(
        self,
        *,
        sources: Sequence[KeptSource],
        store: ObjectStore,
        manifests: Manifests,
        alarms: Alarms,
        clock: Clock,
        lanes: Lanes,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._sources = sources
        self._store = store
        self._manifests = manifests
        self._alarms = alarms
        self._clock = clock
        # Not where offsets are committed: a JVM that does not answer must not delay that.
        self._question = Question(lanes, post, "batches")
        self._offsets: dict[CheckpointId, Mapping[str, str]] = {}
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
            self._alarms.clear(EXPIRES, "the sources keep long enough what the checkpoints need")
            return
        at = datetime.fromtimestamp(ends.until, UTC)
        message = (
            f"checkpoint {ends.id} can be gone back to only until about {at:%Y-%m-%d %H:%M} UTC: then what it needs of "
            f"{ends.first} may be deleted"
        )
        self._alarms.raise_alarm(EXPIRES, "warning", message, _HINT.format(_HINTS[ends.source]))

    def _failed(self, why: str) -> None:
        self.latest = ()
        log.info("could not find out how long the sources keep what the checkpoints need: %s", why)

    def _now(self) -> float:
        return self._clock.wall().timestamp()

    # On the lane.

    def _look(self, wanted: Mapping[CheckpointId, BatchId]) -> tuple[Restorable, ...]:
        self._offsets = {id: self._needs(id, batch) for id, batch in sorted(wanted.items())}
        now = self._now()
        found: dict[CheckpointId, Restorable] = {}
        for source in self._sources:
            for id, here in self._asked(source, now).items():
                found[id] = here if id not in found else sooner(found[id], here)
        return tuple(found[id] for id in sorted(found))

    def _asked(self, source: KeptSource, now: float) -> Mapping[CheckpointId, Restorable]:
        """One that does not answer hides nothing of what the others say."""
        try:
            return source.look(self._offsets, now)
        except Exception as error:
            why = error.message if isinstance(error, BrokersFailed) else message_of(error)
            log.info("could not find out how long a source keeps what the checkpoints need: %s", why)
            return {}

    def _needs(self, id: CheckpointId, batch: BatchId) -> Mapping[str, str]:
        """Read once. Unknown until the manifest has been read for other reasons."""
        if self._offsets.get(id):
            return self._offsets[id]
        manifest = self._manifests.all().get(id)
        files = [] if manifest is None else [file for file in manifest.files() if file.path == f"offsets/{batch}"]
        try:
            return {
                name: offset
                for file in files
                for name, offset in source_offsets(self._store.read(file.key, file.offset, file.size))
            }
        except (HoldfastError, NotUnderstood) as error:
            log.debug("could not find out what checkpoint %s needs of its sources: %s", id, error)
            return {}
