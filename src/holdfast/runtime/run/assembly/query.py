"""The third part of a run: the query, where it resumes, what is watched beside it. And the loop over all three."""

from holdfast.repository.ownership import known_dead
from holdfast.runtime.plans.catching_up import CatchingUp
from holdfast.runtime.plans.keeping import PlanKeeper
from holdfast.runtime.ports import Query, Supervisor, Workplace
from holdfast.runtime.query.candidates import Candidates
from holdfast.runtime.query.query_life import QueryLife
from holdfast.runtime.query.supervision import Supervision
from holdfast.runtime.recovery.consent import Consent
from holdfast.runtime.recovery.recovery import Known, Recovery, Resumed
from holdfast.runtime.recovery.replaying import Replaying
from holdfast.runtime.recovery.resuming import Resuming
from holdfast.runtime.run.assembly.checkpoints import records_plans
from holdfast.runtime.run.assembly.storage import impatient_store
from holdfast.runtime.run.comparing import Outside, planned_behind
from holdfast.runtime.run.components import CheckpointParts, QueryNoticed, QueryParts, StartParts, StorageParts, Threads
from holdfast.runtime.run.loop import Finished, Runtime
from holdfast.runtime.run.publisher import Publisher
from holdfast.runtime.sources.lag_watch import LagWatch
from holdfast.runtime.sources.offset_commits import OffsetCommits
from holdfast.runtime.sources.reading_watch import ReadingWatch
from holdfast.runtime.sources.retention_watch import RetentionWatch
from holdfast.sources.kafka_client import is_installed


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


def _replaying(storage: StorageParts, known: Known, query: Query, consent: Consent) -> Replaying | None:
    if not records_plans(storage, query):
        return None
    return Replaying(
        store=storage.store,
        journal=storage.journal,
        files_of=lambda id: known.manifest(id).files(),
        read=known.read,
        shown=consent.published if query.sink is not None else None,
        alone=storage.claimed.plans != "",
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
