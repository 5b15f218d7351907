"""Assembles a run: storage and journal, checkpointing, the query. Everything goes through constructors."""

from collections.abc import Callable

from holdfast.alarm import Receiver
from holdfast.checkpoint.manifest import Manifest
from holdfast.coordination.coordinator import Coordinator
from holdfast.coordination.events import EntrySettled
from holdfast.coordination.limits import Limits
from holdfast.coordination.reasons import FailureReason
from holdfast.coordination.recovery_time import RecoveryTime
from holdfast.errors import HomeReplaced
from holdfast.identifiers import BatchId
from holdfast.monitoring.traces import Traces
from holdfast.notifying.channels import call
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import AnyEntry, CheckpointCompleted, RunStarted
from holdfast.repository.journal import Journal
from holdfast.repository.ownership import known_dead
from holdfast.runtime.checkpoints.checkpointing import Checkpointing
from holdfast.runtime.checkpoints.headroom_watch import HeadroomWatch
from holdfast.runtime.checkpoints.manifests import Manifests
from holdfast.runtime.checkpoints.plan_packer import PlanPacker
from holdfast.runtime.own_writer import asked
from holdfast.runtime.ownership.ownership_watch import OwnershipWatch
from holdfast.runtime.plans.catching_up import CatchingUp
from holdfast.runtime.plans.keeping import PlanKeeper
from holdfast.runtime.ports import Query, RunDirectory, Supervisor, Workplace
from holdfast.runtime.query.candidates import Candidates
from holdfast.runtime.query.query_life import QueryLife
from holdfast.runtime.query.supervision import Supervision
from holdfast.runtime.recovery.consent import Consent
from holdfast.runtime.recovery.recovery import Known, Recovery, Resumed
from holdfast.runtime.recovery.replaying import Replaying
from holdfast.runtime.recovery.resuming import Resuming
from holdfast.runtime.reports.alarms import Alarms
from holdfast.runtime.reports.alive_calls import AliveCalls
from holdfast.runtime.reports.batch_watch import BatchWatch
from holdfast.runtime.reports.history_watch import HistoryWatch
from holdfast.runtime.reports.state_reporter import StateFile, StateReporter
from holdfast.runtime.reports.stuck_watch import StuckWatch
from holdfast.runtime.requests.serving import Serving
from holdfast.runtime.run.claiming import retention_of
from holdfast.runtime.run.comparing import Outside, planned_behind
from holdfast.runtime.run.components import CheckpointParts, QueryNoticed, QueryParts, StartParts, StorageParts, Threads
from holdfast.runtime.run.job_location import JobLocation
from holdfast.runtime.run.loop import Finished, Runtime
from holdfast.runtime.run.publisher import Publisher
from holdfast.runtime.sources.lag_watch import LagWatch
from holdfast.runtime.sources.offset_commits import OffsetCommits
from holdfast.runtime.sources.reading_watch import ReadingWatch
from holdfast.runtime.sources.retention_watch import RetentionWatch
from holdfast.runtime.upkeep.collecting import Collector, DeletionPace
from holdfast.runtime.upkeep.index_loading import IndexLoader
from holdfast.runtime.upkeep.retiring import Retiring
from holdfast.runtime.upkeep.scrubbing import Scrubbing
from holdfast.settings import RunSettings
from holdfast.sources.kafka_client import is_installed
from holdfast.sources.skipped import SkipCount
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


def _traces(location: JobLocation) -> Traces | None:
    url = location.settings.traces_url
    return None if url is None else Traces(url, location.job)


def _alive_calls(location: JobLocation) -> AliveCalls | None:
    url = location.settings.alive_url
    return None if url is None else AliveCalls(url, call, location.around.clock)


