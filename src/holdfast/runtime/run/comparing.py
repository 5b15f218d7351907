"""Collects the records of a job outside of its journal, for `memory` to compare. Leaves no trace.

Marker, heartbeat and sink are read after the journal. When one of them seems newer, the journal is read again: a run
that claims the job meanwhile is not a conflict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from holdfast.errors import Conflict, Corrupt, NewerFormat, StorageError
from holdfast.identifiers import AttemptId, BatchId, FencingEpoch, JobName
from holdfast.job_log import log
from holdfast.plans.log import PlanLog, Standing, newest_planned
from holdfast.repository.damage import load_manifest
from holdfast.repository.entries import CheckpointCompleted, RunStarted
from holdfast.repository.going_back import GoBack, Wanted, decide, naming_the_request
from holdfast.repository.journal import Journal
from holdfast.repository.lines import line_begins, line_folder, line_of
from holdfast.repository.ownership import Heartbeat, read_heartbeat
from holdfast.repository.self_report import PAST_ALARMS, PastAlarm
from holdfast.repository.state import JobState
from holdfast.runtime.ahead import Ahead
from holdfast.runtime.job_folder import left_by
from holdfast.runtime.own_writer import Taken, WriterRecord, may_have_more
from holdfast.runtime.plans.keeping import Mode
from holdfast.runtime.plans.ways_out import broken_plans
from holdfast.runtime.ports import Query
from holdfast.runtime.recovery.consent import Consent, is_new_place
from holdfast.runtime.recovery.memory import (
    Agreement,
    Asked,
    Memory,
    agree,
    covers,
    of_heartbeat,
    of_sink,
    of_work,
    showed_batches,
)
from holdfast.runtime.recovery.recovery import Known, Point, foreseen, is_copied
from holdfast.runtime.reports.alarms import past_alarm
from holdfast.runtime.run.claiming import agreed
from holdfast.runtime.run.job_location import JobLocation
from holdfast.runtime.run.original import (
    adopted_by,
    other_that_went_on,
    require_original_at_rest,
    require_protected_at_rest,
)
from holdfast.runtime.work_marker import read_marker, somebody_elses
from holdfast.sinks.protocol import SinkContext, SinkState, StagedBatch
from holdfast.storage.home_identity import read_home_identity
from holdfast.workdir.factory import readable_directory
from holdfast.workdir.interface import WorkDirectory


@dataclass(frozen=True)
class Outside:
    """What was found outside the journal, and the agreement."""

    agreement: Agreement
    sink: SinkState | None
    """None when the query has its own writer."""
    new_place: bool = False
    """The sink has nothing of this lineage of the job, which has checkpoints."""
    accepts: bool = False
    """The user accepts the sink as it is: what was staged there may be gone."""
    reported: BatchId | None = None
    """The newest batch that the last heartbeat tells of, on the line that the job is on; None when it tells of none."""
    past_alarms: tuple[PastAlarm, ...] = ()
    """That the last heartbeat tells of. Those that were active ended with it."""

    @property
    def may_resume_locally(self) -> bool:
        """The previous run's directory relies on what that run had published."""
        return not (self.agreement.older_home or self.agreement.new_life or self.new_place or self.accepts)

    def context(self, location: JobLocation, claimed: RunStarted) -> SinkContext:
        return SinkContext(
            location.job,
            claimed.fencing_epoch,
            claimed.lineage,
            claimed.attempt,
            new_life=self.agreement.new_life,
            accept=self.accepts or self.new_place,
            looked=self.sink.fencing_epoch if self.sink is not None else FencingEpoch(0),
        )


def known_to(location: JobLocation, state: JobState) -> SinkContext:
    """What the journal holds before this run."""
    run = state.run
    return SinkContext(
        location.job,
        state.fencing_epoch,
        state.lineage or "",
        run.attempt if run is not None else AttemptId(""),
        new_life=location.settings.new_life,
        accept=location.settings.accept_sink,
    )


def compare_here(location: JobLocation, state: JobState) -> Agreement:
    """Compares what is visible without Spark. Raises `Conflict`."""
    require_original_at_rest(location.job, state, readable_directory)
    require_protected_at_rest(location.job, state, location.store, readable_directory)
    return agree(location.job, location.home, state, _memories_here(location), _asked(location))


