"""What the runtime needs from outside: work directories and the query. In production these are `job_folder` and
`holdfast.spark`; the simulation has its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Many
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from holdfast.checkpoint.layout import ShardPlan, SnapshotPlan, WorkFile
from holdfast.checkpoint.manifest import Manifest
from holdfast.identifiers import BatchId, FencingEpoch, Sequence, Ticket
from holdfast.plans.replay import Repeat
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import BatchSpan, RunStarted
from holdfast.runtime.ahead import Ahead
from holdfast.runtime.own_writer import Taken
from holdfast.runtime.query_end import QueryEnd
from holdfast.sinks.protocol import Sink, SinkContext, SinkState, StagedBatch
from holdfast.snapshot.carrier import ShardCopy
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.reading import BatchRead
from holdfast.sources.restorable import KeptSource
from holdfast.storage.interface import ObjectStore
from holdfast.workdir.interface import WorkDirectory


class RunDirectory(Protocol):
    """The Spark checkpoint directory of one run."""

    @property
    def name(self) -> str:
        """Unique among the directories of the job."""

    @property
    def location(self) -> str: ...

    @property
    def files(self) -> WorkDirectory: ...

    def newest_barrier(self) -> BatchId | None:
        """Raises `StorageError` when the directory does not answer."""

    def plan(self, barrier: BatchId) -> SnapshotPlan:
        """Raises `NotPlannable` when a file of the barrier is gone."""

    def pin(self, ticket: Ticket, files: Many[WorkFile]) -> bool:
        """Keep these files for `copy` until `unpin`, even when Spark deletes them. False where that is not possible.

        Raises `NotPlannable` when one is already gone.
        """

    def unpin(self, ticket: Ticket) -> None:
        """Harmless when nothing is pinned."""

    def copy(self, shards: Many[ShardPlan], blobs: Blobs, cancelled: Callable[[], bool]) -> tuple[ShardCopy, ...]:
        """Raises `ShardDeclined`, `Cancelled`, `BeingDeleted` or a `StorageError`."""

    def ledger(self) -> tuple[StagedBatch, ...]:
        """The staged batches that recovery needs, oldest first."""

    def prune_ledger(self, published: BatchId) -> None:
        """Drop published batches. Best effort: what stays is dropped the next time."""

    def drop_ledger_after(self, batch: BatchId | None) -> None: ...

    def names(self, folder: str = "") -> list[str]:
        """Of files and folders directly in it, none when it is not there."""

    def read(self, path: str) -> bytes: ...

    def write_atomic(self, path: str, data: bytes) -> None: ...

    def remove(self, path: str) -> None:
        """Harmless when it is not there."""

    def pieces(self, path: str) -> Iterator[bytes]:
        """The bytes of one file; `OSError` when it cannot be read."""

    def set_aside(self, why: str) -> None:
        """Mark as unreadable and keep for inspection; no run resumes from it again."""


class Workplace(Protocol):
    """The work directories of one job on this host."""

    def intact(self, run: RunStarted) -> RunDirectory | None:
        """The directory that `run` left here, when a query can resume from it."""

    def adopt(self, previous: RunDirectory, epoch: FencingEpoch) -> RunDirectory:
        """A new directory with the previous one's newest barrier. The previous one may no longer exist afterwards."""

    def restore(self, store: ObjectStore, manifest: Manifest, epoch: FencingEpoch) -> RunDirectory:
        """A new directory from a checkpoint, every byte verified. Raises `Corrupt`."""

    def fresh(self, epoch: FencingEpoch) -> RunDirectory:
        """A new, empty directory."""

    def clean(self, keep: RunDirectory) -> None:
        """Remove the directories of earlier runs, except those set aside."""

    def remember(self, head: Sequence) -> None:
        """Record the journal's newest entry: a home that is older later was restored from a backup. Best effort."""


