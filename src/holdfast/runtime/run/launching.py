"""From settings to a running job: look before touching, claim, recover, align the sink, start."""

import random
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from holdfast.alarm import Receiver
from holdfast.coordination.coordinator import Coordinator
from holdfast.coordination.events import EntrySettled, Event
from holdfast.coordination.reasons import FailureReason
from holdfast.coordination.rules import Rules
from holdfast.errors import (
    Conflict,
    Fenced,
    HoldfastError,
    HomeReplaced,
    OwnedByAnotherRun,
    StopAsked,
    StorageError,
)
from holdfast.identifiers import AttemptId, BatchId, JobName, Sequence
from holdfast.job_log import doing, log
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import AnyEntry, CheckpointCompleted, Process, Retention, RunStarted
from holdfast.repository.going_back import AlreadyBack, GoBack, Wanted, decide
from holdfast.repository.journal import READERS, Journal, MakeEntry
from holdfast.repository.ownership import TAKE_OVER, Held, Silence, current_process, refusal
from holdfast.repository.state import JobState
from holdfast.repository.survey import listed_manifests
from holdfast.runtime.checkpoints.checkpointing import Checkpointing
from holdfast.runtime.checkpoints.headroom_watch import HeadroomWatch
from holdfast.runtime.clock import Clock, SystemClock
from holdfast.runtime.failure_reasons import message_of
from holdfast.runtime.hdfs_work import workplace_at
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.own_writer import may_have_more, require_no_skips
from holdfast.runtime.ownership.ownership_watch import Beats, OwnershipWatch, beating_in_a_thread
from holdfast.runtime.ownership.watching import Watcher
from holdfast.runtime.ports import Query, Workplace
from holdfast.runtime.query.candidates import Candidates
from holdfast.runtime.query.supervision import Supervision
from holdfast.runtime.recovery.memory import Agreement
from holdfast.runtime.recovery.recovery import Known, Recovery, Resumed, foreseen
from holdfast.runtime.recovery.resuming import Consent, Resuming
from holdfast.runtime.reports.alarms import Alarms, AtOnce, Delivery, InThread
from holdfast.runtime.reports.history_watch import HistoryWatch
from holdfast.runtime.reports.state_reporter import BothBeats, StateFile, StateReporter
from holdfast.runtime.reports.status import storage_use
from holdfast.runtime.reports.stuck_watch import StuckWatch
from holdfast.runtime.run.comparing import Outside, compare, compare_here, known_to
from holdfast.runtime.run.loop import Item, Runtime, RuntimeComponents
from holdfast.runtime.run.places import require_apart
from holdfast.runtime.run.run_end import record_run_end
from holdfast.runtime.upkeep.collecting import Collector, DeletionPace
from holdfast.runtime.upkeep.index_loading import IndexLoader
from holdfast.runtime.upkeep.retiring import Retiring
from holdfast.runtime.upkeep.scrubbing import Scrubbing
from holdfast.runtime.work_folder import require_no_work_directory
from holdfast.runtime.work_marker import WorkMarker
from holdfast.settings import Settings
from holdfast.sinks.protocol import SinkContext, Step, no_step
from holdfast.storage.home_identity import ensure_home_identity
from holdfast.storage.interface import ObjectStore
from holdfast.storage.limited import Allowance, LimitedStore
from holdfast.storage.metered import Meter
from holdfast.storage.urls import open_store, require_create_if_absent
from holdfast.storage.work_path import WorkPath
from holdfast.version import VERSION

T = TypeVar("T")

_READINGS = 3


def _new_attempt() -> AttemptId:
    return AttemptId(uuid.uuid4().hex)  # noqa: TID251


