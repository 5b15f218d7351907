"""The loop of one run: passes events to the coordinator and performs its commands.

One thread, the loop's, makes all decisions, by calling `turn` and `poll`. Everything that can block runs on a lane and
comes back as an item: an event, or a function to call on the loop's thread.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

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
from holdfast.coordination.events import (
    BarrierReached,
    CheckpointDamaged,
    CheckpointRequested,
    Event,
    Kind,
    OutputPublished,
    OutputReleased,
    QueryStarted,
    StopRequested,
    TimePassed,
)
from holdfast.coordination.history import CheckpointRecord
from holdfast.errors import HoldfastError
from holdfast.identifiers import BatchId, RequestId
from holdfast.job_log import log
from holdfast.repository.batch_spans import mean_s
from holdfast.repository.liveness import Liveness
from holdfast.repository.views import Observation
from holdfast.runtime.ports import RunDirectory
from holdfast.runtime.query.query_life import Happenings, QueryDone, QueryLife, QueryResumed, Seen
from holdfast.runtime.reports.state_reporter import report_of
from holdfast.runtime.reports.status import JobStatus, storage_use, under_way
from holdfast.runtime.requests.wanted import Answer, CheckpointWanted, StopWanted
from holdfast.runtime.run.components import CheckpointParts, Item, QueryNoticed, QueryParts, StorageParts, Threads
from holdfast.runtime.run.publisher import Publisher
from holdfast.runtime.run.run_end import RunEnd
from holdfast.runtime.sources.reading_watch import SKIPPED, SKIPPED_HINT

POLL_S = 0.2
"""How often to check the work directory for a new barrier, and whether the query still runs."""

Finished = Callable[[HoldfastError | None], None]
"""Called when the run has ended, with its failure, if any."""


class Runtime:
    def __init__(
        self,
        storage: StorageParts,
        checkpoints: CheckpointParts,
        query: QueryParts,
        life: QueryLife,
        publisher: Publisher,
        threads: Threads,
        finished: Finished,
    ) -> None:
        self._storage = storage
        self._checkpoints = checkpoints
        self._query = query
        self._life = life
        self._publisher = publisher
        self._lanes, self._post = threads.lanes, threads.post
        self._finished = finished
        self._around = storage.location.around
        self._clock = self._around.clock
        self._heartbeat = storage.location.settings.heartbeat_s
        self._answers: dict[RequestId, Answer] = {}
        self._next_request = 1
        self._next_report = self._next_poll = self._clock.monotonic()
        self._shows_batches = storage.location.settings.publish == "batch"
        self._committed: BatchId | None = None
        """The newest barrier of the directory."""
        self._released: BatchId | None = None
        self._ending = False
        self._failure: HoldfastError | None = None
        self.status = self._snapshot()

    # On the loop's thread.

    def begin(self) -> None:
        """The query has been started on the directory of its recovery."""
        resumed = self._life.resumed
        self.turn(QueryResumed(resumed, replaced=True))
        if (newest := resumed.durable_id) in self._storage.journal.state.corrupt:
            self.turn(CheckpointDamaged(newest))
        if skipped := self._query.query.skipped_input():
            message = f"records were passed over: {'; '.join(skipped)}"
            self._storage.alarms.raise_alarm(SKIPPED, "warning", message, SKIPPED_HINT)
        self.poll()

    def turn(self, item: Item) -> None:
        """Let the coordinator decide about one item, and perform its commands."""
        self._take(item)
        self._show(due=False)

    def poll(self) -> None:
        """Check what does not report by itself: the commit log, the query, the clock."""
        now = self._clock.monotonic()
        self._next_poll = now + POLL_S
        self._around.alive()
        if now >= self._next_report:
            self._next_report = now + self._heartbeat
            self._show(due=True)
            if not self._ending:
                self._checkpoints.serving.poll()
        self._storage.stuck.look(self._lanes.busy_since(), now)
        self._storage.alarms.look(now)
        if self._ending:
            return
        self._checkpoints.index.poll()
        self._checkpoints.collector.poll()
        if self._query.plans is not None:
            self._query.plans.poll()
        self._poll_brokers(now)
        if self._checkpoints.batches is not None:
            self._checkpoints.batches.poll(self._life.barrier)
        self._storage.history.poll(now)
        self._checkpoints.scrubbing.poll(now, self._directory, busy=not self._checkpoints.checkpointing.idle)
        self._life.poll(may_restart=not self._publisher.busy)
        self._release()
        self.turn(TimePassed())

    def _poll_brokers(self, now: float) -> None:
        query, published = self._query, self._publisher.published
        if query.offsets is not None:
            query.offsets.poll(now)
        if query.lag is not None:
            shown = published if query.query.sink is not None else None
            query.lag.poll(now, self._life.barrier, shown, self._directory)
        if query.reading is not None:
            query.reading.poll(now)
        if query.retention is not None:
            query.retention.poll(now, self._storage.journal.state.restorable)

    def next_deadline(self) -> float:
        deadline = self._checkpoints.coordinator.next_deadline()
        return self._next_poll if deadline is None else min(deadline, self._next_poll)

    def settle_offsets(self, limit: float) -> None:
        """The run has ended: the last offsets get this many seconds to be committed."""
        if self._query.offsets is not None and not self._query.offsets.settled_within(limit):
            log.info("the last offsets could not be committed in time; the next start commits them")

    def close_alarms(self, limit: float) -> None:
        """The run has ended: receivers get this many seconds for their last alarms."""
        self._storage.alarms.close(limit)

    def observation(self) -> Observation:
        """The job as this run knows it; from any thread."""
        storage, report = self._storage, self._storage.reporter.latest
        return Observation(
            job=storage.location.job,
            home=storage.location.home,
            state=storage.journal.state,
            heartbeat=None,
            alive=True,
            now=self._clock.wall(),
            liveness=Liveness(True, "this process", "process", 0.0, self._around.process, report),
        )

    def close_traces(self, limit: float) -> None:
        """The run has ended: the last traces get this many seconds to be sent."""
        if self._storage.traces is not None:
            self._storage.traces.close(limit)

    # Called by the user, from any thread.

    def request(self, kind: Kind, name: str | None, answer: Answer) -> None:
        """The checkpoint includes every batch committed before this call."""
        self._post(CheckpointWanted(kind, name, answer))

    def stop(self, savepoint: str | None, answer: Answer) -> None:
        """Stop the query, checkpoint what it committed, end the run."""
        # At once: a signal to the whole process group also ends the JVM, and that is not a failure.
        self._life.stop_asked = True
        self._post(StopWanted(savepoint, answer))

    # Happenings and their consequences.

    def _take(self, item: Item) -> None:
        match item:
            case QueryResumed():
                self._take_resumed(item)
            case QueryDone(failure=failure):
                self._failure = failure
                self._decide(StopRequested(self._expect(lambda answer: None)))
            case QueryNoticed():
                self._life.look_anew()
            case CheckpointWanted(kind=kind, name=name, answer=answer):
                self._take_all(self._life.look_then(CheckpointRequested(self._expect(answer), kind, name)))
            case StopWanted(savepoint=savepoint, answer=answer):
                self._life.stop_asked = True
                self._lanes.submit("query", lambda: self._stop_query(savepoint, answer))
            case _ if callable(item):
                self._take_all(item() or ())
            case _:
                self._decide(item)

    def _take_all(self, happened: Happenings) -> None:
        for item in happened:
            self._take(item)

    def _take_resumed(self, item: QueryResumed) -> None:
        resumed = item.resumed
        if self._checkpoints.batches is not None:
            self._checkpoints.batches.resumed(resumed.barrier)
        if item.replaced:
            self._committed = self._released = None
            self._publisher.resumed_at(resumed.durable)
            if self._query.offsets is not None:
                self._query.offsets.resumed(resumed.durable, resumed.directory)
        self._decide(
            QueryStarted(
                replaced=item.replaced,
                durable=resumed.durable,
                durable_id=resumed.durable_id,
                repeated_s=self._query.repeated_s(),
            )
        )

    def _decide(self, event: Event) -> None:
        if isinstance(event, BarrierReached):
            self._checkpoints.headroom.reached(event.batch_id)
            self._checkpoints.checkpointing.reached(event.batch_id, self._directory)
            self._committed = event.batch_id
            event = self._timed(event)
        if isinstance(event, OutputPublished) and self._shows_batches:
            self._commit_offsets(event.upto)
        for command in self._checkpoints.coordinator.receive(event, self._clock.monotonic()):
            self._perform(command)
        if isinstance(event, BarrierReached):
            self._release()

    def _timed(self, event: BarrierReached) -> BarrierReached:
        plans, told = self._query.plans, self._checkpoints.batches
        if plans is not None:
            return replace(event, ran_s=plans.ran_s(event.batch_id))
        return event if told is None else replace(event, ran_s=mean_s(told.latest))

    def _release(self) -> None:
        """Lets readers see what is committed, as far as it could be repeated as it was."""
        plans = self._query.plans
        if not self._shows_batches or plans is None or self._committed is None:
            return
        upto = plans.durable_upto(self._committed)
        if upto is not None and (self._released is None or upto > self._released):
            self._released = upto
            self._decide(OutputReleased(upto))

    def _stop_query(self, savepoint: str | None, answer: Answer) -> None:
        """On the query lane."""
        log.info("%s", self._query.stopping)
        self._query.query.stop()
        seen = self._life.look()
        self._post(lambda: self._query_stopped(savepoint, answer, seen))

    def _query_stopped(self, savepoint: str | None, answer: Answer, seen: Seen) -> Happenings:
        return [*self._life.stopped(seen), StopRequested(self._expect(answer), savepoint)]

    def _expect(self, answer: Answer) -> RequestId:
        request = RequestId(self._next_request)
        self._next_request += 1
        self._answers[request] = answer
        return request

    @property
    def _directory(self) -> RunDirectory:
        return self._life.resumed.directory

    # Commands.

    def _perform(self, command: Command) -> None:  # noqa: C901  one line per command
        checkpointing, alarms = self._checkpoints.checkpointing, self._storage.alarms
        match command:
            case BeginCheckpoint():
                checkpointing.begin(command, self._directory, self._publisher.published)
            case CopyShards(ticket=ticket, shards=shards, again=again):
                checkpointing.copy(ticket, shards, again=again)
            case SealCheckpoint(progress=progress):
                checkpointing.seal(progress)
            case AbortCheckpoint(ticket=ticket):
                checkpointing.abort(ticket)
            case RecordOutcome(record=record):
                self._record(record)
            case PublishOutput(upto=upto):
                self._publisher.publish(upto, self._directory)
            case RetireCheckpoints():
                self._checkpoints.retiring.retire()
                self._publisher.forget_behind()
            case AnswerRequest(request=request):
                if answer := self._answers.pop(request, None):
                    answer(command)
            case RaiseAlarm(code, severity, message, hint, brief):
                alarms.raise_alarm(code, severity, message, hint, brief)
            case ClearAlarm(code=code, message=message):
                alarms.clear(code, message)
            case EndRun():
                self._end(command)

    def _record(self, record: CheckpointRecord) -> None:
        self._checkpoints.checkpointing.record(record)
        _log_outcome(record)
        if self._storage.traces is not None:
            began = timedelta(seconds=self._clock.monotonic() - record.triggered_at)
            self._storage.traces.checkpoint(record, self._clock.wall() - began)
        if record.completed:
            state = self._storage.journal.state
            if self._checkpoints.batches is not None and record.id in state.completed:
                self._checkpoints.batches.recorded(state.completed[record.id].batches)
            self._lanes.submit("copy", lambda: self._query.remember(state.head))
            if not self._shows_batches:
                self._commit_offsets(record.barrier)

    def _commit_offsets(self, upto: BatchId) -> None:
        if self._query.offsets is not None:
            self._query.offsets.reached(upto, self._directory)

    def _end(self, command: EndRun) -> None:
        self._ending = True
        self._life.stop_asked = True
        if self._query.offsets is not None:
            self._query.offsets.end(owned=command.fenced is None)
        waiting = [(request, self._answers.pop(request, None)) for request in command.requests]
        RunEnd(
            job=self._storage.location.job,
            command=command,
            failure=self._failure,
            answers=[(request, answer) for request, answer in waiting if answer is not None],
            query=self._query.query,
            life=self._life,
            journal=self._storage.journal,
            checkpointing=self._checkpoints.checkpointing,
            reporter=self._storage.reporter,
            lanes=self._lanes,
            finished=self._finished,
        ).begin()

    # Status.

    def _show(self, *, due: bool) -> None:
        self.status = self._snapshot()
        self._storage.reporter.report(report_of(self.status, self._storage.journal.state), due=due)

    def _snapshot(self) -> JobStatus:
        coordinator, location = self._checkpoints.coordinator, self._storage.location
        history = coordinator.history
        seen = self._query.lag.latest if self._query.lag is not None else None
        reading = self._query.reading
        return JobStatus(
            job=location.job,
            fencing_epoch=self._storage.journal.fencing_epoch,
            running=self._life.running,
            ended=self._ending,
            barrier=self._life.barrier,
            published=self._publisher.shown(self._life.barrier),
            restarts=self._life.restarts,
            statistics=history.statistics,
            recent=history.records[-10:],
            alarms=tuple(self._storage.alarms.active.values()),
            past_alarms=self._storage.alarms.past,
            restorable=self._query.retention.latest if self._query.retention is not None else (),
            kafka_lag=seen.lag if seen is not None else None,
            kafka_lag_at=seen.at if seen is not None else None,
            kafka_reading=reading.latest if reading is not None else None,
            storage=storage_use(location.store.url, location.meter) if location.meter is not None else None,
            recovery=coordinator.recovery,
            under_way=tuple(under_way(each) for each in coordinator.pending),
            batches=self._checkpoints.batches.latest if self._checkpoints.batches is not None else (),
        )


def _log_outcome(record: CheckpointRecord) -> None:
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
