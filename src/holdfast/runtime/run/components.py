"""What a run is made of, in three parts. `assembly` makes them."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.coordination.coordinator import Coordinator
from holdfast.coordination.events import Event
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
from holdfast.runtime.ports import Query, Workplace
from holdfast.runtime.query.candidates import Candidates
from holdfast.runtime.query.query_life import Happenings, QueryDone, QueryResumed
from holdfast.runtime.query.supervision import Supervision
from holdfast.runtime.recovery.recovery import Recovery
from holdfast.runtime.recovery.resuming import Resuming
from holdfast.runtime.reports.alarms import Alarms
from holdfast.runtime.reports.history_watch import HistoryWatch
from holdfast.runtime.reports.state_reporter import StateReporter
from holdfast.runtime.reports.stuck_watch import StuckWatch
from holdfast.runtime.requests.serving import Serving
from holdfast.runtime.requests.wanted import CheckpointWanted, StopWanted
from holdfast.runtime.run.job_location import JobLocation
from holdfast.runtime.upkeep.collecting import Collector
from holdfast.runtime.upkeep.index_loading import IndexLoader
from holdfast.runtime.upkeep.retiring import Retiring
from holdfast.runtime.upkeep.scrubbing import Scrubbing
from holdfast.storage.interface import ObjectStore


@dataclass(frozen=True)
class QueryNoticed:
    """The query says that something has become of it."""


Item = Event | QueryResumed | QueryDone | QueryNoticed | CheckpointWanted | StopWanted | Callable[[], Happenings | None]
"""What the loop is told. A function is called on the loop's thread, and says what has happened by it."""

Post = Callable[[Item], None]


@dataclass(frozen=True)
class Threads:
    """Where a run works: on lanes; and how it tells its loop of it."""

    lanes: Lanes
    post: Post


@dataclass(frozen=True)
class StorageParts:
    """The home and the journal as their owner holds them, and what the run says of itself."""

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


@dataclass(frozen=True)
class CheckpointParts:
    """Who decides about checkpoints, who makes them, and who frees and checks what the home holds."""

    coordinator: Coordinator
    checkpointing: Checkpointing
    headroom: HeadroomWatch
    index: IndexLoader
    collector: Collector
    retiring: Retiring
    scrubbing: Scrubbing
    serving: Serving


@dataclass(frozen=True)
class QueryParts:
    """Where the query goes on, who agrees to that, and when it is started again."""

    query: Query
    workplace: Workplace
    recovery: Recovery
    resuming: Resuming
    candidates: Candidates
    supervision: Supervision
    catching_up: CatchingUp
    plans: PlanKeeper | None
    """None when no plans of batches are kept."""