@dataclass(frozen=True)
class Environment:
    """What a run depends on besides its settings; the simulation brings its own."""

    clock: Clock
    process: Process
    new_attempt: Callable[[], AttemptId]
    jitter: Callable[[], float]
    step: Step
    readers: int = READERS
    """Threads that read the journal and the manifests at start; 1 for none besides the caller's."""
    beating: Callable[[Beats, float], AbstractContextManager[None]] = lambda watch, interval: nullcontext()
    """Keeps the heartbeat alive until the loop runs."""
    deliver: Callable[[Receiver], Delivery] = AtOnce
    """How alarms get to their receivers."""
    sleep: Callable[[float], None] = time.sleep  # noqa: TID251
    """Between two looks at another run's heartbeat."""
    alive: Callable[[], None] = lambda: None
    """Hears again and again that the thread which decides moves. Must not block."""
    told: Callable[[str], None] = log.info
    """Hears what is being waited for."""

    @classmethod
    def real(cls, step: Step = no_step, identity: str | None = None) -> "Environment":
        around = cls(SystemClock(), current_process(identity), _new_attempt, random.random, step)  # noqa: TID251
        return replace(around, beating=beating_in_a_thread, deliver=InThread)


@dataclass(frozen=True)
class JobLocation:
    """A job in its home, looked at and found free. Nothing has been written yet."""

    job: JobName
    home: str
    store: ObjectStore
    work: WorkPath
    settings: Settings
    around: Environment
    meter: Meter | None = None
    """Counts what is asked of the home."""
    begins: bool = True
    """It has no completed checkpoint."""
    silence: Silence | None = None
    """What was watched, and did not change, before the job was found free."""
    root: ObjectStore | None = None
    """The home itself, which has an identity; None where it has none."""
    state_file: Path | None = None
    """Where the run tells this host how it is, also while the home cannot be written."""


def look(
    job: JobName,
    home: str,
    work: WorkPath,
    settings: Settings,
    around: Environment,
    sink: str | None = None,
    state_file: Path | None = None,
) -> JobLocation:
    """Everything that can be refused without touching anything, in the order of how quickly it can be said.

    `sink` is what the sink says of itself. What it holds is compared in `launch`: that takes Spark.
    """
    require_apart(home, str(work), sink)
    meter = Meter(around.clock.monotonic)
    root = open_store(home, deadline=settings.duration("storage_deadline"), meter=meter)
    store = root.scoped(job)
    place = JobLocation(job, home, store, work, settings, around, meter, root=root, state_file=state_file)
    require_no_work_directory(work)
    journal = Journal(store, new_attempt=around.new_attempt, now=around.clock.wall)
    silence = _require_claimable(place, journal)
    _agreed(place, journal, lambda state: compare_here(place, state))
    decide(journal.state, Wanted(settings.from_savepoint, settings.from_checkpoint))
    require_create_if_absent(root)
    return replace(place, begins=not journal.state.completed, silence=silence)


def _require_claimable(place: JobLocation, journal: Journal) -> Silence | None:
    """What had to be watched. Loads the journal."""
    if place.settings.on_conflict == "takeover":
        journal.load()
        return None
    around = place.around
    watcher = Watcher(place.store, around.process, around.clock, around.sleep, around.told)
    answer = watcher.answer(journal, place.silence)
    if isinstance(answer, Held):
        raise refusal(place.job, place.home, answer)
    log.debug("the job may be claimed: %s", answer.why)
    return answer.silence


def rules_of(settings: Settings, jitter: float) -> Rules:
    return Rules(
        interval=settings.duration("interval"),
        timeout=settings.duration("timeout"),
        min_pause=settings.duration("min_pause"),
        max_concurrent=settings.max_concurrent,
        tolerable_failures=settings.tolerable_failures,
        fail_on_exceeded=settings.on_exceeded == "fail",
        jitter=jitter,
    )


def retention_of(settings: Settings) -> Retention:
    return Retention(
        retained=settings.retained,
        keep_hourly=settings.keep_hourly,
        keep_daily=settings.keep_daily,
        grace_s=settings.duration("grace"),
    )