def checkpoint_parts(
    storage: StorageParts,
    query: Query,
    leftovers: tuple[str, ...],
    threads: Threads,
    judge: Callable[[Manifest], None] = lambda manifest: None,
) -> CheckpointParts:
    """`leftovers` are the manifests that existed before the claim. `judge` raises `NotPlannable` when what was copied
    is no checkpoint of the job."""
    settings, around, journal = storage.location.settings, storage.location.around, storage.journal
    headroom = HeadroomWatch(lambda: query.batches_retained, around.clock, storage.alarms)
    meter, skipped = storage.location.meter, SkipCount()
    batches = _batch_watch(query, threads)
    checkpointing = Checkpointing(
        job=storage.location.job,
        store=storage.store,
        journal=journal,
        blobs=storage.blobs,
        manifests=storage.manifests,
        clock=around.clock,
        lanes=threads.lanes,
        post=threads.post,
        still_owner=storage.watch.still_owner,
        describe=query.describe,
        parallelism=settings.parallelism,
        step=around.step,
        headroom=headroom,
        skipped=skipped,
        usage=(lambda: meter.usage) if meter is not None else None,
        packer=_packer(storage, query),
        ran=batches.upto if batches is not None else lambda barrier: (),
        writer_has=lambda directory: _writer_has(query, directory),
        judge=judge,
    )
    scrubbing = _scrubbing(storage, threads)
    rule = retention_of(settings)
    collector = Collector(
        store=storage.store,
        journal=journal,
        blobs=storage.blobs,
        manifests=storage.manifests,
        pace=DeletionPace(settings.deletes_per_second, rule.grace_s, rule.retained),
        clock=around.clock,
        lanes=threads.lanes,
        missing=scrubbing.suspect,
    )
    retiring = Retiring(
        journal=journal,
        blobs=storage.blobs,
        checkpointing=checkpointing,
        collector=collector,
        rule=rule,
        clock=around.clock,
        lanes=threads.lanes,
        post=threads.post,
        plans=storage.claimed.plans != "",
    )

    def tidy_up() -> None:
        collector.sweep(leftovers)
        retiring.fold()

    index = IndexLoader(
        store=storage.store,
        journal=journal,
        blobs=storage.blobs,
        manifests=storage.manifests,
        readers=around.readers,
        clock=around.clock,
        lanes=threads.lanes,
        done=tidy_up,
    )
    serving = Serving(
        store=storage.store,
        journal=journal,
        clock=around.clock,
        lanes=threads.lanes,
        post=threads.post,
        retire=retiring.retire,
        collect=retiring.collect,
    )
    return CheckpointParts(
        coordinator=_coordinator(storage),
        checkpointing=checkpointing,
        headroom=headroom,
        index=index,
        collector=collector,
        retiring=retiring,
        scrubbing=scrubbing,
        serving=serving,
        batches=batches,
        skipped=skipped,
    )


def _writer_has(query: Query, directory: RunDirectory) -> BatchId | None:
    taken = asked(lambda: query.own_writer(directory))
    return None if taken is None else taken.newest


def start_parts(
    storage: StorageParts,
    checkpoints: CheckpointParts,
    query: Query,
    workplace: Workplace,
    outside: Outside,
    threads: Threads,
) -> StartParts:
    location, journal = storage.location, storage.journal
    settings, around = location.settings, location.around
    known = Known(storage.store, journal)
    consent = Consent(
        query=query,
        known=known,
        journal=journal,
        context=outside.context(location, storage.claimed),
        looked=outside.sink,
        older_home=outside.agreement.older_home,
        force=settings.force,
        planned=lambda after: planned_behind(location, journal.state, after),
        still_owner=journal.require_standing,
    )
    plans = _plan_keeper(storage, threads)
    catching_up = CatchingUp(
        job=location.job,
        query=query,
        journal=journal,
        keeper=plans,
        repeats=settings.repeats,
        host=around.process.host,
        accepts_sink=settings.accept_sink,
        older_home=outside.agreement.older_home,
        clock=around.clock,
    )
    recovery = Recovery(
        storage.store,
        journal,
        workplace,
        around.readers,
        cost=consent.cost,
        lost=lambda directory: consent.lost(directory) or catching_up.lost(directory),
        replaying=_replaying(storage, known, query, consent),
    )
    resuming = Resuming(
        query=query,
        consent=consent,
        recovery=recovery,
        journal=journal,
        is_dead=lambda run: known_dead(run.process, around.process),
        step=around.step,
    )
    supervision = Supervision(settings.restart_delay_s, settings.restart_attempts, settings.restart_same_error)
    keep = plans.keep if plans is not None else None
    candidates = Candidates(
        query=query,
        supervisor=Supervisor(storage.watch.still_owner, lambda: threads.post(QueryNoticed()), keep),
        recovery=recovery,
        resuming=resuming,
        journal=journal,
        supervision=supervision,
        mark_damaged=checkpoints.checkpointing.mark_damaged,
        catching_up=catching_up,
    )
    watched = QueryParts(
        query,
        workplace.remember,
        repeated_s=lambda: catching_up.repeated_s,
        plans=plans,
        offsets=_offset_commits(storage, query, threads),
        lag=_lag_watch(storage, query, threads),
        reading=_reading_watch(storage, checkpoints, query, threads),
        retention=_retention_watch(storage, query, threads),
    )
    return StartParts(watched, recovery, resuming, candidates, supervision, catching_up)


