"""Starts a run of a job that may be claimed: compare, claim, assemble, recover, start the query.

This is the composition root, for production, the simulation and the tests alike.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.alarm import Receiver
from holdfast.errors import StopAsked, StorageError
from holdfast.identifiers import BatchId
from holdfast.job_log import begin_phase, begin_step, enter_step, log, phase
from holdfast.repository.entries import RunStarted
from holdfast.repository.going_back import AlreadyBack, GoBack, Wanted, decide, naming_the_request
from holdfast.repository.journal import Journal
from holdfast.repository.state import JobState
from holdfast.repository.survey import listed_manifests
from holdfast.runtime.errors_and_reasons import message_of
from holdfast.runtime.job_folder import JobFolder
from holdfast.runtime.own_writer import may_have_more
from holdfast.runtime.plans.keeping import mode_of
from holdfast.runtime.ports import Query, Workplace
from holdfast.runtime.recovery.recovery import Resumed
from holdfast.runtime.reports.state_reporter import BothBeats
from holdfast.runtime.run.assembly.checkpoints import checkpoint_parts
from holdfast.runtime.run.assembly.query import runtime_of, start_parts
from holdfast.runtime.run.assembly.storage import storage_parts
from holdfast.runtime.run.claiming import claim, home_identity, marker_of, require_claimable
from holdfast.runtime.run.comparing import Outside, compare_again, compare_outside
from holdfast.runtime.run.components import StartParts, StorageParts, Threads
from holdfast.runtime.run.job_location import JobLocation
from holdfast.runtime.run.loop import Finished, Runtime
from holdfast.runtime.run.run_end import record_run_end
from holdfast.runtime.start_profile import FIRST_BATCH
from holdfast.runtime.work_marker import WorkMarker
from holdfast.settings import RunSettings
from holdfast.storage.interface import ObjectStore

WorkplaceOf = Callable[[WorkMarker, bool], Workplace]
"""The job's work directories, for the owner in the marker; True for a new lineage of the job."""


@dataclass
class _Begun:
    """The progress of a start."""

    touched: bool = False
    """It may open the sink. Before that it has only made a directory of its own; on HDFS that is the previous run's,
    renamed."""
    planned: BatchId | None = None
    """The newest batch that the query's own writer may have, None when that is unknown."""


@dataclass(frozen=True)
class _Claimed:
    """This run owns the job."""

    journal: Journal
    entry: RunStarted
    outside: Outside
    home_id: str
    leftovers: tuple[str, ...]
    """Manifests that were in the home before the claim."""


def launch(
    location: JobLocation,
    query: Query,
    threads: Threads,
    finished: Finished,
    receivers: tuple[Receiver, ...] = (),
    workplace_of: WorkplaceOf | None = None,
) -> Runtime:
    """Compare the records of the job, claim it, recover, and start the query. The caller drives the returned runtime.
    `receivers` get the alarms."""
    with phase("comparing and claiming"):
        claimed = _claimed(location, query)
    storage = storage_parts(location, claimed.journal, claimed.entry, query, receivers, threads)
    storage.reporter.begin_after(claimed.outside.reported)
    storage.reporter.remember(claimed.outside.past_alarms)
    storage.alarms.past = claimed.outside.past_alarms
    begun = _Begun()
    try:
        log.info("run %s owns the job", claimed.entry.fencing_epoch)
        enter_step("finding where to resume")
        outside = claimed.outside
        if storage.journal.moved_before_claim:
            outside = compare_again(location, storage.journal, query, outside)
        checkpoints = checkpoint_parts(storage, query, claimed.leftovers, threads)
        workplace = _workplace(location, claimed, workplace_of)
        parts = start_parts(storage, checkpoints, query, workplace, outside, threads)
        keep_beating(storage, threads)
        resumed = _started(storage, parts, outside, begun)
    except (Exception, StopAsked) as error:
        # Also when a signal stops the process: the next start need not wait for the heartbeat to go stale.
        query.stop()
        _record_failed_start(storage, begun, error)
        raise
    workplace.clean(resumed.directory)
    return runtime_of(storage, checkpoints, parts.query, resumed, threads, finished, parts)


def _claimed(location: JobLocation, query: Query) -> _Claimed:
    around = location.around
    journal = Journal(location.store, new_attempt=around.new_attempt, now=around.clock.wall, readers=around.readers)
    require_claimable(location, journal)
    plans = mode_of(location.settings.plans, query, location.settings.publish)
    outside = compare_outside(location, journal, query, plans)
    _remind_of_acceptances(location.settings)
    leftovers = stored_manifests(location.store)
    home_id = home_identity(location)
    described = query.sink.describe() if query.sink is not None else ""
    return _Claimed(journal, claim(location, journal, outside.agreement, described, plans), outside, home_id, leftovers)


