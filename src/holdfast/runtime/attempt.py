"""One checkpoint under way, as the runtime sees it."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime

from holdfast.checkpoint.layout import SnapshotPlan
from holdfast.coordination.events import Kind
from holdfast.identifiers import BatchId, CheckpointId, ShardId, Ticket
from holdfast.runtime.ports import WorkDirectory
from holdfast.snapshot.carrier import ShardCopy


@dataclass
class Attempt:
    """What one ticket has gathered so far."""

    ticket: Ticket
    kind: Kind
    name: str | None
    barrier: BatchId
    directory: WorkDirectory
    triggered_at: datetime
    started: float
    id: CheckpointId | None = None
    planned: Future[SnapshotPlan] = field(default_factory=Future)
    plan: SnapshotPlan | None = None
    pinned_after: float | None = None
    """Seconds from the trigger; None when nothing is pinned."""
    copies: dict[ShardId, ShardCopy] = field(default_factory=dict)
    failures: dict[ShardId, int] = field(default_factory=dict)
    copied_after: dict[ShardId, float] = field(default_factory=dict)
    """Seconds from the start of copying to the shard's acknowledgement."""
    entered: list[tuple[str, float]] = field(default_factory=list)
    """Each phase, with the time it began."""
    abandoned: bool = False

    @property
    def files_needed_s(self) -> float:
        """How long the files of the barrier had to live. Asked when all of them are copied."""
        return self.entered[-1][1] - self.started if self.pinned_after is None else self.pinned_after