def _offset_commits(storage: StorageParts, query: Query, threads: Threads) -> OffsetCommits | None:
    group = storage.location.settings.commit_offsets_to
    if group is None:
        return None
    return OffsetCommits(
        group=group,
        inputs=query.kafka_inputs(),
        alarms=storage.alarms,
        clock=storage.location.around.clock,
        lanes=threads.lanes,
        post=threads.post,
        still_owner=storage.watch.still_owner,
    )


def _batch_watch(query: Query, threads: Threads) -> BatchWatch | None:
    ask = query.batch_reports()
    return BatchWatch(ask, threads.lanes, threads.post) if ask is not None else None


def _lag_watch(storage: StorageParts, query: Query, threads: Threads) -> LagWatch | None:
    inputs = query.kafka_inputs()
    if not inputs or not is_installed():
        return None
    return LagWatch(inputs=inputs, clock=storage.location.around.clock, lanes=threads.lanes, post=threads.post)


def _reading_watch(
    storage: StorageParts, checkpoints: CheckpointParts, query: Query, threads: Threads
) -> ReadingWatch | None:
    if not query.kafka_inputs() or not is_installed():
        return None
    return ReadingWatch(
        query=query,
        count=checkpoints.skipped,
        alarms=storage.alarms,
        clock=storage.location.around.clock,
        lanes=threads.lanes,
        post=threads.post,
    )


def _retention_watch(storage: StorageParts, query: Query, threads: Threads) -> RetentionWatch | None:
    sources = query.kept_sources()
    if not sources:
        return None
    return RetentionWatch(
        sources=sources,
        store=storage.store,
        manifests=storage.manifests,
        alarms=storage.alarms,
        clock=storage.location.around.clock,
        lanes=threads.lanes,
        post=threads.post,
    )


def _replaying(storage: StorageParts, known: Known, query: Query, consent: Consent) -> Replaying | None:
    if not _records_plans(storage, query):
        return None
    return Replaying(
        store=storage.store,
        journal=storage.journal,
        files_of=lambda id: known.manifest(id).files(),
        read=known.read,
        shown=consent.published if query.sink is not None else None,
        alone=storage.claimed.plans != "",
    )


def _records_plans(storage: StorageParts, query: Query) -> bool:
    """Whether each checkpoint holds the plans of its batches. Where readers see a batch with its checkpoint, that is
    all the plans there are."""
    return storage.claimed.plans != "" or (query.sink is not None and storage.location.settings.plans != "off")


def _packer(storage: StorageParts, query: Query) -> PlanPacker | None:
    location = storage.location
    if storage.claimed.protects or not _records_plans(storage, query):
        return None
    retained = retention_of(location.settings).retained
    return PlanPacker(
        journal=storage.journal,
        retained=retained,
        new_attempt=location.around.new_attempt,
        kept=lambda: query.batches_retained,
    )