BatchReports = Callable[[BatchId], tuple[BatchSpan, ...]]
"""What is known of the finished batches behind this one, oldest first. May block; raises nothing."""

KeepPlan = Callable[[BatchId, bytes, Callable[[], bool]], None]
"""Called with a batch, its offsets, and a function that says whether the query is being stopped."""


@dataclass(frozen=True)
class Supervisor:
    """Callbacks of a running query, from any thread."""

    still_owner: Callable[[], bool]
    """Called before each batch: False only when a newer run is known to own the job."""
    ended: Callable[[], None]
    """Only a wake-up: it may come late, more than once, or never."""
    keep_plan: KeepPlan | None = None
    """Before any writer sees a batch; the batch must not run when it raises. None when no plans are kept."""


class Query(Protocol):
    @property
    def application_id(self) -> str | None: ...

    @property
    def sink(self) -> Sink | None:
        """None when the query has its own writer."""

    @property
    def batches_retained(self) -> int | None:
        """How many batches Spark retains the files of a batch for; None before the start."""

    def batch_reports(self) -> BatchReports | None:
        """None when nobody tells of finished batches."""

    def describe(self) -> dict[str, str]:
        """The description of the query in a manifest: Spark version, state store provider, shuffle partitions…"""

    def look_ahead(self, ahead: Ahead) -> None:
        """Raises before the claim what `preflight` or `own_writer` would lead to after it: `Incompatible` or
        `Conflict`. Changes nothing, and returns when that is not known yet."""

    def preflight(self, directory: RunDirectory, barrier: BatchId | None) -> bool:
        """Compare the query with the directory in which it resumes after `barrier`, before anything is changed.

        True when the user overrides differences that Spark may fail on. Raises `Incompatible` when the user does not.
        """

    def look_at_sink(self, context: SinkContext) -> SinkState | None:
        """The sink's record of the job, None when there is no sink. Changes nothing. Raises `InvalidSettings` when the
        sink does not accept the query's output."""

    def missing_input(self, paths: Many[str]) -> tuple[str, ...] | None:
        """Which of these files, named as in Spark's file source, do not exist; None when that is unknown."""

    def kafka_inputs(self) -> tuple[KafkaInput, ...]:
        """The Kafka sources that the query reads."""

    def kept_sources(self) -> tuple[KeptSource, ...]:
        """The sources that can say how long they keep the input that a checkpoint needs after it is restored."""

    def batches_read(self, since: datetime | None) -> tuple[BatchRead, ...]:
        """What the newest batches that began after `since` read of their Kafka sources, oldest first; as far as Spark
        remembers it."""

    def cores(self) -> int | None:
        """On how many cores its tasks run now; None when that is not known."""

    def skipped_input(self) -> tuple[str, ...]:
        """What its sources were told to pass over where it resumed, because it is gone; in words."""

    def own_writer(self, directory: RunDirectory, *, new_line: bool = False) -> Taken | None:
        """The newest batch of the query's own writer, which resumes in `directory`; None when holdfast writes.
        `new_line`: batches behind the newest one there are cut anew."""

    def plans_refusal(self) -> str | None:
        """Why the plan of a batch cannot be held back until it is durable, None when it can."""

    def repeat(self, directory: RunDirectory, steps: Many[Repeat]) -> None:
        """Run planned batches behind the directory's newest one again, one after the other; the last may be left for
        `start`. Raises what `start` raises."""

    def open_sink(self, context: SinkContext) -> None:
        """Prepare the sink for the query's output, and fence it."""

    def start(self, directory: RunDirectory, supervisor: Supervisor) -> None:
        """Start the query on this directory. Returns when it is running. `supervisor` is notified of its end."""

    def stop(self) -> None:
        """Stop it, and return when it has stopped. Harmless when it is not running."""

    def commits_told(self) -> int | None:
        """A number that rises with every batch that is committed, where Spark says so and looking is expensive."""

    def end(self) -> QueryEnd | None:
        """How the query ended, None while it runs."""