def launch(
    place: JobLocation,
    query: Query,
    lanes: Lanes,
    post: Callable[[Item], None],
    finished: Callable[[HoldfastError | None], None],
    workplace_of: Callable[[WorkMarker, bool], Workplace] | None = None,
) -> Runtime:
    """Compare what is known of the job, claim it, recover, and start the query. The caller drives the runtime that
    comes back."""
    blobs_by_run: list[tuple[Blobs, Checkpointing]] = []

    def settled(entry: AnyEntry) -> None:
        if isinstance(entry, CheckpointCompleted):
            for blobs, checkpointing in blobs_by_run:
                if (manifest := checkpointing.manifests.get(entry.id)) is not None:
                    blobs.commit_manifest(manifest)
            post(EntrySettled(entry.id, entry.barrier_batch_id))

    around = place.around
    journal = Journal(
        place.store,
        new_attempt=around.new_attempt,
        now=around.clock.wall,
        settled=settled,
        readers=around.readers,
    )
    _require_claimable(place, journal)
    outside = _compared(place, journal, query)
    _remind_of_acceptances(place.settings)
    leftovers = _stored_manifests(place.store)
    home_id = _home_identity(place)
    claimed = _claim(place, journal, outside.agreement, query.sink.describe() if query.sink is not None else "")
    begun = _Begun()
    try:
        log.info("run %s owns the job", claimed.fencing_epoch)
        if journal.moved_before_claim:
            outside = _compared_again(place, journal, query, outside)
        make_workplace = workplace_of or (lambda marker, new_life: workplace_at(place.work, marker, new_life=new_life))
        workplace = make_workplace(_marker(place, claimed, home_id), place.settings.new_life)
        parts, blobs = _put_together(place, journal, claimed, outside, leftovers, workplace, query, lanes, post)
        blobs_by_run.append((blobs, parts.checkpointing))
        # From the first moment on the job is seen as owned: recovery can take longer than a heartbeat's life.
        beats = BothBeats(parts.telling, parts.watch)
        beats.beat()
        with around.beating(beats, parts.heartbeat):
            recovered = _recover(place, parts, outside, begun)
            doing("starting the query")
            resumed = parts.candidates.start(recovered)
    except (Exception, StopAsked) as error:
        # Also when a signal asks the process to stop: the next start need not wait for the heartbeat to go stale.
        query.stop()
        why = message_of(error) if isinstance(error, Exception) else "stopped"
        untouched = isinstance(place.work, Path) and not begun.touched
        failed = isinstance(error, Exception)
        reason = f"could not start: {why}"
        record_run_end(journal, reason, begun.planned, failed=failed, never_ran=True, untouched=untouched)
        raise
    workplace.clean(resumed.directory)
    return Runtime(parts, resumed, finished)


def _stored_manifests(store: ObjectStore) -> tuple[str, ...]:
    """Before the claim, so that none is of a newer run: what nobody needs of them can be deleted later."""
    try:
        return tuple(item.key for item in listed_manifests(store))
    except StorageError as error:
        log.warning("manifests that earlier runs left behind stay until the next start: %s", error.message)
        return ()


def _compared(place: JobLocation, journal: Journal, query: Query) -> Outside:
    """What others know of the job is read after the journal. Who seems to know more may be right: then the journal has
    moved on since, and is read again."""
    described = query.sink.describe() if query.sink is not None else ""

    def compared(state: JobState) -> Outside:
        context = known_to(place, state)
        outside = compare(place, state, query.look_at_sink(context), described)
        _ask_beforehand(place, journal, query, outside, context)
        return outside

    return _agreed(place, journal, compared)


def _compared_again(place: JobLocation, journal: Journal, query: Query, before: Outside) -> Outside:
    """The claim stands behind entries that nobody has compared: the run that wrote them may have opened the sink since.
    From here on the journal moves no more. What a person was asked about stays agreed on."""
    described = query.sink.describe() if query.sink is not None else ""
    found = query.look_at_sink(known_to(place, journal.state))
    return replace(compare(place, journal.state, found, described), agreement=before.agreement)