def compare(location: JobLocation, state: JobState, sink: SinkState | None, described: str) -> Outside:
    """Raises `Conflict` when the user must choose."""
    memories = _memories_here(location)
    if sink is not None:
        memories.append(of_sink(described, sink))
    newest = state.newest_of_the_line()
    durable = None if newest is None else newest.barrier_batch_id
    planned = None if sink is None else _planned_and_shown(location, state, durable, sink.published, described)
    agreement = agree(location.job, location.home, state, memories, _asked(location), planned)
    new_place = sink is not None and newest is not None and is_new_place(sink, state.lineage or "")
    if new_place and newest is not None and not agreement.new_life:
        _require_no_output(location, state, newest, described)
    beat = None if agreement.new_life else read_heartbeat(location.store)
    accepts = sink is not None and location.settings.accept_sink
    return Outside(agreement, sink, new_place, accepts, _reported(beat, state), _past_alarms(beat))


def compare_outside(location: JobLocation, journal: Journal, query: Query, plans: Mode | None) -> Outside:
    """The other records are read after the journal. When one has more, the journal may have advanced since, so it is
    read again."""
    described = query.sink.describe() if query.sink is not None else ""
    wanted = Wanted(location.settings.from_savepoint, location.settings.from_checkpoint)

    def compared(state: JobState) -> Outside:
        context = known_to(location, state)
        outside = compare(location, state, query.look_at_sink(context), described)
        with naming_the_request(location.job, lambda: state, wanted):
            ask_beforehand(location, journal, query, outside, context, plans)
        return outside

    return agreed(location, journal, compared)


def compare_again(location: JobLocation, journal: Journal, query: Query, before: Outside) -> Outside:
    """The claim follows entries that were not compared: the run that wrote them may have opened the sink since. What
    the user accepted stays accepted. A later claim explains any disagreement: then this run is fenced."""
    described = query.sink.describe() if query.sink is not None else ""
    try:
        found = query.look_at_sink(known_to(location, journal.state))
        compared = compare(location, journal.state, found, described)
        return replace(compared, agreement=before.agreement, reported=before.reported, past_alarms=before.past_alarms)
    except Conflict:
        journal.require_standing()
        raise


def ask_beforehand(
    location: JobLocation, journal: Journal, query: Query, outside: Outside, context: SinkContext, plans: Mode | None
) -> None:
    """Asks sink, source and query about what the journal alone can predict, so that a refusal comes before the
    claim."""
    back = decide(journal.state, Wanted(location.settings.from_savepoint, location.settings.from_checkpoint))
    point = foreseen(journal.state, back if isinstance(back, GoBack) else None)
    if point is not None:
        known = Known(location.store, journal)
        consent = Consent(
            query=query,
            known=known,
            journal=journal,
            context=msgspec.structs.replace(context, accept=outside.accepts or outside.new_place),
            looked=outside.sink,
            older_home=outside.agreement.older_home,
            force=location.settings.force,
            planned=lambda after: planned_behind(location, journal.state, after),
            say=log.debug,
        )
        consent.ask(point)
        consent.require_staged(point, lambda: _ledger_as_far_as_readable(known, point))
        if not journal.state.passed_over:  # a passed-over checkpoint may become usable again
            query.look_ahead(_ahead(location, journal.state, known, outside, point, plans))


def planned_behind(location: JobLocation, state: JobState, after: BatchId | None) -> BatchId | None:
    """The newest batch up to which every batch after the given one would be repeated as it was, or that one itself."""
    if location.settings.publish != "batch" or not showed_batches(state):
        return after
    return _newest_plan(location, state, after)


def _newest_plan(location: JobLocation, state: JobState, after: BatchId | None) -> BatchId | None:
    newest = newest_planned(location.store, line_folder(state), BatchId(-1) if after is None else after)
    return None if newest < 0 else newest


def _planned_and_shown(
    location: JobLocation, state: JobState, durable: BatchId | None, shown: BatchId | None, described: str
) -> BatchId | None:
    """As `planned_behind`, where the sink shows more than the newest checkpoint has. Raises `Conflict` when a run that
    published batch by batch left that, and this one would not."""
    if shown is None or covers(durable, shown) or not showed_batches(state):
        return durable
    planned = _newest_plan(location, state, durable)
    if location.settings.publish == "batch" or not covers(planned, shown):
        return planned
    at = "no checkpoint" if durable is None else f"a checkpoint at batch {durable}"
    raise Conflict(
        f"could not start job {location.job!r} on {location.home}: it has {at}, and {described} shows batches up to "
        f"{shown}, which were published one by one",
        hint="start it with --publish batch, which repeats them as they were; after a clean stop it can start without",
    )


