"""What the runtime needs from outside: work directories and the query. On a real machine these are `job_folder` and
`holdfast.spark`; the simulation has its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Protocol

from holdfast.checkpoint.layout import ShardPlan, SnapshotPlan, WorkFile
from holdfast.checkpoint.manifest import Manifest
from holdfast.identifiers import BatchId, FencingEpoch, Sequence, Ticket
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import RunStarted
from holdfast.runtime.ahead import Ahead
from holdfast.runtime.own_writer import Taken
from holdfast.sinks.protocol import Sink, SinkContext, SinkState, StagedBatch
from holdfast.snapshot.carrier import ShardCopy
from holdfast.storage.interface import ObjectStore
from holdfast.workdir.interface import WorkDirectory


class RunDirectory(Protocol):
    """The Spark checkpoint directory of one run."""

    @property
    def name(self) -> str:
        """Among the directories of the job."""

    @property
    def location(self) -> str: ...

    @property
    def files(self) -> WorkDirectory: ...

    def newest_barrier(self) -> BatchId | None:
        """Raises `StorageError` when the directory does not answer."""

    def plan(self, barrier: BatchId) -> SnapshotPlan:
        """Raises `NotPlannable` when a file of the barrier is gone."""

    def pin(self, ticket: Ticket, files: Many[WorkFile]) -> bool:
        """Keep these files for `copy` until `unpin`, whatever Spark deletes. False where that is not possible.

        Raises `NotPlannable` when one is gone already.
        """

    def unpin(self, ticket: Ticket) -> None:
        """Harmless when nothing is pinned."""

    def copy(self, shards: Many[ShardPlan], blobs: Blobs, cancelled: Callable[[], bool]) -> tuple[ShardCopy, ...]:
        """Raises `ShardDeclined`, `Cancelled`, `BeingDeleted` or a `StorageError`."""

    def ledger(self) -> tuple[StagedBatch, ...]:
        """What the sink staged and recovery must know of, oldest batch first."""

    def prune_ledger(self, published: BatchId) -> None:
        """Forget what is published, or leave it for the next time."""

    def drop_ledger_after(self, batch: BatchId | None) -> None: ...

    def pieces(self, path: str) -> Iterator[bytes]:
        """The bytes of one file; `OSError` when it cannot be read."""

    def set_aside(self, why: str) -> None:
        """Mark as unreadable and keep for inspection; never resumed from again."""


class Workplace(Protocol):
    """The work directories of one job on this host."""

    def intact(self, run: RunStarted) -> RunDirectory | None:
        """The directory that `run` left here, when a query can resume from it."""

    def adopt(self, previous: RunDirectory, epoch: FencingEpoch) -> RunDirectory:
        """A new directory with the previous one's newest barrier. The previous one may be gone then."""

    def restore(self, store: ObjectStore, manifest: Manifest, epoch: FencingEpoch) -> RunDirectory:
        """A new directory from a checkpoint, every byte checked. Raises `Corrupt`."""

    def fresh(self, epoch: FencingEpoch) -> RunDirectory:
        """A new, empty directory."""

    def clean(self, keep: RunDirectory) -> None:
        """Remove the directories of earlier runs, except those set aside."""

    def remember(self, head: Sequence) -> None:
        """The journal has come this far: a home that knows less later was put back. Best effort."""


@dataclass(frozen=True)
class Supervisor:
    """Whom a query that runs asks and tells, from any thread."""

    still_owner: Callable[[], bool]
    """Before each batch: False only when a newer run is known to own the job."""
    ended: Callable[[], None]
    """Only a wake-up: it may come late, more than once, or never."""


class Query(Protocol):
    @property
    def application_id(self) -> str | None: ...

    @property
    def sink(self) -> Sink | None:
        """None when the query brings a writer of its own: then output is at least once, not exactly once."""

    @property
    def batches_retained(self) -> int | None:
        """For how many batches Spark keeps the files of one; None before the start."""

    def describe(self) -> dict[str, str]:
        """What a manifest says of the query: Spark version, state store provider, shuffle partitions…"""

    def look_ahead(self, ahead: Ahead) -> None:
        """Raises before the claim what `preflight`, or what `own_writer` says, would be refused with after it:
        `Incompatible` or `Conflict`. Leaves no trace, and says nothing when that cannot be told."""

    def preflight(self, directory: RunDirectory, barrier: BatchId | None) -> bool:
        """Compare the query with the directory in which it is to go on after `barrier`, before anything is done.

        True when differences were overridden that Spark may break on. Raises `Incompatible` when they were not.
        """

    def look_at_sink(self, context: SinkContext) -> SinkState | None:
        """What the sink knows of the job, None when there is no sink. Leaves no trace. Raises `InvalidSettings` when
        it cannot take what the query produces."""

    def missing_input(self, paths: Many[str]) -> tuple[str, ...] | None:
        """Which of these files, as Spark's file source names them, are not there; None when that cannot be asked."""

    def own_writer(self, directory: RunDirectory) -> Taken | None:
        """How far a writer of the query's own is, which is to go on in `directory`; None when holdfast writes."""

    def open_sink(self, context: SinkContext) -> None:
        """Get the sink ready to write what the query produces, and fence it."""

    def start(self, directory: RunDirectory, supervisor: Supervisor) -> None:
        """Start the query on this directory. Returns when it is running. `supervisor` hears of its end."""

    def stop(self) -> None:
        """Stop it, and return when it has stopped. Harmless when it is not running."""

    def end_reason(self) -> str | None:
        """Why the query ended, "" when it ended by itself, None while it runs."""
