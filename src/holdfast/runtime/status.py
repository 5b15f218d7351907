"""What `RunningJob.status()` answers: an immutable value."""

from dataclasses import dataclass

from holdfast.coordination.history import CheckpointRecord, Statistics
from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.runtime.alarms import Alarm


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
    """The newest batch whose output readers see, as far as this run knows."""
    restarts: int
    statistics: Statistics
    recent: tuple[CheckpointRecord, ...]
    alarms: tuple[Alarm, ...]
