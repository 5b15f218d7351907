"""The coordinator's input. Any event may arrive twice, late, in another order, or never."""

from dataclasses import dataclass
from typing import Literal

from holdfast.coordination.failure_reasons import FailureReason
from holdfast.identifiers import BatchId, CheckpointId, RequestId, ShardId, Ticket

Kind = Literal["checkpoint", "savepoint"]


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing happened, but a deadline may have passed."""


@dataclass(frozen=True, slots=True)
class QueryStarted:
    """The query runs and may reach barriers."""

    replaced: bool = False
    """It resumed in another work directory, at the barrier `durable`; batch ids may have gone back to that."""
    durable: BatchId | None = None
    durable_id: CheckpointId | None = None
    """The checkpoint with the barrier `durable`."""
    repeated_s: float | None = None
    """So long took each planned batch that was repeated before the query started; None when none were."""


@dataclass(frozen=True, slots=True)
class QueryEnded:
    """The query stopped running, for any reason."""

    replaced: bool = False
    """Its work directory is abandoned: what is being copied from it cannot be completed."""


@dataclass(frozen=True, slots=True)
class BarrierReached:
    """`commits/<batch_id>` exists."""

    batch_id: BatchId
    ran_s: float | None = None
    """How long the batch ran; None when that is unknown."""


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """A user or a program requests one now."""

    request: RequestId
    kind: Kind = "checkpoint"
    name: str | None = None


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Take a last checkpoint of what is committed, then end the run. The query has been stopped already."""

    request: RequestId
    savepoint: str | None = None


@dataclass(frozen=True, slots=True)
class SavepointsKnown:
    """The savepoints in the journal, after one was created or deleted."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class CheckpointBegun:
    ticket: Ticket
    id: CheckpointId


@dataclass(frozen=True, slots=True)
class SnapshotPlanned:
    ticket: Ticket
    shards: tuple[ShardId, ...]


@dataclass(frozen=True, slots=True)
class PlanFailed:
    ticket: Ticket
    reason: FailureReason
    message: str


@dataclass(frozen=True, slots=True)
class ShardAcknowledged:
    ticket: Ticket
    shard: ShardId
    bytes_total: int = 0
    bytes_new: int = 0
    files: int = 0
    objects_written: int = 0
    host: str = ""
    """That copied it, when it was not the driver's."""


@dataclass(frozen=True, slots=True)
class ShardFailed:
    """Declined (the files changed or are gone) or failed (they could not be stored)."""

    ticket: Ticket
    shard: ShardId
    reason: FailureReason
    message: str
    number: int = 1
    """Which try of this shard it was, from 1, so that a duplicate message is recognised."""


@dataclass(frozen=True, slots=True)
class StepFailed:
    """Beginning or sealing failed."""

    ticket: Ticket
    reason: FailureReason
    message: str


@dataclass(frozen=True, slots=True)
class CheckpointSealed:
    """Its journal entry exists."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class EntrySettled:
    """An undecided journal entry was found to exist after all."""

    id: CheckpointId


@dataclass(frozen=True, slots=True)
class CheckpointDamaged:
    """Its bytes in the home are wrong and could not be repaired."""

    id: CheckpointId


@dataclass(frozen=True, slots=True)
class OutputReleased:
    """Readers may see batches up to here before a checkpoint has them: they are committed, and their plans durable."""

    upto: BatchId


@dataclass(frozen=True, slots=True)
class OutputPublished:
    upto: BatchId


@dataclass(frozen=True, slots=True)
class PublishFailed:
    upto: BatchId
    message: str


@dataclass(frozen=True, slots=True)
class RunFenced:
    """A newer run owns the job."""

    message: str
    by_maintenance: bool = False
    """The newer run is a command, which ends soon."""


Event = (
    TimePassed
    | QueryStarted
    | QueryEnded
    | BarrierReached
    | CheckpointRequested
    | StopRequested
    | SavepointsKnown
    | CheckpointBegun
    | SnapshotPlanned
    | ShardAcknowledged
    | PlanFailed
    | ShardFailed
    | StepFailed
    | CheckpointSealed
    | EntrySettled
    | CheckpointDamaged
    | OutputReleased
    | OutputPublished
    | PublishFailed
    | RunFenced
)
