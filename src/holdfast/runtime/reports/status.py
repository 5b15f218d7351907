"""The result of `RunningJob.status()`: an immutable value."""

from dataclasses import dataclass
from datetime import datetime

from holdfast.alarm import Alarm
from holdfast.coordination.events import Kind
from holdfast.coordination.history import CheckpointRecord, Statistics
from holdfast.coordination.pending import PendingCheckpoint
from holdfast.coordination.recovery_time import RecoveryEstimate
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch
from holdfast.repository.entries import BatchSpan
from holdfast.repository.self_report import PastAlarm
from holdfast.runtime.reports.notebook import as_html
from holdfast.sources.lag import Lag
from holdfast.sources.reading import KafkaReading
from holdfast.sources.restorable import Restorable
from holdfast.storage.metered import Latency, Meter, StoreRequest, Usage
from holdfast.storage.prices import dollars_a_month


@dataclass(frozen=True)
class StorageUse:
    """This run's requests to its home since it started."""

    usage: Usage
    put: Latency | None
    """Latency of the newest writes; None before the first."""
    get: Latency | None
    dollars_a_month: float | None
    """Projected cost of requests at list price; None where requests are free."""


def storage_use(url: str, meter: Meter) -> StorageUse:
    usage = meter.usage
    return StorageUse(
        usage, meter.latency(StoreRequest.PUT), meter.latency(StoreRequest.GET), dollars_a_month(url, usage)
    )


@dataclass(frozen=True)
class CheckpointUnderWay:
    id: CheckpointId | None
    """None until the journal has one for it."""
    kind: Kind
    barrier: BatchId
    phase: str
    triggered_at: float
    """On the clock that the job runs by."""
    shards: int
    """0 until its files are planned."""
    shards_acknowledged: int


def under_way(pending: PendingCheckpoint) -> CheckpointUnderWay:
    copied = pending.shards - len(pending.unacknowledged)
    return CheckpointUnderWay(
        pending.id, pending.kind, pending.barrier, pending.phase.value, pending.triggered_at, pending.shards, copied
    )


@dataclass(frozen=True)
class JobStatus:
    job: str
    fencing_epoch: FencingEpoch
    running: bool
    """The query runs."""
    ended: bool
    """The run is over."""
    barrier: BatchId | None
    """The newest batch that Spark has committed."""
    published: BatchId | None
    """The newest published batch, as far as this run knows."""
    restarts: int
    statistics: Statistics
    recent: tuple[CheckpointRecord, ...]
    alarms: tuple[Alarm, ...]
    past_alarms: tuple[PastAlarm, ...] = ()
    """Those that are over, oldest first; few."""
    storage: StorageUse | None = None
    under_way: tuple[CheckpointUnderWay, ...] = ()
    """Checkpoints in progress, oldest first."""
    restorable: tuple[Restorable, ...] = ()
    """How long the sources keep what each retained checkpoint needs, as far as that is known."""
    kafka_lag: Lag | None = None
    """How far the query is behind its Kafka topics; None when that is not known."""
    kafka_lag_at: datetime | None = None
    batches: tuple[BatchSpan, ...] = ()
    """That no completed checkpoint has, as far as Spark has told; several in one record where there are many."""
    kafka_reading: KafkaReading | None = None
    """How it reads them; None when it reads none."""
    recovery: RecoveryEstimate | None = None
    """How long a recovery on an empty disk would take now; None when none repeats batches."""

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        state = "ended" if self.ended else "running" if self.running else "not running"
        batches = (self.barrier, self.published)
        return as_html(self.job, state, batches, self.statistics, self.recent, self.alarms)


def last_words(status: JobStatus) -> str:
    """The result of a run, in one line."""
    counts = status.statistics
    failed = f", {counts.failed} failed" if counts.failed else ""
    restarts = f", {status.restarts} restarts of the query" if status.restarts else ""
    if status.barrier is None:
        return f"the run is over: no batch was committed{restarts}"
    shown = "no output" if status.published is None else f"output up to batch {status.published}"
    newest = f"checkpoint {counts.last_completed} is the newest" if counts.last_completed else "there is no checkpoint"
    made = f"{counts.completed} completed{failed}{restarts}"
    return f"the run is over at batch {status.barrier}: {newest} ({made}), {shown} is published"
