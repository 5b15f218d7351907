"""The runtime of one run: performs what the coordinator commands, and tells it what happens.

All decisions are taken on one thread, the loop's, by calling `turn` and `poll`. Everything that can block runs on a
lane and comes back as an event, or as a function to be called on the loop's thread (`post`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.coordination.commands import (
    AbortCheckpoint,
    AnswerRequest,
    BeginCheckpoint,
    ClearAlarm,
    Command,
    CopyShards,
    EndRun,
    PublishOutput,
    RaiseAlarm,
    RecordOutcome,
    RetireCheckpoints,
    SealCheckpoint,
)
from holdfast.coordination.coordinator import Coordinator
from holdfast.coordination.events import (
    BarrierReached,
    CheckpointDamaged,
    CheckpointRequested,
    Event,
    Kind,
    OutputPublished,
    PublishFailed,
    QueryStarted,
    RunFenced,
    StopRequested,
    TimePassed,
)
from holdfast.coordination.history import CheckpointRecord
from holdfast.coordination.reasons import FailureReason
from holdfast.errors import Fenced, FencedByMaintenance, HoldfastError
from holdfast.identifiers import BatchId, JobName, RequestId
from holdfast.job_log import log
from holdfast.repository.journal import Journal, is_of_maintenance
from holdfast.runtime.checkpoints.checkpointing import Checkpointing
from holdfast.runtime.checkpoints.headroom_watch import HeadroomWatch
from holdfast.runtime.clock import Clock
from holdfast.runtime.failure_reasons import end_of_run, message_of
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.own_writer import may_have_more
from holdfast.runtime.ownership.ownership_watch import OwnershipWatch
from holdfast.runtime.ports import Query, RunDirectory, Workplace
from holdfast.runtime.query.candidates import Candidates
from holdfast.runtime.query.query_life import QueryCallbacks, QueryLife, Seen
from holdfast.runtime.query.supervision import Supervision
from holdfast.runtime.recovery.recovery import Recovery, Resumed
from holdfast.runtime.recovery.resuming import Resuming
from holdfast.runtime.reports.alarms import Alarms
from holdfast.runtime.reports.history_watch import HistoryWatch
from holdfast.runtime.reports.state_reporter import StateReporter, report_of
from holdfast.runtime.reports.status import JobStatus, StorageUse
from holdfast.runtime.reports.stuck_watch import StuckWatch
from holdfast.runtime.requests.serving import Abilities, Reply, Serving
from holdfast.runtime.run.run_end import record_run_end
from holdfast.runtime.upkeep.collecting import Collector
from holdfast.runtime.upkeep.index_loading import IndexLoader
from holdfast.runtime.upkeep.retiring import Retiring
from holdfast.runtime.upkeep.scrubbing import Scrubbing
from holdfast.sinks.protocol import Step
from holdfast.storage.interface import ObjectStore

POLL_S = 0.2
"""How often the work directory is looked at for a new barrier, and the query for signs of life."""

Answer = Callable[[AnswerRequest], None]
Item = Event | Callable[[], None]


@dataclass(frozen=True)
class RuntimeComponents:
    """What a runtime is made of; put together by `launching`."""

    job: JobName
    store: ObjectStore
    journal: Journal
    coordinator: Coordinator
    checkpointing: Checkpointing
    collector: Collector
    retiring: Retiring
    remembering: IndexLoader
    scrubbing: Scrubbing
    recovery: Recovery
    resuming: Resuming
    candidates: Candidates
    workplace: Workplace
    watch: OwnershipWatch
    supervision: Supervision
    headroom: HeadroomWatch
    history: HistoryWatch
    alarms: Alarms
    stuck: StuckWatch
    telling: StateReporter
    query: Query
    clock: Clock
    lanes: Lanes
    post: Callable[[Item], None]
    heartbeat: float
    alive: Callable[[], None]
    """Hears of each poll."""
    step: Step
    collect: Callable[[Reply], None]
    """Free what retention and failures left; asked for by a command."""
    storage: Callable[[], StorageUse | None] = lambda: None


class Runtime:
    def __init__(
        self, components: RuntimeComponents, resumed: Resumed, finished: Callable[[HoldfastError | None], None]
    ) -> None:
        self._components = components
        self._coordinator = components.coordinator
        self._checkpointing = components.checkpointing
        self._query = components.query
        self._clock = components.clock
        self._lanes = components.lanes
        self._post = components.post
        self._finished = finished
        self._answers: dict[RequestId, Answer] = {}
        self._next_request = 1
        self._publishing = False
        self._forgotten: BatchId | None = None
        """Batches up to here the sink was told to forget."""
        self._published: BatchId | None = resumed.durable
        self._next_beat = self._clock.monotonic()
        self._beating = False
        self._next_poll = self._clock.monotonic()
        self._ending = False
        self._failure: HoldfastError | None = None
        self._life = QueryLife(
            job=components.job,
            query=components.query,
            resumed=resumed,
            supervision=components.supervision,
            candidates=components.candidates,
            journal=components.journal,
            alarms=components.alarms,
            clock=components.clock,
            lanes=components.lanes,
            post=components.post,
            callbacks=QueryCallbacks(self.turn, self._query_started, self._end_with),
        )
        self._serving = Serving(
            store=components.store,
            journal=components.journal,
            clock=components.clock,
            lanes=components.lanes,
            post=components.post,
            abilities=Abilities(self._request_savepoint, self.stop, components.retiring.retire, components.collect),
        )
        self.status = self._snapshot()

    # Driven by the loop's thread.

    def begin(self) -> None:
        """The query has been started on the directory of its recovery."""
        resumed = self._life.resumed
        self._life.begin()
        self._query_started(resumed, True)
        if (newest := resumed.durable_id) in self._components.journal.state.corrupt:
            self.turn(CheckpointDamaged(newest))
        self.poll()

    def turn(self, item: Item) -> None:
        """Let the coordinator decide about one event, and perform what it says."""
        if callable(item):
            item()
        else:
            if isinstance(item, BarrierReached):
                self._components.headroom.reached(item.batch_id)
            for command in self._coordinator.receive(item, self._clock.monotonic()):
                self._perform(command)
        self._show(beat=False)

    def poll(self) -> None:
        """Look at what does not report by itself: the commit log, the query, the clock."""
        now = self._clock.monotonic()
        self._next_poll = now + POLL_S
        self._components.alive()
        if now >= self._next_beat:
            self._next_beat = now + self._components.heartbeat
            self._show(beat=True)
            self._beat()
        self._components.stuck.look(self._lanes.busy_since(), now)
        if self._ending:
            return
        self._components.remembering.poll()
        self._components.collector.poll()
        self._components.history.poll(now)
        self._components.scrubbing.poll(now, self._directory, busy=not self._checkpointing.idle)
        self._life.poll(may_restart=not self._publishing)
        self.turn(TimePassed())

    def _show(self, *, beat: bool) -> None:
        self.status = self._snapshot()
        self._components.telling.report(report_of(self.status, self._components.journal.state), due=beat)

    def _beat(self) -> None:
        """One at a time: those that a home in trouble holds up are not made up for."""
        if self._beating:
            return
        self._beating = True

        def beat() -> None:
            try:
                self._components.watch.beat()
                if not self._ending:
                    self._serving.look()
            finally:
                self._beating = False

        self._lanes.submit("heartbeat", beat)

    @property
    def _directory(self) -> RunDirectory:
        return self._life.resumed.directory

    def next_deadline(self) -> float:
        deadline = self._coordinator.next_deadline()
        return self._next_poll if deadline is None else min(deadline, self._next_poll)

    def still_owner(self) -> bool:
        """False only when a newer run is known."""
        return self._components.watch.still_owner()

    def close_alarms(self, limit: float) -> None:
        """The run is over: receivers get so many seconds for what they were told last."""
        self._components.alarms.close(limit)

    # Asked for by the user, from any thread.

    def request(self, kind: Kind, name: str | None, answer: Answer) -> None:
        """It holds every batch that was committed before."""
        self._post(lambda: self._life.look_then(lambda: self._requested(kind, name, answer)))

    def _requested(self, kind: Kind, name: str | None, answer: Answer) -> None:
        self.turn(CheckpointRequested(self._expect(answer), kind, name))

    def _request_savepoint(self, name: str, answer: Answer) -> None:
        self.request("savepoint", name, answer)

    def stop(self, savepoint: str | None, answer: Answer) -> None:
        """Stop the query, checkpoint what it committed, end the run."""
        # At once: a signal to the whole process group ends the JVM too, and that death is no failure.
        self._life.stop_asked = True
        self._post(lambda: self._lanes.submit("query", lambda: self._stop_query(savepoint, answer)))

    def _stop_query(self, savepoint: str | None, answer: Answer) -> None:
        log.info("stopping: the query ends, then a last checkpoint is taken of what it has committed")
        self._query.stop()
        seen = self._life.look()
        self._post(lambda: self._query_stopped(savepoint, answer, seen))

    def _query_stopped(self, savepoint: str | None, answer: Answer, seen: Seen) -> None:
        self._life.stopped(seen)
        self.turn(StopRequested(self._expect(answer), savepoint))

    def _expect(self, answer: Answer) -> RequestId:
        request = RequestId(self._next_request)
        self._next_request += 1
        self._answers[request] = answer
        return request

    # The query's life, as the rest of the run sees it.

    def _query_started(self, resumed: Resumed, replaced: bool) -> None:
        if replaced:
            self._published = resumed.durable
        self.turn(QueryStarted(replaced=replaced, durable=resumed.durable, durable_id=resumed.durable_id))

    def _end_with(self, failure: HoldfastError | None) -> None:
        self._failure = failure
        self.turn(StopRequested(self._expect(lambda answer: None)))

    # Commands.

    def _perform(self, command: Command) -> None:  # noqa: C901  one line per command
        match command:
            case BeginCheckpoint():
                self._checkpointing.begin(command, self._directory, self._published)
            case CopyShards(ticket=ticket, shards=shards, again=again):
                self._checkpointing.copy(ticket, shards, again=again)
            case SealCheckpoint(progress=progress):
                self._checkpointing.seal(progress)
            case AbortCheckpoint(ticket=ticket):
                self._checkpointing.abort(ticket)
            case RecordOutcome(record=record):
                self._checkpointing.record(record)
                _tell(record)
                if record.completed:
                    head = self._components.journal.state.head
                    self._lanes.submit("copy", lambda: self._components.workplace.remember(head))
            case PublishOutput(upto=upto):
                self._publish(upto)
            case RetireCheckpoints():
                self._components.retiring.retire()
                self._lanes.submit("journal", self._forget_behind)
            case AnswerRequest(request=request):
                if answer := self._answers.pop(request, None):
                    answer(command)
            case RaiseAlarm(code, severity, message, hint, brief):
                self._components.alarms.raise_alarm(code, severity, message, hint, brief)
            case ClearAlarm(code=code, message=message):
                self._components.alarms.clear(code, message)
            case EndRun():
                self._end(command)

    def _publish(self, upto: BatchId) -> None:
        sink, directory = self._query.sink, self._directory
        if sink is None:
            self._post(OutputPublished(upto))
            return
        self._publishing = True

        def publish() -> None:
            try:
                self._components.step("publish.begin")
                sink.publish(upto, directory.ledger())
                self._components.step("publish.done")
            except Fenced as error:
                self._post(RunFenced(error.message))
            except Exception as error:
                why = message_of(error)
                self._post(lambda: self._publish_failed(upto, why))
            else:
                self._post(lambda: self._output_published(upto))

        self._lanes.submit("publish", publish)

    def _forget_behind(self) -> None:
        """No checkpoint leads back behind the oldest one that is kept. On the journal lane."""
        sink, state = self._query.sink, self._components.journal.state
        barriers = [entry.barrier_batch_id for entry in state.retained() if entry.id not in state.abandoned]
        oldest = min(barriers, default=None)
        if sink is None or oldest is None or oldest == self._forgotten:
            return
        self._forgotten = oldest

        def forget() -> None:
            try:
                sink.forget(oldest)
            except HoldfastError as error:
                log.debug("the sink's record of old batches stays: %s", error.message)

        self._lanes.submit("publish", forget)

    def _output_published(self, upto: BatchId) -> None:
        self._publishing = False
        self._published = upto
        self.turn(OutputPublished(upto))

    def _publish_failed(self, upto: BatchId, why: str) -> None:
        self._publishing = False
        log.warning("publishing up to batch %s failed, it will be tried again: %s", upto, why)
        self.turn(PublishFailed(upto, why))

    def _end(self, command: EndRun) -> None:
        self._ending = True
        self._life.stop_asked = True
        if command.fenced:
            self._failure = _taken(self._components.job, command.failure or "")
        elif command.failure is not None and self._failure is None:
            self._failure = end_of_run(f"job {self._components.job!r} stopped: {command.failure}", command.reason)
        stops = [(request, self._answers.pop(request, None)) for request in command.requests]

        def stop_query() -> None:
            self._query.stop()
            self._lanes.submit("journal", end_run)

        def end_run() -> None:
            self._query.stop()  # once more: this lane may have started it elsewhere meanwhile
            failed = (FailureReason.RUN_STOPPED, self._failure.message) if self._failure else None
            for request, answer in stops:
                if answer is not None:
                    answer(AnswerRequest(request, failure=failed))
            self._lanes.submit("journal", leave)  # behind what those who were answered have to write

        def leave() -> None:
            if not command.fenced:
                self._say_goodbye()
            self._components.telling.ended(self._failure.message if self._failure else "stopped")
            self._finished(self._failure)

        self._lanes.submit("query", stop_query)

    def _say_goodbye(self) -> None:
        self._checkpointing.write_unrecorded()
        if self._checkpointing.journal_answers:
            reason = self._failure.message if self._failure else "stopped"
            record_run_end(self._components.journal, reason, self._written(), failed=self._failure is not None)
        else:
            log.warning("the end of the run is not recorded: the home has just failed to take an entry")

    def _written(self) -> BatchId | None:
        """How far a writer of the query's own may have got, for the next run; the query has stopped."""
        resumed = self._life.resumed
        try:
            taken = self._query.own_writer(resumed.directory)
        except Exception as error:
            log.debug("how far the query's own writer is: %s", message_of(error))
            return None
        if taken is None:
            return None
        more = may_have_more(self._components.journal.state, taken.planned, local=resumed.is_local)
        return None if more else taken.planned

    def _snapshot(self) -> JobStatus:
        history = self._coordinator.history
        return JobStatus(
            job=self._components.job,
            fencing_epoch=self._components.journal.fencing_epoch,
            running=self._life.running,
            ended=self._ending,
            barrier=self._life.barrier,
            published=self._published,
            restarts=self._life.restarts,
            statistics=history.statistics,
            recent=history.records[-10:],
            alarms=tuple(self._components.alarms.active.values()),
            storage=self._components.storage(),
        )


def _taken(job: JobName, owner: str) -> Fenced:
    if is_of_maintenance(owner):
        return FencedByMaintenance(
            f"job {job!r} was taken by a command while this run was silent, this run stops: {owner}",
            hint="start it again, it goes on from where it was; and see why it was silent",
        )
    return Fenced(f"job {job!r} was taken over, this run stops: {owner}", hint="stop one of the two deployments")


def _tell(record: CheckpointRecord) -> None:
    name = record.kind if record.id is None else f"{record.kind} {record.id}"
    if record.failure is None:
        log.info(
            "%s completed at batch %s in %.2f s: %s of %s bytes are new",
            name,
            record.barrier,
            record.ended_at - record.triggered_at,
            f"{record.bytes_new:,}",
            f"{record.bytes_total:,}",
        )
    else:
        log.warning("%s failed: %s: %s", name, record.failure.reason.value, record.failure.message)