_ACCEPTS = {
    "new_life": "begins another life of the job where home, work directory and sink do not agree, and rows stand twice",
    "accept_older_home": "takes rows back from readers when the home was put back from a backup",
    "accept_sink": "goes on without the rows that a sink has lost by then",
}


def _remind_of_acceptances(settings: Settings) -> None:
    """They are meant for what a person has looked at, and a unit file gives them to every start after it, too."""
    for name, will in _ACCEPTS.items():
        if getattr(settings, name):
            log.warning(
                "--%s is for this start: take it out again. Left in, the next one %s, without asking",
                name.replace("_", "-"),
                will,
            )


def _ask_beforehand(place: JobLocation, journal: Journal, query: Query, outside: Outside, context: SinkContext) -> None:
    """Sink and source, about what the journal alone can foresee: who does not agree is heard before the claim."""
    back = decide(journal.state, Wanted(place.settings.from_savepoint, place.settings.from_checkpoint))
    point = foreseen(journal.state, back if isinstance(back, GoBack) else None)
    if point is not None:
        Consent(
            query=query,
            known=Known(place.store, journal),
            journal=journal,
            context=msgspec.structs.replace(context, accept=outside.accepts or outside.new_place),
            looked=outside.sink,
            older_home=outside.agreement.older_home,
            force=place.settings.force,
            say=log.debug,
        ).ask(point)


def _agreed(place: JobLocation, journal: Journal, compare: Callable[[JobState], T]) -> T:
    """A conflict counts when the journal, read again behind it, has not moved; a busy one is read a few times."""
    for _ in range(_READINGS):
        head = journal.state.head
        try:
            return compare(journal.state)
        except Conflict:
            _require_claimable(place, journal)
            if journal.state.head == head:
                raise
    return compare(journal.state)


def _home_identity(place: JobLocation) -> str:
    if place.root is None:
        return ""
    return ensure_home_identity(place.root, id=place.around.new_attempt(), now=place.around.clock.wall()).id


def _marker(place: JobLocation, claimed: RunStarted, home_id: str) -> WorkMarker:
    return WorkMarker(
        job=place.job,
        home=place.home,
        lineage=claimed.lineage,
        home_id=home_id,
        epoch=claimed.fencing_epoch,
        claim=claimed.attempt,
        head=claimed.sequence,
        process=place.around.process,
    )


@dataclass
class _Begun:
    """How far a start has come."""

    touched: bool = False
    """It has a directory of its own, and may go on to the sink. On HDFS that is the one of the run before, renamed."""
    planned: BatchId | None = None
    """How far a writer of the query's own has come at most, None when that is not known."""


def _recover(place: JobLocation, parts: RuntimeComponents, outside: Outside, begun: _Begun) -> Resumed:
    """The directory to start in, and the sink at the same point.

    A query that does not fit its checkpoint is refused before anything is abandoned: the next run goes on as before.
    """
    place.around.step("run.claimed")
    back = _way_back(place, parts.journal.state)
    if back is None and outside.may_resume_locally:
        parts.resuming.bring_back()
    resumed = parts.recovery.resume(local=outside.may_resume_locally, back=back)
    begun.touched = True
    place.around.step("recovery.directory")
    if (taken := parts.query.own_writer(resumed.directory)) is not None:
        more = may_have_more(parts.journal.state, taken.planned, local=resumed.is_local)
        require_no_skips(place.job, taken, place.settings.repeats, may_have_more=more)
        begun.planned = None if more else taken.planned
    parts.supervision.overridden = parts.resuming.go_on(resumed)
    return resumed


def _way_back(place: JobLocation, state: JobState) -> GoBack | None:
    """Where the job is to go back to, None when it goes on."""
    wanted = Wanted(place.settings.from_savepoint, place.settings.from_checkpoint)
    answer = decide(state, wanted)
    if not isinstance(answer, AlreadyBack):
        return answer
    other = f"from_checkpoint={answer.to}" if wanted.savepoint else "a savepoint's name"
    log.warning(
        "the job has gone back to %s before and has gone on since; it does not go back again. Try: %s, to do so",
        wanted,
        other,
    )
    return None