def _plan_keeper(storage: StorageParts, threads: Threads) -> PlanKeeper | None:
    mode, around = storage.claimed.plans, storage.location.around
    if mode == "":
        return None
    return PlanKeeper(
        store=impatient_store(storage.location),
        journal=storage.journal,
        mode=mode,
        new_attempt=around.new_attempt,
        alarms=storage.alarms,
        clock=around.clock,
        lanes=threads.lanes,
        post=threads.post,
        sleep=around.sleep,
        readers=around.readers,
    )


def impatient_store(location: JobLocation) -> ObjectStore:
    """The job's place in the home, for whoever has no time to ask it for long."""
    if location.root is None:
        return location.store
    deadline = min(_PLAN_DEADLINE_S, location.settings.storage_deadline_s)
    return open_store(location.home, deadline=deadline, meter=location.meter).scoped(location.job)


def runtime_of(
    storage: StorageParts,
    checkpoints: CheckpointParts,
    query: QueryParts,
    resumed: Resumed,
    threads: Threads,
    finished: Finished,
    start: StartParts | None = None,
) -> Runtime:
    """The query runs in the directory of `resumed`. `start` is None when it is not this run's to restart."""
    around = storage.location.around
    life = QueryLife(
        job=storage.location.job,
        query=query.query,
        resumed=resumed,
        supervision=None if start is None else start.supervision,
        candidates=None if start is None else start.candidates,
        journal=storage.journal,
        alarms=storage.alarms,
        clock=around.clock,
        lanes=threads.lanes,
        post=threads.post,
    )
    publisher = Publisher(
        sink=query.query.sink,
        journal=storage.journal,
        published=resumed.durable,
        lanes=threads.lanes,
        post=threads.post,
        step=around.step,
    )
    return Runtime(storage, checkpoints, query, life, publisher, threads, finished)


def limits_of(settings: RunSettings, jitter: float) -> Limits:
    return Limits(
        interval=settings.interval_s,
        timeout=settings.timeout_s,
        min_pause=settings.min_pause_s,
        max_concurrent=settings.max_concurrent,
        tolerable_failures=settings.tolerable_failures,
        fail_on_exceeded=settings.on_exceeded == "fail",
        jitter=jitter,
    )


def _coordinator(storage: StorageParts) -> Coordinator:
    around, state = storage.location.around, storage.journal.state
    restorable = state.restorable()
    return Coordinator(
        limits_of(storage.location.settings, around.jitter()),
        around.clock.monotonic(),
        last_completed=restorable[0].id if restorable else None,
        savepoints=frozenset(entry.name for entry in state.retained() if entry.name),
        recovery=None if storage.claimed.plans == "" or storage.claimed.protects else _recovery_time(storage),
    )


def _recovery_time(storage: StorageParts) -> RecoveryTime:
    newest = storage.journal.state.newest_of_the_line()
    size = 0 if newest is None else newest.bytes_total
    return RecoveryTime(storage.location.settings.recovery_target_s, bytes_total=size)


def _scrubbing(storage: StorageParts, threads: Threads) -> Scrubbing:
    settings, around = storage.location.settings, storage.location.around
    return Scrubbing(
        store=storage.store,
        journal=storage.journal,
        blobs=storage.blobs,
        manifests=storage.manifests,
        period=settings.scrub_s,
        begin_at=around.jitter(),
        clock=around.clock,
        lanes=threads.lanes,
        post=threads.post,
        raise_alarm=storage.alarms.raise_alarm,
        clear_alarm=storage.alarms.clear,
    )


def _state_file(location: JobLocation, claimed: RunStarted) -> StateFile | None:
    if location.state_file is None:
        return None
    around = location.around
    return StateFile(location.job, location.home, location.state_file, around.process, claimed, around.clock)


def _tell_replaced(alarms: Alarms, error: HomeReplaced | None) -> None:
    code, rule = FailureReason.HOME_REPLACED.value, FailureReason.HOME_REPLACED.rule
    if error is not None:
        alarms.raise_alarm(code, "critical", error.message, rule.hint)
    else:
        alarms.clear(code, "what this run has written is in the home again")


def _limited(store: ObjectStore, bytes_per_second: float | None) -> ObjectStore:
    return store if bytes_per_second is None else LimitedStore(store, bytes=Allowance(bytes_per_second))
