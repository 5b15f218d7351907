"""The second part of a run: when checkpoints are made, who makes them, and what is deleted and verified."""

from collections.abc import Callable

from holdfast.checkpoint.manifest import Manifest
from holdfast.coordination.coordinator import Coordinator
from holdfast.coordination.limits import Limits
from holdfast.coordination.recovery_time import RecoveryTime
from holdfast.identifiers import BatchId
from holdfast.runtime.checkpoints.checkpointing import Checkpointing
from holdfast.runtime.checkpoints.headroom_watch import HeadroomWatch
from holdfast.runtime.checkpoints.plan_packer import PlanPacker
from holdfast.runtime.own_writer import asked
from holdfast.runtime.ports import Query, RunDirectory
from holdfast.runtime.reports.batch_watch import BatchWatch
from holdfast.runtime.requests.serving import Serving
from holdfast.runtime.run.claiming import retention_of
from holdfast.runtime.run.components import CheckpointParts, StorageParts, Threads
from holdfast.runtime.upkeep.collecting import Collector, DeletionPace
from holdfast.runtime.upkeep.index_loading import IndexLoader
from holdfast.runtime.upkeep.retiring import Retiring
from holdfast.runtime.upkeep.scrubbing import Scrubbing
from holdfast.settings import RunSettings
from holdfast.sources.skipped import SkipCount


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


def _coordinator(storage: StorageParts) -> Coordinator:
    around, state = storage.location.around, storage.journal.state
    restorable = state.restorable()
    return Coordinator(
        limits_of(storage.location.settings, around.jitter()),
        around.clock.monotonic(),
        last_completed=restorable[0].id if restorable else None,
        savepoints=frozenset(entry.name for entry in state.retained() if entry.name),
        recovery=_recovery_time(storage),
    )


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


def _recovery_time(storage: StorageParts) -> RecoveryTime | None:
    """Of a writer of the query's own without plans nothing is repeated, and what is protected does not recover here."""
    claimed, state = storage.claimed, storage.journal.state
    if claimed.protects or (claimed.plans == "" and claimed.sink == ""):
        return None
    usable = state.restorable()
    barriers = [entry.barrier_batch_id for entry in usable[:2]]
    return RecoveryTime(
        storage.location.settings.recovery_target_s,
        bytes_total=usable[0].bytes_total if usable else 0,
        between=max(0, barriers[0] - barriers[1]) if len(barriers) == 2 else None,
        planned=claimed.plans != "",
    )


def _packer(storage: StorageParts, query: Query) -> PlanPacker | None:
    location = storage.location
    if storage.claimed.protects or not records_plans(storage, query):
        return None
    retained = retention_of(location.settings).retained
    return PlanPacker(
        journal=storage.journal,
        retained=retained,
        new_attempt=location.around.new_attempt,
        kept=lambda: query.batches_retained,
    )


def records_plans(storage: StorageParts, query: Query) -> bool:
    """Whether each checkpoint holds the plans of its batches. Where readers see a batch with its checkpoint, that is
    all the plans there are."""
    return storage.claimed.plans != "" or (query.sink is not None and storage.location.settings.plans != "off")


def _batch_watch(query: Query, threads: Threads) -> BatchWatch | None:
    ask = query.batch_reports()
    return BatchWatch(ask, threads.lanes, threads.post) if ask is not None else None


def _writer_has(query: Query, directory: RunDirectory) -> BatchId | None:
    taken = asked(lambda: query.own_writer(directory))
    return None if taken is None else taken.newest


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
