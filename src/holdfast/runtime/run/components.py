"""The components of a run, in three parts; `assembly/` makes them."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.coordination.coordinator import Coordinator
from holdfast.coordination.events import Event
from holdfast.identifiers import Sequence
from holdfast.monitoring.traces import Traces
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import RunStarted
from holdfast.repository.journal import Journal
from holdfast.runtime.checkpoints.checkpointing import Checkpointing
from holdfast.runtime.checkpoints.headroom_watch import HeadroomWatch
from holdfast.runtime.checkpoints.manifests import Manifests
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.ownership.ownership_watch import OwnershipWatch
from holdfast.runtime.plans.catching_up import CatchingUp
from holdfast.runtime.plans.keeping import PlanKeeper
from holdfast.runtime.ports import Query
from holdfast.runtime.query.candidates import Candidates
from holdfast.runtime.query.query_life import Happenings, QueryDone, QueryResumed
from holdfast.runtime.query.supervision import Supervision
from holdfast.runtime.recovery.recovery import Recovery
from holdfast.runtime.recovery.resuming import Resuming
from holdfast.runtime.reports.alarms import Alarms
from holdfast.runtime.reports.batch_watch import BatchWatch
from holdfast.runtime.reports.history_watch import HistoryWatch
from holdfast.runtime.reports.state_reporter import StateReporter
from holdfast.runtime.reports.stuck_watch import StuckWatch
from holdfast.runtime.requests.serving import Serving
from holdfast.runtime.requests.wanted import CheckpointWanted, StopWanted
from holdfast.runtime.run.job_location import JobLocation
from holdfast.runtime.sources.lag_watch import LagWatch
from holdfast.runtime.sources.offset_commits import OffsetCommits
from holdfast.runtime.sources.reading_watch import ReadingWatch
from holdfast.runtime.sources.retention_watch import RetentionWatch
from holdfast.runtime.upkeep.collecting import Collector
from holdfast.runtime.upkeep.index_loading import IndexLoader
from holdfast.runtime.upkeep.retiring import Retiring
from holdfast.runtime.upkeep.scrubbing import Scrubbing
from holdfast.sources.skipped import SkipCount
from holdfast.storage.interface import ObjectStore


@dataclass(frozen=True)
class QueryNoticed:
    """The query signals that its state has changed."""


Item = Event | QueryResumed | QueryDone | QueryNoticed | CheckpointWanted | StopWanted | Callable[[], Happenings | None]
"""Input of the loop. A function is called on the loop's thread and returns what has happened."""

Post = Callable[[Item], None]


@dataclass(frozen=True)
class Threads:
    """The lanes of a run, and how they post results to its loop."""

    lanes: Lanes
    post: Post


@dataclass(frozen=True)
class StorageParts:
    """The home and the journal of the owner, and the run's reports."""

    location: JobLocation
    claimed: RunStarted
    store: ObjectStore
    journal: Journal
    blobs: Blobs
    manifests: Manifests
    watch: OwnershipWatch
    alarms: Alarms
    reporter: StateReporter
    history: HistoryWatch
    stuck: StuckWatch
    traces: Traces | None
    """None when nobody wants them."""


@dataclass(frozen=True)
class CheckpointParts:
    """Decides about checkpoints, makes them, and deletes and verifies objects in the home."""

    coordinator: Coordinator
    checkpointing: Checkpointing
    headroom: HeadroomWatch
    index: IndexLoader
    collector: Collector
    retiring: Retiring
    scrubbing: Scrubbing
    serving: Serving
    batches: BatchWatch | None
    """None when nobody tells of finished batches."""
    skipped: SkipCount


@dataclass(frozen=True)
class QueryParts:
    """The running query, and what is watched and told beside it."""

    query: Query
    remember: Callable[[Sequence], None]
    """Called with the journal's newest entry after each checkpoint. Best effort."""
    stopping: str = "stopping: the query stops, then the job takes a last checkpoint"
    """Logged when a stop begins."""
    repeated_s: Callable[[], float | None] = lambda: None
    """How long a batch took that was repeated, None when none was."""
    plans: PlanKeeper | None = None
    """None when no plans of batches are kept, or the run does not plan them."""
    offsets: OffsetCommits | None = None
    """None when offsets are not committed to a consumer group."""
    lag: LagWatch | None = None
    """None when the query has no Kafka source that can be asked about."""
    reading: ReadingWatch | None = None
    """The same."""
    retention: RetentionWatch | None = None
    """The same."""


@dataclass(frozen=True)
class StartParts:
    """Where the query resumes, what must agree, and when it restarts."""

    query: QueryParts
    recovery: Recovery
    resuming: Resuming
    candidates: Candidates
    supervision: Supervision
    catching_up: CatchingUp
