"""The coordinator: every decision about checkpoints, as a pure state machine.

`receive(event, now)` returns the commands to perform; `next_deadline()` says when to call again with `TimePassed` if
nothing else happens. It reads no clock, file or socket. `now` never goes back.

Invariants
- At most one request of a kind waits; a request that comes meanwhile joins it.
- At most `max_concurrent` checkpoints are under way, and each of them ends exactly once, by the table in lifecycle.py.
- A message about a checkpoint that has ended changes nothing but `stale_messages`, except that the journal outranks
  every other opinion: an entry that exists makes its checkpoint completed.
- Output is published only up to a barrier whose checkpoint is in the journal.
- After `EndRun` no command is ever given again.
"""

from collections import OrderedDict
from dataclasses import dataclass
from functools import singledispatchmethod

from holdfast.coordination.commands import (
    AbandonCheckpoint,
    AnswerRequest,
    BeginCheckpoint,
    ClearAlarm,
    Command,
    CopyShards,
    EndRun,
    PlanSnapshot,
    RaiseAlarm,
    RecordOutcome,
    RetireCheckpoints,
    SealCheckpoint,
)
from holdfast.coordination.events import (
    BarrierReached,
    CheckpointBegun,
    CheckpointRequested,
    CheckpointSealed,
    EntrySettled,
    Event,
    Kind,
    OutputPublished,
    PublishFailed,
    QueryEnded,
    QueryStarted,
    RunFenced,
    ShardAcknowledged,
    ShardFailed,
    ShardProgressed,
    SnapshotPlanned,
    StepFailed,
    StopRequested,
    TimePassed,
)
from holdfast.coordination.history import FailureRecord, History
from holdfast.coordination.lifecycle import Phase, Signal
from holdfast.coordination.pending import PendingCheckpoint
from holdfast.coordination.publishing import Publishing
from holdfast.coordination.reasons import FailureReason
from holdfast.coordination.rules import FailureBudget, Rules
from holdfast.identifiers import BatchId, CheckpointId, RequestId, ShardId, Ticket

FAILING = "checkpoints_failing"
DEFERRED = "checkpoints_deferred"
_DOUBTFUL_KEPT = 100


@dataclass
class _Waiting:
    """A request that has not become a checkpoint yet."""

    kind: Kind
    name: str | None
    requests: tuple[RequestId, ...]


@dataclass
class _Stopping:
    request: RequestId
    savepoint: str | None
    tries: int = 0
    not_before: float = 0.0


