"""One checkpoint in progress. Every operation takes constant time, however many shards there are."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from holdfast.coordination.events import Kind, PlanFailed, ShardAcknowledged, SnapshotPlanned
from holdfast.coordination.history import SLOWEST_KEPT, CheckpointRecord, FailureRecord, ShardRecord
from holdfast.coordination.lifecycle import Phase, Signal, after
from holdfast.identifiers import BatchId, CheckpointId, RequestId, ShardId, Ticket


@dataclass
class PendingCheckpoint:
    ticket: Ticket
    kind: Kind
    name: str | None
    barrier: BatchId
    requests: tuple[RequestId, ...]
    triggered_at: float
    expires_at: float
    id: CheckpointId | None = None
    phase: Phase = Phase.STARTING
    plan: SnapshotPlanned | PlanFailed | None = None
    shards: int = 0
    bytes_total: int = 0
    bytes_new: int = 0
    files: int = 0
    objects_written: int = 0
    unacknowledged: set[ShardId] = field(default_factory=set)
    tries: dict[ShardId, int] = field(default_factory=dict)
    """Failed tries of the shards that had any."""
    waiting: list[tuple[float, ShardId]] = field(default_factory=list)
    """Shards to be copied again, by time; a heap."""

    def __post_init__(self) -> None:
        self._phase_since = self.triggered_at
        self._phases: list[tuple[Phase, float]] = []
        self._slowest: list[tuple[float, ShardId, ShardAcknowledged]] = []
        self._copying_since = self.triggered_at

    def advance(self, signal: Signal, now: float) -> bool:
        """Follow the table; False when the signal is stale in this phase."""
        following = after(self.phase, signal)
        if following is None:
            return False
        self._phases.append((self.phase, now - self._phase_since))
        self.phase, self._phase_since = following, now
        return True

    def expect(self, shards: tuple[ShardId, ...], now: float) -> None:
        self.shards = len(shards)
        self.unacknowledged = set(shards)
        self._copying_since = now

    def acknowledge(self, event: ShardAcknowledged, now: float) -> bool:
        """False when the shard is unknown or has already acknowledged."""
        if event.shard not in self.unacknowledged:
            return False
        self.unacknowledged.remove(event.shard)
        self.bytes_total += event.bytes_total
        self.bytes_new += event.bytes_new
        self.files += event.files
        self.objects_written += event.objects_written
        entry = (now - self._copying_since, event.shard, event)
        if len(self._slowest) < SLOWEST_KEPT:
            heapq.heappush(self._slowest, entry)
        elif entry[:2] > self._slowest[0][:2]:
            heapq.heapreplace(self._slowest, entry)
        return True

    def fail(self, shard: ShardId, number: int) -> bool:
        """False when the shard is unknown, has acknowledged, or this try of it has already failed."""
        if shard not in self.unacknowledged or number != self.tries.get(shard, 0) + 1:
            return False
        self.tries[shard] = number
        return True

    def retry_at(self, shard: ShardId, at: float) -> None:
        heapq.heappush(self.waiting, (at, shard))

    def due_retries(self, now: float) -> tuple[ShardId, ...]:
        due = []
        while self.waiting and self.waiting[0][0] <= now:
            shard = heapq.heappop(self.waiting)[1]
            if shard in self.unacknowledged:
                due.append(shard)
        return tuple(due)

    def next_deadline(self) -> float:
        return min(self.expires_at, self.waiting[0][0]) if self.waiting else self.expires_at

    def record(self, now: float, failure: FailureRecord | None) -> CheckpointRecord:
        slowest = sorted(self._slowest, key=lambda item: item[:2], reverse=True)
        return CheckpointRecord(
            ticket=self.ticket,
            id=self.id,
            kind=self.kind,
            name=self.name,
            barrier=self.barrier,
            triggered_at=self.triggered_at,
            ended_at=now,
            phases=tuple(self._phases),
            shards=self.shards,
            shards_acknowledged=self.shards - len(self.unacknowledged),
            bytes_total=self.bytes_total,
            bytes_new=self.bytes_new,
            files=self.files,
            objects_written=self.objects_written,
            slowest=tuple(ShardRecord(s, t, e.bytes_total, e.bytes_new, e.files, e.host) for t, s, e in slowest),
            failure=failure,
        )
