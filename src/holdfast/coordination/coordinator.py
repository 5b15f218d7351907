"""The coordinator: every decision about checkpoints, as a pure state machine.

`receive(event, now)` returns the commands to perform; `next_deadline()` returns when to call it with `TimePassed` if
nothing else happens. It reads no clock, file or socket. `now` never decreases. Handling an acknowledgement takes
constant time, however many shards and checkpoints there are.

Invariants
- At most one request of a kind is queued; another one of that kind joins it.
- At most `max_concurrent` checkpoints are in progress, and each ends exactly once, by the table in lifecycle.py.
- A message about a checkpoint that has ended changes nothing but `stale_messages`, with one exception: the journal
  decides. An entry that exists makes its checkpoint completed.
- Output is published only up to a barrier whose checkpoint is in the journal, or whose batches were released.
- Each request is answered exactly once, at the latest by `EndRun`. No command follows `EndRun`.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

from holdfast.coordination.batch_timeline import BatchTimeline
from holdfast.coordination.commands import (
    AbortCheckpoint,
    AnswerRequest,
    BeginCheckpoint,
    ClearAlarm,
    Command,
    CopyShards,
    EndRun,
    RaiseAlarm,
    RecordOutcome,
    RetireCheckpoints,
    SealCheckpoint,
)
from holdfast.coordination.events import (
    BarrierReached,
    CheckpointBegun,
    CheckpointDamaged,
    CheckpointRequested,
    CheckpointSealed,
    EntrySettled,
    Event,
    Kind,
    OutputPublished,
    OutputReleased,
    PlanFailed,
    PublishFailed,
    QueryEnded,
    QueryStarted,
    RunFenced,
    SavepointsKnown,
    ShardAcknowledged,
    ShardFailed,
    SnapshotPlanned,
    StepFailed,
    StopRequested,
    TimePassed,
)
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.coordination.history import FailureRecord, History
from holdfast.coordination.lifecycle import Phase, Signal
from holdfast.coordination.limits import FailureBudget, Limits
from holdfast.coordination.pending import PendingCheckpoint
from holdfast.coordination.publishing import Publishing
from holdfast.coordination.recovery_time import RecoveryEstimate, RecoveryTime
from holdfast.coordination.requests import WaitingRequests
from holdfast.coordination.stopping import BeginFinal, End, Stopping
from holdfast.coordination.triggering import Triggering
from holdfast.identifiers import BatchId, CheckpointId, RequestId, ShardId, Ticket

FAILING = "checkpoints_failing"
_DOUBTFUL_KEPT = 100
_NEVER = float("inf")


class Coordinator:
    def __init__(
        self,
        limits: Limits,
        now: float,
        *,
        last_completed: CheckpointId | None = None,
        savepoints: frozenset[str] = frozenset(),
        recovery: RecoveryTime | None = None,
    ) -> None:
        """`recovery` is None when no recovery repeats batches."""
        self._limits = limits
        self._recovery = recovery
        self._budget = FailureBudget(limits.tolerable_failures)
        self._triggering = Triggering(limits, now)
        self._publishing = Publishing(limits)
        self._history = History()
        self._history.note(last_completed=last_completed)
        self._savepoints = set(savepoints)
        self._requests = WaitingRequests()
        self._pending: dict[Ticket, PendingCheckpoint] = {}
        self._doubtful: OrderedDict[Ticket, PendingCheckpoint] = OrderedDict()
        """Aborted while the journal was being written: their entry may exist."""
        self._next_ticket = 1
        self._running = False
        self._line = BatchTimeline(last_completed)
        self._stopping: Stopping | None = None
        self._ended = False
        self._commands: list[Command] = []
        self._deadline = self._find_deadline()

    @property
    def history(self) -> History:
        return self._history

    @property
    def pending(self) -> tuple[PendingCheckpoint, ...]:
        return tuple(self._pending.values())

    @property
    def recovery(self) -> RecoveryEstimate | None:
        """How long a recovery would take now; None when none repeats batches."""
        return None if self._recovery is None else self._recovery.estimate(self._line.behind())

    def receive(self, event: Event, now: float) -> list[Command]:
        if self._ended:
            self._history.stale()
            return []
        self._commands = []
        kind = type(event)
        self._HANDLERS[kind](self, event, now)
        if kind is ShardAcknowledged and not self._commands and now < self._deadline:
            return []  # one of many shards: nothing else became possible
        self._pass_time(now)
        self._deadline = self._find_deadline()
        return self._commands

    def next_deadline(self) -> float | None:
        """When `TimePassed` is due; None when only another event can change anything."""
        return None if self._deadline == _NEVER else self._deadline

    def _find_deadline(self) -> float:
        if self._ended:
            return _NEVER
        return min(
            min((pending.next_deadline() for pending in self._pending.values()), default=_NEVER),
            self._trigger_deadline() if self._stopping is None else self._stop_deadline(self._stopping),
            self._publishing.next_deadline(),
        )

    # Events, one method each.

    def _time_passed(self, event: TimePassed, now: float) -> None:
        pass

    def _query_started(self, event: QueryStarted, now: float) -> None:
        self._running = True
        if event.replaced:
            self._line.begin(event.durable, event.durable_id)
            self._publishing.restart(event.durable)
        if self._recovery is not None:
            self._recovery.repeated(event.repeated_s)

    def _query_ended(self, event: QueryEnded, now: float) -> None:
        self._running = False
        if event.replaced:
            self._abort_all(FailureReason.QUERY_RESTARTED, "its work directory was abandoned", now)
            self._line.end()
            self._publishing.suspend()

    def _barrier_reached(self, event: BarrierReached, now: float) -> None:
        if not self._line.reach(event.batch_id):
            self._history.stale()
        elif self._recovery is not None:
            self._recovery.ran(event.ran_s)

    def _checkpoint_requested(self, event: CheckpointRequested, now: float) -> None:
        if event.kind == "savepoint" and self._name_is_taken(event.name):
            self._refuse((event.request,), FailureReason.NAME_TAKEN, f"savepoint {event.name!r} exists")
        elif event.kind == "checkpoint" and self._line.nothing_new and self._line.durable_id is not None:
            self._answer((event.request,), self._line.durable_id)
        elif self._stopping is not None:
            self._refuse((event.request,), FailureReason.RUN_STOPPED, "the run is stopping")
        else:
            self._requests.add(event.kind, event.name, event.request)

    def _stop_requested(self, event: StopRequested, now: float) -> None:
        name, taken = event.savepoint, self._name_is_taken(event.savepoint)
        if self._stopping is None:
            self._stopping = Stopping((event.request,), None if taken else name, now)
        elif name is None:
            self._stopping.requests += (event.request,)
            return
        elif not taken:
            self._refuse((event.request,), FailureReason.RUN_STOPPED, "the run is already stopping")
            return
        if taken:
            self._stopping.requests = tuple(r for r in self._stopping.requests if r != event.request)
            self._refuse((event.request,), FailureReason.NAME_TAKEN, f"savepoint {name!r} exists")

    def _savepoints_known(self, event: SavepointsKnown, now: float) -> None:
        self._savepoints = set(event.names)

    def _checkpoint_begun(self, event: CheckpointBegun, now: float) -> None:
        pending = self._advanced(event.ticket, Signal.BEGUN, now)
        if pending:
            pending.id = event.id
            self._follow_plan(pending, now)

    def _snapshot_planned(self, event: SnapshotPlanned, now: float) -> None:
        self._plan_known(event, now)

    def _plan_failed(self, event: PlanFailed, now: float) -> None:
        self._plan_known(event, now)

    def _plan_known(self, event: SnapshotPlanned | PlanFailed, now: float) -> None:
        pending = self._pending.get(event.ticket)
        if pending and pending.plan is None and pending.phase in (Phase.STARTING, Phase.PLANNING):
            pending.plan = event
            self._follow_plan(pending, now)
        else:
            self._history.stale()

    def _follow_plan(self, pending: PendingCheckpoint, now: float) -> None:
        """Called once it has its id, so that a failed plan is in the history under that id."""
        if pending.phase is not Phase.PLANNING:
            return
        match pending.plan:
            case SnapshotPlanned(shards=shards):
                pending.advance(Signal.PLANNED, now)
                pending.expect(shards, now)
                self._commands.append(CopyShards(pending.ticket, shards))
                self._seal_when_acknowledged(pending, now)
            case PlanFailed(reason=reason, message=message):
                self._abort(pending, reason, message, now)

    def _shard_acknowledged(self, event: ShardAcknowledged, now: float) -> None:
        pending = self._copying(event.ticket)
        if pending and pending.acknowledge(event, now):
            if not pending.unacknowledged:
                self._seal_when_acknowledged(pending, now)
        else:
            self._history.stale()

    def _shard_failed(self, event: ShardFailed, now: float) -> None:
        pending = self._copying(event.ticket)
        if pending is None or not pending.fail(event.shard, event.number):
            self._history.stale()
            return
        retry_at = now + self._limits.shard_backoff(event.number)
        if event.number >= self._limits.shard_tries or retry_at >= pending.expires_at:
            self._abort(pending, event.reason, event.message, now, shard=event.shard)
        else:
            pending.retry_at(event.shard, retry_at)
            self._history.one_more("shard_retries")

    def _step_failed(self, event: StepFailed, now: float) -> None:
        pending = self._pending.get(event.ticket)
        if pending:
            self._abort(pending, event.reason, event.message, now)
        else:
            self._history.stale()

    def _checkpoint_sealed(self, event: CheckpointSealed, now: float) -> None:
        pending = self._pending.get(event.ticket) or self._doubtful.get(event.ticket)
        if pending and pending.advance(Signal.SEALED, now):
            self._complete(pending, now)
        else:
            self._history.stale()

    def _entry_settled(self, event: EntrySettled, now: float) -> None:
        for pending in [*self._doubtful.values(), *self._pending.values()]:
            signal = Signal.SETTLED if pending.phase is Phase.FAILED else Signal.SEALED
            if pending.id == event.id and pending.advance(signal, now):
                self._complete(pending, now)
                return
        self._history.stale()

    def _checkpoint_damaged(self, event: CheckpointDamaged, now: float) -> None:
        self._line.damage(event.id)

    def _output_released(self, event: OutputReleased, now: float) -> None:
        self._commands.extend(self._publishing.want(event.upto))

    def _output_published(self, event: OutputPublished, now: float) -> None:
        self._commands.extend(self._publishing.published(event.upto))

    def _publish_failed(self, event: PublishFailed, now: float) -> None:
        self._commands.extend(self._publishing.failed(event.upto, event.message, now))

    def _run_fenced(self, event: RunFenced, now: float) -> None:
        self._end(now, FailureReason.FENCED, event.message, fenced=event)

    _HANDLERS: ClassVar[dict[type, Callable[["Coordinator", Any, float], None]]] = {
        TimePassed: _time_passed,
        QueryStarted: _query_started,
        QueryEnded: _query_ended,
        BarrierReached: _barrier_reached,
        CheckpointRequested: _checkpoint_requested,
        StopRequested: _stop_requested,
        SavepointsKnown: _savepoints_known,
        CheckpointBegun: _checkpoint_begun,
        SnapshotPlanned: _snapshot_planned,
        PlanFailed: _plan_failed,
        ShardAcknowledged: _shard_acknowledged,
        ShardFailed: _shard_failed,
        StepFailed: _step_failed,
        CheckpointSealed: _checkpoint_sealed,
        EntrySettled: _entry_settled,
        CheckpointDamaged: _checkpoint_damaged,
        OutputReleased: _output_released,
        OutputPublished: _output_published,
        PublishFailed: _publish_failed,
        RunFenced: _run_fenced,
    }

    # Time, and what has become possible.

    def _pass_time(self, now: float) -> None:
        for pending in list(self._pending.values()):
            if self._ended:
                return
            if now >= pending.expires_at:
                message = f"not complete after {self._limits.timeout:g} s, in phase {pending.phase.value}"
                self._abort(pending, FailureReason.EXPIRED, message, now)
            elif due := pending.due_retries(now):
                self._commands.append(CopyShards(pending.ticket, due, again=True))
        if self._ended:
            return
        self._commands.extend(self._publishing.due(now))
        self._begin_requested(now)
        if self._stopping is None:
            self._begin_periodic(now)
        else:
            self._continue_stopping(self._stopping, now)

    def _begin_requested(self, now: float) -> None:
        """A requested checkpoint waits neither for min_pause nor for back-off."""
        while self._requests and self._line.barrier is not None and self._has_room():
            waiting = self._requests.take()
            self._begin(waiting.kind, waiting.name, waiting.requests, now)

    def _begin_periodic(self, now: float) -> None:
        if self._is_far_behind():
            self._triggering.hasten(now)
        if now < self._triggering.time and not self._triggering.deferred:
            return
        if not self._running or self._line.barrier is None:
            why = "the query is not running" if not self._running else "no batch has been committed yet"
            self._commands.extend(self._triggering.defer(why, now))
            return
        self._commands.extend(self._triggering.proceed())
        if now < self._triggering.time:
            return
        if self._line.nothing_new:
            if self._triggering.skip():
                self._history.one_more("skipped_no_new_batch")
        elif self._has_room() and not self._under_way(self._line.barrier):
            self._begin("checkpoint", None, (), now)

    def _begin(self, kind: Kind, name: str | None, requests: tuple[RequestId, ...], now: float) -> None:
        assert self._line.barrier is not None
        ticket = Ticket(self._next_ticket)
        self._next_ticket += 1
        self._pending[ticket] = PendingCheckpoint(
            ticket, kind, name, self._line.barrier, requests, now, now + self._limits.timeout
        )
        self._triggering.began(now)
        self._history.one_more("triggered")
        self._commands.append(BeginCheckpoint(ticket, kind, name, self._line.barrier))

    def _trigger_deadline(self) -> float:
        triggering = self._triggering
        if not self._has_room():
            return triggering.alarm_time
        if not self._running or self._line.barrier is None:
            return triggering.alarm_time if triggering.deferred else triggering.time
        if self._line.nothing_new:
            return _NEVER if triggering.skipped else triggering.time
        return _NEVER if self._under_way(self._line.barrier) else triggering.time

    # Ends.

    def _complete(self, pending: PendingCheckpoint, now: float) -> None:
        assert pending.id is not None
        was_aborted = pending.ticket in self._doubtful
        self._pending.pop(pending.ticket, None)
        self._doubtful.pop(pending.ticket, None)
        record = (self._history.settle(pending.id) if was_aborted else None) or pending.record(now, None)
        if not was_aborted:
            self._history.add(record)
        statistics = self._history.statistics
        self._history.one_more("completed")
        self._history.note(
            consecutive_failures=0,
            last_completed=max(statistics.last_completed or pending.id, pending.id),
            last_completed_at=now,
        )
        if pending.name is not None:
            self._savepoints.add(pending.name)
        if self._stopping is not None and self._stopping.savepoint == pending.name:
            self._stopping.savepoint = None
        self._triggering.completed(now)
        if self._recovery is not None and isinstance(pending.plan, SnapshotPlanned):
            between = self._line.between(pending.barrier)
            self._recovery.checkpointed(pending.bytes_total, pending.plan.shards, between)
        self._line.complete(pending.barrier, pending.id)
        self._commands.append(RecordOutcome(record))
        self._answer(pending.requests, pending.id)
        self._supersede(pending, now)
        self._commands.extend(self._publishing.want(pending.barrier))
        self._commands.append(RetireCheckpoints())
        if self._budget.succeed():
            self._commands.append(ClearAlarm(FAILING, f"checkpoint {pending.id} completed"))

    def _supersede(self, completed: PendingCheckpoint, now: float) -> None:
        """A savepoint is never superseded, nor is a checkpoint whose journal entry is already being written."""
        for older in list(self._pending.values()):
            if older.kind == "checkpoint" and older.phase is not Phase.SEALING and older.barrier <= completed.barrier:
                assert completed.id is not None
                requests, older.requests = older.requests, ()
                self._answer(requests, completed.id)
                self._abort(older, FailureReason.SUPERSEDED, f"checkpoint {completed.id} completed first", now)

    def _abort(
        self,
        pending: PendingCheckpoint,
        reason: FailureReason,
        message: str,
        now: float,
        shard: ShardId | None = None,
    ) -> None:
        failure = FailureRecord(reason, message, shard)
        if pending.phase is Phase.SEALING:
            self._doubtful[pending.ticket] = pending
            while len(self._doubtful) > _DOUBTFUL_KEPT:
                self._doubtful.popitem(last=False)
        pending.advance(Signal.ABORTED, now)
        del self._pending[pending.ticket]
        record = pending.record(now, failure)
        self._history.add(record)
        self._history.one_more("failed")
        self._history.note(last_failure=failure)
        self._commands.append(AbortCheckpoint(pending.ticket, reason))
        self._commands.append(RecordOutcome(record))
        requests, pending.requests = pending.requests, ()
        self._refuse(requests, reason, message)
        if reason.counted and pending.kind == "checkpoint":
            self._count(failure, now)

    def _count(self, failure: FailureRecord, now: float) -> None:
        self._budget.fail(failure)
        self._history.note(consecutive_failures=self._budget.consecutive)
        self._triggering.failed(self._budget.consecutive, now)
        exceeded = self._budget.exceeded
        stops = exceeded and self._limits.fail_on_exceeded
        brief = self._budget.brief() if stops else f"{self._budget.brief()}; the pipeline keeps running"
        message, hint = self._budget.message(), failure.reason.rule.hint
        self._commands.append(RaiseAlarm(FAILING, "critical" if exceeded else "warning", message, hint, brief))
        if stops:
            self._end(now, FailureReason.RUN_STOPPED, self._budget.message())

    def _abort_all(self, reason: FailureReason, message: str, now: float) -> None:
        for pending in list(self._pending.values()):
            self._abort(pending, reason, message, now)

    def _end(
        self,
        now: float,
        reason: FailureReason,
        message: str | None,
        *,
        fenced: RunFenced | None = None,
        final: FailureReason | None = None,
    ) -> None:
        """The last step of a run: abort all work, answer every request, end the run."""
        self._ended = True
        self._abort_all(reason, message or "the run stopped", now)
        self._refuse(self._requests.clear(), reason, message or "the run stopped")
        requests = self._stopping.requests if self._stopping else ()
        self._commands.append(EndRun(message, fenced, requests, final))

    # The clean stop.

    def _continue_stopping(self, stopping: Stopping, now: float) -> None:
        if self._pending:
            return
        step = stopping.next_step(
            self._limits,
            now,
            final_is_wanted=self._final_is_wanted(stopping),
            publishing=self._publishing,
            last_failure=self._history.statistics.last_failure,
        )
        match step:
            case BeginFinal(savepoint=name):
                self._begin("savepoint" if name else "checkpoint", name, (), now)
            case End(message=message, reason=reason):
                self._end(now, FailureReason.RUN_STOPPED, message, final=reason)

    def _final_is_wanted(self, stopping: Stopping) -> bool:
        return self._line.barrier is not None and (stopping.savepoint is not None or not self._line.nothing_new)

    def _stop_deadline(self, stopping: Stopping) -> float:
        return stopping.not_before if not self._pending and self._final_is_wanted(stopping) else _NEVER

    # Queries and replies.

    def _has_room(self) -> bool:
        return len(self._pending) < self._limits.max_concurrent

    def _is_far_behind(self) -> bool:
        """So many batches would have to be repeated that a recovery would not stay within its target. Those of a
        checkpoint that is under way are not counted: another one would not end sooner."""
        if self._recovery is None or not self._running:
            return False
        newest = max((pending.barrier for pending in self._pending.values()), default=None)
        return self._recovery.due(self._line.behind(newest))

    def _under_way(self, barrier: BatchId) -> bool:
        return any(pending.barrier >= barrier for pending in self._pending.values())

    def _copying(self, ticket: Ticket) -> PendingCheckpoint | None:
        pending = self._pending.get(ticket)
        return pending if pending and pending.phase is Phase.COPYING else None

    def _advanced(self, ticket: Ticket, signal: Signal, now: float) -> PendingCheckpoint | None:
        pending = self._pending.get(ticket)
        if pending and pending.advance(signal, now):
            return pending
        self._history.stale()
        return None

    def _seal_when_acknowledged(self, pending: PendingCheckpoint, now: float) -> None:
        if not pending.unacknowledged and pending.advance(Signal.ALL_ACKNOWLEDGED, now):
            self._commands.append(SealCheckpoint(pending.ticket, pending.record(now, None)))

    def _name_is_taken(self, name: str | None) -> bool:
        if name is None:
            return False
        in_use = {pending.name for pending in self._pending.values()}
        return name in self._savepoints or name in in_use or self._requests.has_name(name)

    def _answer(self, requests: tuple[RequestId, ...], id: CheckpointId) -> None:
        self._commands.extend(AnswerRequest(request, completed=id) for request in requests)

    def _refuse(self, requests: tuple[RequestId, ...], reason: FailureReason, message: str) -> None:
        self._commands.extend(AnswerRequest(request, failure=(reason, message)) for request in requests)