def _workplace(location: JobLocation, claimed: _Claimed, make: WorkplaceOf | None) -> Workplace:
    marker, new_life = marker_of(location, claimed.entry, claimed.home_id), location.settings.new_life
    return JobFolder(location.work, marker, new_life=new_life) if make is None else make(marker, new_life)


def keep_beating(storage: StorageParts, threads: Threads) -> None:
    """The job shows as owned from the first moment: recovery can take longer than the heartbeat timeout."""
    beats = BothBeats(storage.reporter, storage.watch)
    beats.beat()
    threads.lanes.every("heartbeat", storage.location.settings.heartbeat_s, beats.beat)


def _started(storage: StorageParts, parts: StartParts, outside: Outside, begun: _Begun) -> Resumed:
    settings, journal = storage.location.settings, storage.journal
    wanted = Wanted(settings.from_savepoint, settings.from_checkpoint)
    with naming_the_request(storage.location.job, lambda: journal.state, wanted), phase("finding where to resume"):
        recovered = _recover(storage, parts, outside, begun)
    begin_step("starting the query")
    with phase("starting the query"):
        started = parts.candidates.start(recovered)
    begin_phase(FIRST_BATCH)
    return started


def _record_failed_start(storage: StorageParts, begun: _Begun, error: Exception | StopAsked) -> None:
    failed = isinstance(error, Exception)
    why = message_of(error) if isinstance(error, Exception) else "stopped"
    untouched = not (storage.location.work.abilities.takes_over_by_rename or begun.touched)
    reason = f"could not start: {why}"
    record_run_end(storage.journal, reason, begun.planned, failed=failed, never_ran=True, untouched=untouched)


def stored_manifests(store: ObjectStore) -> tuple[str, ...]:
    """Listed before the claim, so none is of a newer run: the unneeded ones can be deleted later."""
    try:
        return tuple(item.key for item in listed_manifests(store))
    except StorageError as error:
        log.warning("leftover manifests of earlier runs stay until the next start: %s", error.message)
        return ()


_ACCEPTS = {
    "new_life": "begins another life of the job where home, work directory and sink do not agree, and duplicates rows",
    "accept_older_home": "takes rows back from readers when the home was restored from a backup",
    "accept_sink": "resumes without rows that the sink has lost by then",
    "accept_source": "resumes with offsets of another topic, should it be created again by then",
}


def _remind_of_acceptances(settings: RunSettings) -> None:
    """The user accepts one situation with them; in a unit file they would apply to every later start, too."""
    for name, will in _ACCEPTS.items():
        if getattr(settings, name):
            log.warning(
                "--%s is for this start only: remove it. Otherwise the next start %s, without asking",
                name.replace("_", "-"),
                will,
            )


def _recover(storage: StorageParts, parts: StartParts, outside: Outside, begun: _Begun) -> Resumed:
    """The directory to start in, with the sink at the same point.

    A query that does not fit its checkpoint is refused before anything is abandoned: the next run resumes as before.
    """
    location, state = storage.location, storage.journal.state
    location.around.step("run.claimed")
    back = _way_back(location.settings, state)
    if back is None and outside.may_resume_locally:
        parts.resuming.bring_back()
    resumed = parts.recovery.resume(local=outside.may_resume_locally, back=back)
    location.around.step("recovery.directory")
    if resumed.abandons is not None:
        storage.reporter.begin_after(None)  # its batches are of a line that is being left

    def more(batch: BatchId) -> bool:
        repeats = parts.catching_up.repeats_plans(resumed)
        local, reported = resumed.is_local, outside.reported
        return may_have_more(storage.journal.state, batch, local=local, repeats=repeats, reported=reported)

    if (taken := parts.catching_up.require_no_skips(resumed, more)) is not None:
        begun.planned = None if more(taken.planned) else taken.planned
    begun.touched = True
    parts.supervision.started(overridden=parts.resuming.go_on(resumed))
    return resumed


def _way_back(settings: RunSettings, state: JobState) -> GoBack | None:
    """The checkpoint to go back to, None when the job resumes as usual."""
    wanted = Wanted(settings.from_savepoint, settings.from_checkpoint)
    answer = decide(state, wanted)
    if not isinstance(answer, AlreadyBack):
        return answer
    other = f"from_checkpoint={answer.to}" if wanted.savepoint else "a savepoint's name"
    log.warning(
        "the job has already gone back to %s and continued since; it does not go back again. Try: %s, to do so",
        wanted,
        other,
    )
    return None
