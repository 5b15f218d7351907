"""What the coordinator commands. The runtime performs each command and may answer it with an event."""

from dataclasses import dataclass, field

from holdfast.coordination.events import Kind, RunFenced
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.coordination.history import CheckpointRecord
from holdfast.finding import Severity
from holdfast.identifiers import BatchId, CheckpointId, RequestId, ShardId, Ticket


@dataclass(frozen=True, slots=True)
class BeginCheckpoint:
    """Plan the barrier's snapshot and take the next id in the journal, both at once.

    Answered by SnapshotPlanned or PlanFailed, and by CheckpointBegun or StepFailed, in any order.
    """

    ticket: Ticket
    kind: Kind
    name: str | None
    barrier: BatchId


@dataclass(frozen=True, slots=True)
class CopyShards:
    """Answered, per shard, by ShardAcknowledged or ShardFailed."""

    ticket: Ticket
    shards: tuple[ShardId, ...]
    again: bool = False
    """This is a retry after a decline or failure: scan the directory again first."""


@dataclass(frozen=True, slots=True)
class SealCheckpoint:
    """Write the manifest, then the journal entry. Answered by CheckpointSealed or StepFailed."""

    ticket: Ticket
    progress: CheckpointRecord
    """The attempt so far, for the entry."""


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Stop working on it. Nothing is deleted: a later checkpoint reuses the uploads. At most one per checkpoint."""

    ticket: Ticket
    reason: FailureReason


@dataclass(frozen=True, slots=True)
class PublishOutput:
    """Make the sink's output up to this barrier visible to readers. Answered by OutputPublished or PublishFailed."""

    upto: BatchId


@dataclass(frozen=True, slots=True)
class RetireCheckpoints:
    """A checkpoint completed: apply retention, in the background."""


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """A checkpoint ended. Sent once per attempt; one that is settled later is sent again as completed."""

    record: CheckpointRecord


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """Answer a request. Exactly one of the two is set."""

    request: RequestId
    completed: CheckpointId | None = None
    failure: tuple[FailureReason, str] | None = None


@dataclass(frozen=True, slots=True)
class RaiseAlarm:
    code: str
    severity: Severity
    message: str
    hint: str
    brief: str | None = field(default=None, compare=False)
    """A shorter text for the log, which already has the rest. None: nothing of it was logged before."""


@dataclass(frozen=True, slots=True)
class ClearAlarm:
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class EndRun:
    """Stop everything. `failure` is None after a clean stop."""

    failure: str | None
    fenced: RunFenced | None = None
    requests: tuple[RequestId, ...] = ()
    """Requests that asked for the stop."""
    reason: FailureReason | None = None
    """Why the final checkpoint could not be completed: without it the stop is not clean."""


Command = (
    BeginCheckpoint
    | CopyShards
    | SealCheckpoint
    | AbortCheckpoint
    | PublishOutput
    | RetireCheckpoints
    | RecordOutcome
    | AnswerRequest
    | RaiseAlarm
    | ClearAlarm
    | EndRun
)
