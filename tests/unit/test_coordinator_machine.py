"""The coordinator under any sequence of events whatever: repeated, late, out of order, about things that never were."""

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.coordination.commands import (
    AbortCheckpoint,
    AnswerRequest,
    BeginCheckpoint,
    Command,
    CopyShards,
    EndRun,
    PublishOutput,
    RecordOutcome,
    SealCheckpoint,
)
from holdfast.coordination.coordinator import Coordinator
from holdfast.coordination.events import (
    BarrierReached,
    CheckpointBegun,
    CheckpointRequested,
    CheckpointSealed,
    EntrySettled,
    Event,
    OutputPublished,
    PlanFailed,
    PublishFailed,
    QueryEnded,
    QueryStarted,
    RunFenced,
    ShardAcknowledged,
    ShardFailed,
    SnapshotPlanned,
    StepFailed,
    StopRequested,
    TimePassed,
)
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.coordination.limits import Limits
from holdfast.coordination.recovery_time import RecoveryTime
from holdfast.identifiers import BatchId, CheckpointId, RequestId, ShardId, Ticket

SHARDS = tuple(ShardId(f"s{number}") for number in range(3))
tickets = st.integers(0, 30).map(Ticket)
reasons = st.sampled_from(FailureReason)
MAX_CONCURRENT = 2


