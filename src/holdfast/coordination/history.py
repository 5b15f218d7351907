"""What happened, as immutable values. Times are seconds of the runtime's monotonic clock."""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Literal

from holdfast.coordination.events import Kind
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.coordination.lifecycle import Phase
from holdfast.identifiers import BatchId, CheckpointId, ShardId, Ticket

SLOWEST_KEPT = 5


@dataclass(frozen=True, slots=True)
class ShardRecord:
    shard: ShardId
    seconds: float
    bytes_total: int
    bytes_new: int
    files: int
    host: str = ""
    """That copied it, when it was not the driver's."""


@dataclass(frozen=True, slots=True)
class FailureRecord:
    reason: FailureReason
    message: str
    shard: ShardId | None = None


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """One attempt, from its trigger to its end or until now. `id` is None when it failed before it got one."""

    ticket: Ticket
    id: CheckpointId | None
    kind: Kind
    name: str | None
    barrier: BatchId
    triggered_at: float
    ended_at: float
    phases: tuple[tuple[Phase, float], ...]
    """Each phase with the seconds spent in it, in order."""
    shards: int
    shards_acknowledged: int
    bytes_total: int
    bytes_new: int
    files: int
    objects_written: int
    slowest: tuple[ShardRecord, ...]
    failure: FailureRecord | None

    @property
    def completed(self) -> bool:
        return self.failure is None


Counted = Literal["triggered", "completed", "failed", "skipped_no_new_batch", "stale_messages", "shard_retries"]


@dataclass(frozen=True, slots=True)
class Statistics:
    triggered: int = 0
    completed: int = 0
    failed: int = 0
    skipped_no_new_batch: int = 0
    stale_messages: int = 0
    """Duplicate, late, unknown or reordered messages: counted, without effect."""
    shard_retries: int = 0
    consecutive_failures: int = 0
    last_completed: CheckpointId | None = None
    last_completed_at: float | None = None
    last_failure: FailureRecord | None = None


@dataclass
class History:
    """The newest records, bounded, and counters over all."""

    kept: int = 100
    statistics: Statistics = field(default_factory=Statistics)

    def __post_init__(self) -> None:
        self._records: deque[CheckpointRecord] = deque(maxlen=self.kept)

    @property
    def records(self) -> tuple[CheckpointRecord, ...]:
        return tuple(self._records)

    def add(self, record: CheckpointRecord) -> None:
        self._records.append(record)

    def settle(self, id: CheckpointId) -> CheckpointRecord | None:
        """Turn the failed record of `id` into a completed one, if it is still in the history."""
        for index, record in enumerate(self._records):
            if record.id == id and record.failure is not None:
                self._records[index] = replace(record, failure=None)
                return self._records[index]
        return None

    def one_more(self, counted: Counted) -> None:
        self.note(**{counted: getattr(self.statistics, counted) + 1})

    def note(self, **changes: object) -> None:
        self.statistics = replace(self.statistics, **changes)  # type: ignore[arg-type]

    def stale(self) -> None:
        self.one_more("stale_messages")
