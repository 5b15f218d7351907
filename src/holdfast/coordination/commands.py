"""What the coordinator asks for. Performing one is the runtime's business; each is answered by an event, if at all."""

from dataclasses import dataclass, field

from holdfast.coordination.events import Kind
from holdfast.coordination.history import CheckpointRecord
from holdfast.coordination.reasons import FailureReason
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
    """A repetition after a decline or failure: look at the directory again first."""


@dataclass(frozen=True, slots=True)
class SealCheckpoint:
    """Write the manifest, then the journal entry. Answered by CheckpointSealed or StepFailed."""

    ticket: Ticket
    progress: CheckpointRecord
    """So far: what the entry says about it."""


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Stop working on it. Nothing is deleted: what was uploaded is used again. At most one per checkpoint."""

    ticket: Ticket
    reason: FailureReason


@dataclass(frozen=True, slots=True)
class PublishOutput:
    """Show the sink's readers everything up to this barrier. Answered by OutputPublished or PublishFailed."""

    upto: BatchId


@dataclass(frozen=True, slots=True)
class RetireCheckpoints:
    """A checkpoint completed: apply retention, in the background."""


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """A checkpoint ended. Sent once per ended attempt; a settled one is sent again as completed."""

    record: CheckpointRecord


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """Tell who asked. Exactly one of the two is set."""

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
    """For the log, which has told the rest already. None: nobody has told anything of it."""


@dataclass(frozen=True, slots=True)
class ClearAlarm:
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class EndRun:
    """Stop everything. `failure` is None after a clean stop."""

    failure: str | None
    fenced: bool = False
    requests: tuple[RequestId, ...] = ()
    """Who asked for the stop."""
    reason: FailureReason | None = None
    """Why the last checkpoint, without which the stop is not a clean one, could not be completed."""


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