def _ledger_as_far_as_readable(known: Known, point: Point) -> tuple[StagedBatch, ...]:
    """What cannot be read now is read when the checkpoint is restored."""
    try:
        return () if point.durable_id is None else known.ledger_of(point.durable_id)
    except (Corrupt, NewerFormat, StorageError) as error:
        log.debug("the staged output of batches up to %s is checked after the claim: %s", point.durable, error.message)
        return ()


def _ahead(
    location: JobLocation, state: JobState, known: Known, outside: Outside, point: Point, plans: Mode | None
) -> Ahead:
    checkpoint, barrier = point.durable_id, point.barrier
    assert checkpoint is not None
    assert barrier is not None

    def left() -> WorkDirectory | None:
        run = state.last_to_leave_batches(state.runs)
        if point.abandons is not None or run is None or not outside.may_resume_locally:
            return None
        if state.is_rescaled_since(run):
            return None
        return left_by(location.work.at(location.job), run.fencing_epoch)

    repeats = point.abandons is None and plans is not None

    def standing(after: BatchId) -> Standing:
        log_of_line = PlanLog(location.store, line_folder(state), location.around.readers)
        return log_of_line.behind(after) if repeats else Standing(())

    def broken(taken: Taken, why: str, barrier: BatchId) -> Conflict:
        host, older = location.around.process.host, outside.agreement.older_home
        return broken_plans(location.job, state, taken, why, barrier, host, older_home=older)

    def more(planned: BatchId, local: bool) -> bool:
        reported = outside.reported
        return may_have_more(state, planned, local=local, repeats=repeats, claimed=False, reported=reported)

    goes_back = point.abandons is not None
    new_line = goes_back or line_begins(state)
    return Ahead(
        barrier=barrier,
        store=location.store,
        manifest=lambda: known.manifest(checkpoint),
        left=left,
        standing=standing,
        broken=broken,
        may_have_more=more,
        recorded=lambda local: WriterRecord(state, None if local else checkpoint),
        other=lambda: _other_of_the_same(location, state),
        goes_back=goes_back,
        new_line=new_line,
        may_be_empty=new_line or is_copied(state, checkpoint),
    )


def _other_of_the_same(location: JobLocation, state: JobState) -> JobName | None:
    adopted = adopted_by(state)
    if adopted is None or location.root is None:
        return None
    return other_that_went_on(location.root, location.job, adopted)


def _memories_here(location: JobLocation) -> list[Memory]:
    root = location.work.at(location.job)
    marker, heartbeat = read_marker(root), read_heartbeat(location.store)
    memories = [of_heartbeat(heartbeat)] if heartbeat is not None else []
    if marker is None:
        return memories
    identity = read_home_identity(location.root) if location.root is not None else None
    home_id = identity.id if identity is not None else ""
    if not marker.is_of(location.job, location.home, home_id) and not location.settings.new_life:
        raise somebody_elses(root, marker)
    return [*memories, of_work(root.location, marker)]


def _past_alarms(heartbeat: Heartbeat | None) -> tuple[PastAlarm, ...]:
    if heartbeat is None or heartbeat.report is None:
        return ()
    taken_along = (past_alarm(alarm, heartbeat.heartbeat_at) for alarm in heartbeat.report.alarms)
    return (*heartbeat.report.past_alarms, *taken_along)[-PAST_ALARMS:]


def _reported(heartbeat: Heartbeat | None, state: JobState) -> BatchId | None:
    if heartbeat is None or heartbeat.report is None or heartbeat.head < line_of(state):
        return None
    return heartbeat.report.batch


def _asked(location: JobLocation) -> Asked:
    settings = location.settings
    return Asked(settings.new_life, settings.accept_older_home)


def _require_no_output(location: JobLocation, state: JobState, newest: CheckpointCompleted, described: str) -> None:
    """The sink has no record of a job that has published: it was emptied or replaced, or it is another sink."""
    durable = newest.barrier_batch_id
    if location.settings.accept_sink or _is_copied_as_another(location, state, newest):
        return
    raise Conflict(
        f"could not start job {location.job!r} on {location.home}: it has a checkpoint at batch {durable}, and "
        f"{described} holds no output of it",
        hint="restore the sink, or name the one that the job wrote to; or let the output begin there after batch "
        f"{durable}: --accept-sink",
    )


def _is_copied_as_another(location: JobLocation, state: JobState, newest: CheckpointCompleted) -> bool:
    """A copy under a name of its own begins a sink of its own. Under the same name it takes the job over, with its
    sink."""
    try:
        return is_copied(state, newest.id) and load_manifest(location.store, newest).job != location.job
    except Corrupt:
        return False
