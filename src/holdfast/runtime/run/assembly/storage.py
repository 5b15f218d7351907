"""The first part of a run: its home and its journal, and what the run reports."""

from holdfast.alarm import Receiver
from holdfast.coordination.events import EntrySettled
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.errors import HomeReplaced
from holdfast.monitoring.traces import Traces
from holdfast.notifying.channels import call
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import AnyEntry, CheckpointCompleted, RunStarted
from holdfast.repository.journal import Journal
from holdfast.runtime.checkpoints.manifests import Manifests
from holdfast.runtime.ownership.ownership_watch import OwnershipWatch
from holdfast.runtime.ports import Query
from holdfast.runtime.reports.alarms import Alarms
from holdfast.runtime.reports.alive_calls import AliveCalls
from holdfast.runtime.reports.history_watch import HistoryWatch
from holdfast.runtime.reports.state_reporter import StateFile, StateReporter
from holdfast.runtime.reports.stuck_watch import StuckWatch
from holdfast.runtime.run.components import StorageParts, Threads
from holdfast.runtime.run.job_location import JobLocation
from holdfast.storage.interface import ObjectStore
from holdfast.storage.limited import Allowance, LimitedStore
from holdfast.storage.urls import open_store

_PLAN_DEADLINE_S = 3.0
"""So long a batch waits for its plan to be durable, unless that is required."""


def storage_parts(
    location: JobLocation,
    claiming: Journal,
    claimed: RunStarted,
    query: Query,
    receivers: tuple[Receiver, ...],
    threads: Threads,
) -> StorageParts:
    """`claiming` is the journal that claimed the job."""
    around, store = location.around, location.store
    blobs = Blobs(_limited(store, location.settings.bytes_per_second), claimed.fencing_epoch)
    manifests = Manifests()

    def settled(entry: AnyEntry) -> None:
        """On the journal lane: an append with an unknown outcome turned out to exist."""
        if isinstance(entry, CheckpointCompleted):
            if (manifest := manifests.get(entry.id)) is not None:
                blobs.commit_manifest(manifest)
            threads.post(EntrySettled(entry.id))

    journal = claiming.owned(settled)
    alarms = Alarms(
        location.job, receivers, around.clock, around.deliver, home=location.home, alive=_alive_calls(location)
    )
    reporter = StateReporter(_state_file(location, claimed), threads.lanes, around.clock)
    watch = OwnershipWatch(
        store=store,
        journal=journal,
        process=around.process,
        started_at=claimed.at,
        interval=location.settings.heartbeat_s,
        application_id=lambda: query.application_id,
        clock=around.clock,
        post=threads.post,
        home_replaced=lambda error: threads.post(lambda: _tell_replaced(alarms, error)),
        report=lambda: reporter.latest,
    )
    history = HistoryWatch(
        job=location.job,
        home=location.home,
        journal=journal,
        alarms=alarms,
        clock=around.clock,
        lanes=threads.lanes,
        post=threads.post,
    )
    return StorageParts(
        location=location,
        claimed=claimed,
        store=store,
        journal=journal,
        blobs=blobs,
        manifests=manifests,
        watch=watch,
        alarms=alarms,
        reporter=reporter,
        history=history,
        stuck=StuckWatch(alarms.raise_alarm, alarms.clear),
        traces=_traces(location),
    )


def impatient_store(location: JobLocation) -> ObjectStore:
    """The job's place in the home, for whoever has no time to ask it for long."""
    if location.root is None:
        return location.store
    deadline = min(_PLAN_DEADLINE_S, location.settings.storage_deadline_s)
    return open_store(location.home, deadline=deadline, meter=location.meter).scoped(location.job)


def _state_file(location: JobLocation, claimed: RunStarted) -> StateFile | None:
    if location.state_file is None:
        return None
    around = location.around
    return StateFile(location.job, location.home, location.state_file, around.process, claimed, around.clock)


def _traces(location: JobLocation) -> Traces | None:
    url = location.settings.traces_url
    return None if url is None else Traces(url, location.job)


def _alive_calls(location: JobLocation) -> AliveCalls | None:
    url = location.settings.alive_url
    return None if url is None else AliveCalls(url, call, location.around.clock)


def _tell_replaced(alarms: Alarms, error: HomeReplaced | None) -> None:
    code, rule = FailureReason.HOME_REPLACED.value, FailureReason.HOME_REPLACED.rule
    if error is not None:
        alarms.raise_alarm(code, "critical", error.message, rule.hint)
    else:
        alarms.clear(code, "what this run has written is in the home again")


def _limited(store: ObjectStore, bytes_per_second: float | None) -> ObjectStore:
    return store if bytes_per_second is None else LimitedStore(store, bytes=Allowance(bytes_per_second))
