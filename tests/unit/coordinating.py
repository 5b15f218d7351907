"""Drives a coordinator in tests: a clock that only moves when told, and names for what it answered."""

from dataclasses import replace
from typing import TypeVar

from holdfast.coordination.commands import BeginCheckpoint, Command
from holdfast.coordination.coordinator import Coordinator
from holdfast.coordination.events import (
    BarrierReached,
    CheckpointBegun,
    CheckpointSealed,
    Event,
    OutputPublished,
    QueryStarted,
    ShardAcknowledged,
    SnapshotPlanned,
    StepFailed,
    TimePassed,
)
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.coordination.lifecycle import Phase
from holdfast.coordination.limits import Limits
from holdfast.identifiers import BatchId, CheckpointId, ShardId, Ticket

C = TypeVar("C")

SHARDS = (ShardId("control"), ShardId("state/0/0"))
LIMITS = Limits(interval=10.0, timeout=100.0, jitter=0.5)


def only(commands: list[Command], kind: type[C]) -> C:
    found = [command for command in commands if isinstance(command, kind)]
    assert len(found) == 1, commands
    return found[0]


def kinds(commands: list[Command]) -> list[str]:
    return [type(command).__name__ for command in commands]


class Driven:
    def __init__(
        self, limits: Limits = LIMITS, *, running: bool = True, savepoints: frozenset[str] = frozenset()
    ) -> None:
        self.now = 1000.0
        self.coordinator = Coordinator(limits, self.now, savepoints=savepoints)
        self.next_id = 1
        if running:
            self.tell(QueryStarted(replaced=True))

    @property
    def statistics(self):
        return self.coordinator.history.statistics

    @property
    def stale(self) -> int:
        return self.statistics.stale_messages

    def tell(self, event: Event) -> list[Command]:
        return self.coordinator.receive(event, self.now)

    def wait(self, seconds: float) -> list[Command]:
        self.now += seconds
        return self.tell(TimePassed())

    def barrier(self, batch: int) -> list[Command]:
        return self.tell(BarrierReached(BatchId(batch)))

    def begin_periodic(self, batch: int) -> Ticket:
        """A periodic checkpoint of `batch`, in phase STARTING."""
        commands = self.barrier(batch)
        while not any(isinstance(command, BeginCheckpoint) for command in commands):
            deadline = self.coordinator.next_deadline()
            assert deadline is not None
            commands = self.wait(max(0.0, deadline - self.now))
        return only(commands, BeginCheckpoint).ticket

    def advance(self, ticket: Ticket, phase: Phase) -> CheckpointId:
        """From STARTING to `phase`."""
        id = CheckpointId(self.next_id)
        if phase is Phase.STARTING:
            return id
        self.next_id += 1
        self.tell(CheckpointBegun(ticket, id))
        if phase is Phase.PLANNING:
            return id
        self.tell(SnapshotPlanned(ticket, SHARDS))
        if phase is Phase.COPYING:
            return id
        for shard in SHARDS:
            self.tell(ShardAcknowledged(ticket, shard))
        return id

    def complete(self, ticket: Ticket, batch: int | None = None) -> list[Command]:
        """From STARTING to the end, published too when the batch is said."""
        self.advance(ticket, Phase.SEALING)
        commands = self.tell(CheckpointSealed(ticket))
        if batch is not None:
            commands += self.tell(OutputPublished(BatchId(batch)))
        return commands


UNREACHABLE = FailureReason.STORAGE_UNREACHABLE
CONCURRENT = replace(LIMITS, max_concurrent=3)
CONTROL, STATE = SHARDS


def of(commands: list[Command], kind: type) -> list[Command]:
    return [command for command in commands if isinstance(command, kind)]


def fail(driven: Driven, ticket: Ticket, reason: FailureReason = UNREACHABLE, message: str = "no answer"):
    return driven.tell(StepFailed(ticket, reason, message))


def fail_next(driven: Driven, batch: int) -> list[Command]:
    return fail(driven, driven.begin_periodic(batch))