def _claim(place: JobLocation, journal: Journal, agreement: Agreement, sink: str) -> RunStarted:
    """Losing the race for the claim is the same as having come second."""
    heartbeat, work = place.settings.duration("heartbeat"), str(place.work / place.job)
    try:
        if agreement.above > journal.state.head:
            jump = run_started(journal, place.around, heartbeat, "", "maintenance")
            journal.claim(_taking_numbers(jump, Sequence(agreement.above + 1)))
        claim = run_started(journal, place.around, heartbeat, work, "pipeline", retention_of(place.settings))
        return journal.claim(_telling(claim, place, sink))
    except Fenced as error:
        raise OwnedByAnotherRun(
            f"could not start job {place.job!r} on {place.home}: {error.message}", hint=TAKE_OVER
        ) from error


def _taking_numbers(claim: MakeEntry, upto: Sequence) -> MakeEntry:
    """All numbers below `upto` are taken at once, so that the next run is newer than any that others know of."""

    return lambda stamp: msgspec.structs.replace(claim(stamp), next_sequence=max(upto, Sequence(stamp["sequence"] + 1)))


def _telling(claim: MakeEntry, place: JobLocation, sink: str) -> MakeEntry:
    """What a reader judges the run by."""
    interval, file = place.settings.duration("interval"), str(place.state_file or "")
    return lambda stamp: msgspec.structs.replace(claim(stamp), interval_s=interval, state_file=file, sink=sink)


def run_started(
    journal: Journal,
    around: Environment,
    heartbeat: float,
    work: str,
    purpose: Literal["pipeline", "maintenance"],
    retention: Retention | None = None,
) -> MakeEntry:
    """The claim of a run in this environment."""
    lineage = journal.state.lineage or around.new_attempt()
    return lambda stamp: RunStarted(
        **stamp,
        lineage=lineage,
        process=around.process,
        heartbeat_s=heartbeat,
        work=work,
        holdfast=VERSION,
        purpose=purpose,
        retention=retention,
    )