class Coordinator:
    def __init__(
        self,
        rules: Rules,
        now: float,
        *,
        last_completed: CheckpointId | None = None,
        savepoints: frozenset[str] = frozenset(),
    ) -> None:
        self._rules = rules
        self._budget = FailureBudget(rules.tolerable_failures)
        self._publishing = Publishing(rules)
        self._history = History()
        self._history.count(last_completed=last_completed)
        self._savepoints = set(savepoints)
        self._pending: dict[Ticket, PendingCheckpoint] = {}
        self._doubtful: OrderedDict[Ticket, PendingCheckpoint] = OrderedDict()
        """Given up while the journal was being written: their entry may exist."""
        self._waiting: list[_Waiting] = []
        self._next_ticket = 1
        self._running = False
        self._barrier: BatchId | None = None
        self._durable: BatchId | None = None
        """The barrier of the newest completed checkpoint of the current line of batches."""
        self._next_trigger = rules.first_trigger(now)
        self._last_end = -rules.min_pause + now
        self._backoff_until = now
        self._skip_counted = False
        self._deferred_since: float | None = None
        self._deferral_alarmed = False
        self._stopping: _Stopping | None = None
        self._ended = False
        self._commands: list[Command] = []

    @property
    def history(self) -> History:
        return self._history

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def pending(self) -> tuple[PendingCheckpoint, ...]:
        return tuple(self._pending.values())

    def receive(self, event: Event, now: float) -> list[Command]:
        if self._ended:
            self._history.stale()
            return []
        self._commands = []
        self._handle(event, now)
        if not self._ended:
            self._pass_time(now)
        return self._commands

    def next_deadline(self) -> float | None:
        """When `TimePassed` is due, None when only an event can change anything."""
        if self._ended:
            return None
        times = [pending.next_deadline() for pending in self._pending.values()]
        times.append(self._trigger_deadline())
        times.append(self._publishing.next_deadline())
        if self._deferred_since is not None and not self._deferral_alarmed:
            times.append(self._deferred_since + self._rules.deferral_alarm())
        earliest = min(times)
        return None if earliest == float("inf") else earliest

    # Events, one method each.

    @singledispatchmethod
    def _handle(self, event: Event, now: float) -> None:
        raise AssertionError(f"unknown event {event!r}")

    @_handle.register
    def _(self, event: TimePassed, now: float) -> None:
        pass

    @_handle.register
    def _(self, event: QueryStarted, now: float) -> None:
        self._running = True
        if event.replaced:
            self._barrier = None
            self._durable = event.durable
            self._publishing.restart(event.durable)

    @_handle.register
    def _(self, event: QueryEnded, now: float) -> None:
        self._running = False
        if event.replaced:
            self._abandon_all(FailureReason.QUERY_RESTARTED, "its work directory was given up", now)
            self._barrier = None

    @_handle.register
    def _(self, event: BarrierReached, now: float) -> None:
        if self._barrier is None or event.batch_id > self._barrier:
            self._barrier = event.batch_id
        else:
            self._history.stale()

    @_handle.register
    def _(self, event: CheckpointRequested, now: float) -> None:
        if event.kind == "savepoint" and self._name_is_taken(event.name):
            self._refuse((event.request,), FailureReason.NAME_TAKEN, f"savepoint {event.name!r} exists")
        elif event.kind == "checkpoint" and self._nothing_new():
            self._commands.append(AnswerRequest(event.request, completed=self._history.statistics.last_completed))
        else:
            self._enqueue(event.kind, event.name, event.request)

    @_handle.register
    def _(self, event: StopRequested, now: float) -> None:
        if self._stopping is not None:
            self._history.stale()
            return
        name = event.savepoint
        if name is not None and self._name_is_taken(name):
            self._refuse((event.request,), FailureReason.NAME_TAKEN, f"savepoint {name!r} exists")
            name = None
        self._stopping = _Stopping(event.request, name)

    @_handle.register
    def _(self, event: CheckpointBegun, now: float) -> None:
        pending = self._advanced(event.ticket, Signal.BEGUN, now)
        if pending:
            pending.id = event.id
            self._commands.append(PlanSnapshot(pending.ticket, pending.barrier))

    @_handle.register
    def _(self, event: SnapshotPlanned, now: float) -> None:
        pending = self._advanced(event.ticket, Signal.PLANNED, now)
        if pending:
            pending.expect(event.shards, now)
            self._commands.append(CopyShards(pending.ticket, event.shards))
            self._seal_when_acknowledged(pending, now)

    @_handle.register
    def _(self, event: ShardProgressed, now: float) -> None:
        if event.ticket not in self._pending:
            self._history.stale()

    @_handle.register
    def _(self, event: ShardAcknowledged, now: float) -> None:
        pending = self._copying(event.ticket)
        if pending and pending.acknowledge(event, now):
            self._seal_when_acknowledged(pending, now)
        else:
            self._history.stale()

    @_handle.register
    def _(self, event: ShardFailed, now: float) -> None:
        pending = self._copying(event.ticket)
        if pending is None or event.shard not in pending.unacknowledged:
            self._history.stale()
            return
        tries = pending.tries.get(event.shard, 0) + 1
        pending.tries[event.shard] = tries
        retry_at = now + self._rules.shard_backoff(tries)
        if tries >= self._rules.shard_tries or retry_at >= pending.expires_at:
            self._give_up(pending, event.reason, event.message, now, shard=event.shard)
        else:
            pending.retry_at(event.shard, retry_at)
            self._history.count(shard_retries=self._history.statistics.shard_retries + 1)

    @_handle.register
    def _(self, event: StepFailed, now: float) -> None:
        pending = self._pending.get(event.ticket)
        if pending:
            self._give_up(pending, event.reason, event.message, now)
        else:
            self._history.stale()

    @_handle.register
    def _(self, event: CheckpointSealed, now: float) -> None:
        pending = self._pending.get(event.ticket) or self._doubtful.get(event.ticket)
        if pending and pending.advance(Signal.SEALED, now):
            self._complete(pending, now)
        else:
            self._history.stale()

    @_handle.register
    def _(self, event: EntrySettled, now: float) -> None:
        for pending in [*self._doubtful.values(), *self._pending.values()]:
            if pending.id == event.id:
                signal = Signal.SETTLED if pending.phase is Phase.FAILED else Signal.SEALED
                if pending.advance(signal, now):
                    self._complete(pending, now)
                return
        self._history.stale()

    @_handle.register
    def _(self, event: OutputPublished, now: float) -> None:
        self._commands.extend(self._publishing.published(event.upto))

    @_handle.register
    def _(self, event: PublishFailed, now: float) -> None:
        self._commands.extend(self._publishing.failed(event.upto, event.message, now))

    @_handle.register
    def _(self, event: RunFenced, now: float) -> None:
        self._end(now, FailureReason.FENCED, event.message, fenced=True)

    # Time, and everything that has become possible.

    def _pass_time(self, now: float) -> None:
        for pending in list(self._pending.values()):
            if now >= pending.expires_at:
                message = f"not complete after {self._rules.timeout:g} s, in phase {pending.phase.value}"
                self._give_up(pending, FailureReason.EXPIRED, message, now)
            elif due := pending.due_retries(now):
                self._commands.append(CopyShards(pending.ticket, due, again=True))
        if self._ended:
            return
        self._commands.extend(self._publishing.due(now))
        if self._stopping is not None:
            self._continue_stopping(self._stopping, now)
        else:
            self._begin_waiting(now)
            self._begin_periodic(now)

    def _begin_waiting(self, now: float) -> None:
        """Savepoints first, then checkpoints that were asked for; neither waits for min_pause or back-off."""
        for waiting in sorted(self._waiting, key=lambda w: w.kind != "savepoint"):
            if self._barrier is None or len(self._pending) >= self._rules.max_concurrent:
                return
            self._waiting.remove(waiting)
            self._begin(waiting.kind, waiting.name, waiting.requests, now)

    def _begin_periodic(self, now: float) -> None:
        if now < self._trigger_time():
            return
        if not self._running or self._barrier is None:
            self._defer(now)
            return
        self._undefer()
        if self._nothing_new() or self._under_way(self._barrier):
            if not self._skip_counted and self._nothing_new():
                self._skip_counted = True
                self._history.count(skipped_no_new_batch=self._history.statistics.skipped_no_new_batch + 1)
            return
        if len(self._pending) < self._rules.max_concurrent:
            self._begin("checkpoint", None, (), now)

    def _begin(self, kind: Kind, name: str | None, requests: tuple[RequestId, ...], now: float) -> None:
        assert self._barrier is not None
        ticket = Ticket(self._next_ticket)
        self._next_ticket += 1
        self._pending[ticket] = PendingCheckpoint(
            ticket, kind, name, self._barrier, requests, now, now + self._rules.timeout
        )
        self._next_trigger = now + self._rules.interval
        self._skip_counted = False
        self._history.count(triggered=self._history.statistics.triggered + 1)
        self._commands.append(BeginCheckpoint(ticket, kind, name, self._barrier))

    def _trigger_time(self) -> float:
        return max(self._next_trigger, self._last_end + self._rules.min_pause, self._backoff_until)

    def _trigger_deadline(self) -> float:
        if self._stopping is not None:
            return self._stopping.not_before if not self._pending else float("inf")
        blocked = (
            len(self._pending) >= self._rules.max_concurrent
            or not self._running
            or self._barrier is None
            or self._nothing_new()
            or self._under_way(self._barrier)
        )
        wait_for_event = blocked and (self._deferred_since is not None or self._skip_counted or bool(self._pending))
        return float("inf") if wait_for_event else self._trigger_time()

    # Ends.

    def _complete(self, pending: PendingCheckpoint, now: float) -> None:
        assert pending.id is not None
        was_given_up = pending.ticket in self._doubtful
        self._pending.pop(pending.ticket, None)
        self._doubtful.pop(pending.ticket, None)
        record = (self._history.settle(pending.id) if was_given_up else None) or pending.record(now, None)
        if not was_given_up:
            self._history.add(record)
        statistics = self._history.statistics
        self._history.count(
            completed=statistics.completed + 1,
            consecutive_failures=0,
            last_completed=max(statistics.last_completed or pending.id, pending.id),
            last_completed_at=now,
        )
        if pending.name is not None:
            self._savepoints.add(pending.name)
        self._last_end = now
        self._backoff_until = now
        if self._durable is None or pending.barrier > self._durable:
            self._durable = pending.barrier
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
                self._give_up(older, FailureReason.SUPERSEDED, f"checkpoint {completed.id} completed first", now)

    def _give_up(
        self,
        pending: PendingCheckpoint,
        reason: FailureReason,
        message: str,
        now: float,
        shard: ShardId | None = None,
    ) -> None:
        failure = FailureRecord(reason, message, shard)
        sealing = pending.phase is Phase.SEALING
        pending.advance(Signal.GIVEN_UP, now)
        del self._pending[pending.ticket]
        if sealing:
            self._doubtful[pending.ticket] = pending
            while len(self._doubtful) > _DOUBTFUL_KEPT:
                self._doubtful.popitem(last=False)
        record = pending.record(now, failure)
        self._history.add(record)
        self._history.count(failed=self._history.statistics.failed + 1, last_failure=failure)
        self._commands.append(AbandonCheckpoint(pending.ticket, reason))
        self._commands.append(RecordOutcome(record))
        self._refuse(pending.requests, reason, message)
        if reason.counted and pending.kind == "checkpoint":
            self._count(failure, now)

    def _count(self, failure: FailureRecord, now: float) -> None:
        self._budget.fail(failure)
        self._history.count(consecutive_failures=self._budget.consecutive)
        self._backoff_until = now + self._rules.backoff(self._budget.consecutive)
        # A failure is retried after its back-off, however long the interval is.
        self._next_trigger = min(self._next_trigger, self._backoff_until)
        exceeded = self._budget.exceeded
        self._commands.append(
            RaiseAlarm(FAILING, "critical" if exceeded else "warning", self._budget.message(), failure.reason.rule.hint)
        )
        if exceeded and self._rules.fail_on_exceeded and not self._ended:
            self._end(now, FailureReason.RUN_STOPPED, self._budget.message())

    def _abandon_all(self, reason: FailureReason, message: str, now: float) -> None:
        for pending in list(self._pending.values()):
            self._give_up(pending, reason, message, now)

    def _end(self, now: float, reason: FailureReason, message: str | None, *, fenced: bool = False) -> None:
        """The last thing that ever happens: abandon all work, answer everyone who waits, end the run."""
        self._ended = True
        self._abandon_all(reason, message or "the run stopped", now)
        for waiting in self._waiting:
            self._refuse(waiting.requests, reason, message or "the run stopped")
        self._waiting.clear()
        stop = self._stopping.request if self._stopping else None
        self._commands.append(EndRun(message, fenced, stop))

    def _continue_stopping(self, stopping: _Stopping, now: float) -> None:
        if self._pending or now < stopping.not_before:
            return
        if self._barrier is not None and (stopping.savepoint is not None or not self._nothing_new()):
            self._begin_final(stopping, now)
        elif self._publishing.idle:
            self._end(now, FailureReason.RUN_STOPPED, None)
        elif self._publishing.failures >= self._rules.final_tries:
            self._end(now, FailureReason.RUN_STOPPED, f"the output is not published: {self._publishing.message}")

    def _begin_final(self, stopping: _Stopping, now: float) -> None:
        if stopping.tries >= self._rules.final_tries:
            last = self._history.statistics.last_failure
            cause = f": {last.reason.value}: {last.message}" if last else ""
            self._end(now, FailureReason.RUN_STOPPED, f"the last checkpoint could not be completed{cause}")
            return
        stopping.tries += 1
        stopping.not_before = now + self._rules.shard_backoff(stopping.tries)
        requests = tuple(request for waiting in self._waiting for request in waiting.requests)
        self._waiting.clear()
        name = stopping.savepoint
        self._begin("savepoint" if name else "checkpoint", name, requests, now)

    # Small questions and answers.

    def _nothing_new(self) -> bool:
        """Every committed batch is in a completed checkpoint."""
        if self._stopping is not None and self._stopping.savepoint in self._savepoints:
            self._stopping.savepoint = None
        return self._barrier is not None and self._durable is not None and self._barrier <= self._durable

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
            self._commands.append(SealCheckpoint(pending.ticket))

    def _name_is_taken(self, name: str | None) -> bool:
        in_use = {pending.name for pending in self._pending.values()} | {w.name for w in self._waiting}
        return name in self._savepoints or name in in_use

    def _enqueue(self, kind: Kind, name: str | None, request: RequestId) -> None:
        for waiting in self._waiting:
            if (waiting.kind, waiting.name) == (kind, name):
                waiting.requests = (*waiting.requests, request)
                return
        self._waiting.append(_Waiting(kind, name, (request,)))

    def _answer(self, requests: tuple[RequestId, ...], id: CheckpointId) -> None:
        self._commands.extend(AnswerRequest(request, completed=id) for request in requests)

    def _refuse(self, requests: tuple[RequestId, ...], reason: FailureReason, message: str) -> None:
        self._commands.extend(AnswerRequest(request, failure=(reason, message)) for request in requests)

    def _defer(self, now: float) -> None:
        if self._deferred_since is None:
            self._deferred_since = now
        elif not self._deferral_alarmed and now >= self._deferred_since + self._rules.deferral_alarm():
            self._deferral_alarmed = True
            why = "the query is not running" if not self._running else "no batch has been committed yet"
            self._commands.append(
                RaiseAlarm(
                    DEFERRED,
                    "warning",
                    f"no checkpoint for {now - self._deferred_since:.0f} s: {why}",
                    "look at the query's progress, and at why it was restarted: holdfast status",
                )
            )

    def _undefer(self) -> None:
        if self._deferral_alarmed:
            self._commands.append(ClearAlarm(DEFERRED, "the query commits batches"))
        self._deferred_since, self._deferral_alarmed = None, False
