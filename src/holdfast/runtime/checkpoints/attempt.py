"""The runtime's data of one checkpoint in progress. The coordinator has its phase and times."""

from dataclasses import dataclass, field

from holdfast.checkpoint.layout import SnapshotPlan
from holdfast.coordination.events import Kind
from holdfast.identifiers import BatchId, CheckpointId, ShardId, Ticket
from holdfast.runtime.ports import RunDirectory
from holdfast.snapshot.carrier import ShardCopy


@dataclass
class Attempt:
    """What one ticket has collected so far."""

    ticket: Ticket
    kind: Kind
    name: str | None
    barrier: BatchId
    directory: RunDirectory
    started: float
    id: CheckpointId | None = None
    plan: SnapshotPlan | None = None
    pinned_after: float | None = None
    """Seconds from the trigger to the pins; None when nothing is pinned."""
    writer_has: BatchId | None = None
    """The newest batch that the sink of the query's own writer reported; None when it cannot be asked."""
    copies: dict[ShardId, ShardCopy] = field(default_factory=dict)
    failures: dict[ShardId, int] = field(default_factory=dict)
    aborted: bool = False