def _put_together(
    place: JobLocation,
    journal: Journal,
    claimed: RunStarted,
    outside: Outside,
    leftovers: tuple[str, ...],
    workplace: Workplace,
    query: Query,
    lanes: Lanes,
    post: Callable[[Item], None],
) -> tuple[RuntimeComponents, Blobs]:
    settings, around = place.settings, place.around

    def tell(event: Event) -> None:
        post(event)

    watch = OwnershipWatch(
        store=place.store,
        journal=journal,
        process=around.process,
        started_at=claimed.at,
        interval=settings.duration("heartbeat"),
        application_id=lambda: query.application_id,
        clock=around.clock,
        post=tell,
        home_replaced=lambda error: post(lambda: _tell_replaced(alarms, error)),
        report=lambda: telling.latest,
    )
    telling = StateReporter(_state_file(place, claimed), lanes, around.clock)
    blobs = Blobs(_limited(place.store, settings.copy_rate()), claimed.fencing_epoch)
    alarms = Alarms(place.job, settings.alarms, around.clock, around.deliver)
    headroom = HeadroomWatch(lambda: query.batches_retained, around.clock, alarms)
    checkpointing = Checkpointing(
        job=place.job,
        store=place.store,
        journal=journal,
        blobs=blobs,
        clock=around.clock,
        lanes=lanes,
        post=tell,
        still_owner=watch.still_owner,
        describe=query.describe,
        parallelism=settings.parallelism,
        step=around.step,
        headroom=headroom,
        usage=(lambda: meter.usage) if (meter := place.meter) is not None else None,
    )
    rule = retention_of(settings)
    collector = Collector(
        store=place.store,
        journal=journal,
        blobs=blobs,
        manifests=checkpointing.manifests,
        pace=DeletionPace(settings.deletes_per_second, rule.grace_s),
        clock=around.clock,
        lanes=lanes,
        missing=lambda keys: parts.scrubbing.suspect(keys),  # noqa: PLW0108  made below
    )
    restorable = journal.state.restorable()
    coordinator = Coordinator(
        rules_of(settings, around.jitter()),
        around.clock.monotonic(),
        last_completed=restorable[0].id if restorable else None,
        savepoints=frozenset(entry.name for entry in journal.state.retained() if entry.name),
    )
    retiring = Retiring(
        journal=journal,
        blobs=blobs,
        checkpointing=checkpointing,
        collector=collector,
        rule=rule,
        clock=around.clock,
        lanes=lanes,
        post=tell,
    )
    recovery = Recovery(place.store, journal, workplace, around.readers)
    resuming = Resuming(
        query=query,
        recovery=recovery,
        journal=journal,
        context=outside.context(place, claimed),
        looked=outside.sink,
        older_home=outside.agreement.older_home,
        force=settings.force,
        step=around.step,
    )
    recovery.cost, recovery.lost = resuming.cost, resuming.lost
    supervision = Supervision(
        settings.duration("restart_delay"), settings.restart_attempts, settings.restart_same_error
    )
    parts = RuntimeComponents(
        job=place.job,
        store=place.store,
        journal=journal,
        coordinator=coordinator,
        checkpointing=checkpointing,
        collector=collector,
        retiring=retiring,
        remembering=IndexLoader(
            store=place.store,
            journal=journal,
            blobs=blobs,
            manifests=checkpointing.manifests,
            readers=around.readers,
            clock=around.clock,
            lanes=lanes,
            done=lambda: collector.sweep(leftovers),
        ),
        scrubbing=Scrubbing(
            store=place.store,
            journal=journal,
            blobs=blobs,
            manifests=checkpointing.manifests,
            period=settings.scrub_period(),
            begin_at=around.jitter(),
            clock=around.clock,
            lanes=lanes,
            post=post,
            raise_alarm=alarms.raise_alarm,
            clear_alarm=alarms.clear,
        ),
        recovery=recovery,
        resuming=resuming,
        candidates=Candidates(
            job=place.job,
            repeats=settings.repeats,
            query=query,
            recovery=recovery,
            resuming=resuming,
            journal=journal,
            supervision=supervision,
            mark_damaged=checkpointing.mark_damaged,
        ),
        workplace=workplace,
        watch=watch,
        supervision=supervision,
        headroom=headroom,
        history=HistoryWatch(
            job=place.job,
            home=place.home,
            journal=journal,
            alarms=alarms,
            clock=around.clock,
            lanes=lanes,
            post=post,
        ),
        alarms=alarms,
        stuck=StuckWatch(alarms.raise_alarm, alarms.clear),
        telling=telling,
        query=query,
        clock=around.clock,
        lanes=lanes,
        post=post,
        heartbeat=settings.duration("heartbeat"),
        alive=around.alive,
        step=around.step,
        collect=retiring.collect,
        storage=(lambda: storage_use(place.store.url, meter)) if meter is not None else lambda: None,
    )
    return parts, blobs


def _state_file(place: JobLocation, claimed: RunStarted) -> StateFile | None:
    if place.state_file is None:
        return None
    return StateFile(place.job, place.home, place.state_file, place.around.process, claimed, place.around.clock)


def _tell_replaced(alarms: Alarms, error: HomeReplaced | None) -> None:
    code, rule = FailureReason.HOME_REPLACED.value, FailureReason.HOME_REPLACED.rule
    if error is not None:
        alarms.raise_alarm(code, "critical", error.message, rule.hint)
    else:
        alarms.clear(code, "what this run has written is in the home again")


def _limited(store: ObjectStore, bytes_per_second: float | None) -> ObjectStore:
    return store if bytes_per_second is None else LimitedStore(store, bytes=Allowance(bytes_per_second))