class AnyEvents(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        limits = Limits(
            interval=5.0, timeout=20.0, min_pause=1.0, max_concurrent=MAX_CONCURRENT, tolerable_failures=4, jitter=0.3
        )
        self.coordinator = Coordinator(limits, self.now, recovery=RecoveryTime(4.0))
        self.barrier = -1
        self.requests = 0
        self.asked: set[int] = set()
        self.answered: set[int] = set()
        self.begun: dict[Ticket, BeginCheckpoint] = {}
        self.ids: dict[Ticket, CheckpointId] = {}
        self.sealable: set[Ticket] = set()
        self.completed: set[Ticket] = set()
        self.failed: set[Ticket] = set()
        self.sealed_barriers: set[BatchId] = set()
        self.todo: list[Event] = []
        self.over = False
        self.tell(QueryStarted(replaced=True))

    def tell(self, event: Event) -> None:
        commands = self.coordinator.receive(event, self.now)
        if self.over:
            assert commands == []
        for command in commands:
            self.perform(command)

    def perform(self, command: Command) -> None:
        assert not self.over, "a command after EndRun"
        match command:
            case BeginCheckpoint(ticket=ticket):
                assert ticket not in self.begun
                self.begun[ticket] = command
                self.ids[ticket] = CheckpointId(len(self.begun))
                self.todo += [CheckpointBegun(ticket, self.ids[ticket]), SnapshotPlanned(ticket, SHARDS)]
            case CopyShards(ticket=ticket, shards=shards):
                assert len(set(shards)) == len(shards)
                self.todo += [ShardAcknowledged(ticket, shard) for shard in shards]
            case SealCheckpoint(ticket=ticket):
                assert ticket not in self.sealable, "sealed twice"
                self.sealable.add(ticket)
            case AbortCheckpoint(ticket=ticket):
                assert ticket not in self.failed | self.completed, "ended twice"
                self.failed.add(ticket)
            case RecordOutcome(record=record):
                self.recorded(record.ticket, record.completed)
            case PublishOutput(upto=upto):
                assert upto in self.sealed_barriers, "published beyond what is in the journal"
                self.todo.append(OutputPublished(upto))
            case AnswerRequest(request=request, completed=completed, failure=failure):
                assert (completed is None) != (failure is None)
                self.answer(request)
            case EndRun(requests=requests):
                self.over = True
                for request in requests:
                    self.answer(request)

    def recorded(self, ticket: Ticket, completed: bool) -> None:
        if not completed:
            assert ticket in self.failed
            return
        assert ticket not in self.completed, "completed twice"
        assert self.begun[ticket].barrier in self.sealed_barriers
        self.completed.add(ticket)

    def answer(self, request: RequestId) -> None:
        assert request not in self.answered, "answered twice"
        self.answered.add(request)

    def new_request(self) -> RequestId:
        self.requests += 1
        if not self.over:
            self.asked.add(self.requests)
        return RequestId(self.requests)

    # What really happens in the journal happens at most once per checkpoint; everything else may be anything.

    @precondition(lambda self: self.sealable)
    @rule(data=st.data())
    def seal(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.sealable)))
        self.sealed_barriers.add(self.begun[ticket].barrier)
        self.tell(CheckpointSealed(ticket))

    @precondition(lambda self: self.sealable)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.sealable)))
        self.sealed_barriers.add(self.begun[ticket].barrier)
        self.tell(EntrySettled(self.ids[ticket]))

    @precondition(lambda self: self.todo)
    @rule(data=st.data(), keep=st.booleans())
    def deliver(self, data: st.DataObject, keep: bool) -> None:
        """In any order; kept ones come again."""
        event = data.draw(st.sampled_from(self.todo))
        if not keep:
            self.todo.remove(event)
        self.tell(event)

    @rule(ticket=tickets, shard=st.sampled_from(SHARDS), reason=reasons, number=st.integers(1, 3))
    def shard_failed(self, ticket: Ticket, shard: ShardId, reason: FailureReason, number: int) -> None:
        self.tell(ShardFailed(ticket, shard, reason, "x", number))

    @rule(ticket=tickets, reason=reasons)
    def step_failed(self, ticket: Ticket, reason: FailureReason) -> None:
        self.tell(StepFailed(ticket, reason, "x"))

    @rule(ticket=tickets, reason=reasons)
    def plan_failed(self, ticket: Ticket, reason: FailureReason) -> None:
        self.tell(PlanFailed(ticket, reason, "x"))

    @rule(ticket=st.integers(40, 50).map(Ticket))
    def about_something_unknown(self, ticket: Ticket) -> None:
        for event in (CheckpointSealed(ticket), ShardAcknowledged(ticket, SHARDS[0]), SnapshotPlanned(ticket, ())):
            self.tell(event)
        self.tell(PlanFailed(ticket, FailureReason.FILES_VANISHED, "x"))
        self.tell(EntrySettled(CheckpointId(1000 + ticket)))

    @rule(step=st.integers(1, 3), ran_s=st.sampled_from([None, 0.1, 3.0]))
    def batch(self, step: int, ran_s: float | None) -> None:
        self.barrier += step
        self.tell(BarrierReached(BatchId(self.barrier), ran_s))

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.tell(TimePassed())

    @rule(kind=st.sampled_from(["checkpoint", "savepoint"]), name=st.sampled_from("abcdef"))
    def request(self, kind: str, name: str) -> None:
        request = self.new_request()
        self.tell(CheckpointRequested(request, kind, name if kind == "savepoint" else None))

    @rule(upto=st.integers(0, 9).map(BatchId))
    def publish_failed(self, upto: BatchId) -> None:
        self.tell(PublishFailed(upto, "x"))

    @rule(replaced=st.booleans())
    def query_restarted(self, replaced: bool) -> None:
        self.tell(QueryEnded(replaced=replaced))
        if replaced:
            durable = max(self.sealed_barriers, default=None)
            self.barrier = -1 if durable is None else durable
            self.tell(QueryStarted(replaced=True, durable=durable, durable_id=CheckpointId(1)))
        else:
            self.tell(QueryStarted())

    @precondition(lambda self: self.barrier > 15)
    @rule(name=st.sampled_from([None, "a", "z"]))
    def stop(self, name: str | None) -> None:
        self.tell(StopRequested(self.new_request(), name))

    @precondition(lambda self: self.barrier > 25)
    @rule()
    def fence(self) -> None:
        self.tell(RunFenced("x"))

    @invariant()
    def never_more_than_allowed(self) -> None:
        assert len(self.coordinator.pending) <= MAX_CONCURRENT

    @invariant()
    def every_attempt_is_pending_or_has_ended(self) -> None:
        pending = {attempt.ticket for attempt in self.coordinator.pending}
        assert pending | self.failed | self.completed == set(self.begun)
        assert not pending & (self.failed | self.completed)

    @invariant()
    def the_deadline_makes_progress(self) -> None:
        """Obeying the deadline at once never finds it unchanged in the past: the loop cannot spin."""
        deadline = self.coordinator.next_deadline()
        if deadline is not None and deadline <= self.now:
            self.tell(TimePassed())
            deadline = self.coordinator.next_deadline()
        assert deadline is None or deadline > self.now

    @invariant()
    def statistics_add_up(self) -> None:
        statistics = self.coordinator.history.statistics
        assert statistics.triggered == len(self.begun)
        assert statistics.failed == len(self.failed)
        assert statistics.completed == len(self.completed)

    def teardown(self) -> None:
        """Everyone who asked is answered when the run ends."""
        self.tell(RunFenced("end of the test"))
        assert self.over
        assert self.answered == self.asked


AnyEvents.TestCase.settings = settings(
    max_examples=150, stateful_step_count=50, deadline=None, phases=(Phase.generate, Phase.shrink)
)
TestAnyEvents = AnyEvents.TestCase
