"""Every pair of phase and signal, and of state and event."""

import pytest

from holdfast.coordination.commands import EndRun, RecordOutcome
from holdfast.coordination.events import (
    BarrierReached,
    CheckpointBegun,
    CheckpointDamaged,
    CheckpointRequested,
    CheckpointSealed,
    EntrySettled,
    Event,
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
from holdfast.coordination.lifecycle import ENDED, TRANSITIONS, Phase, Signal, after
from holdfast.identifiers import BatchId, CheckpointId, RequestId, Ticket
from tests.unit.coordinating import SHARDS, Driven, kinds

S, P, C, Z, DONE, GONE = (
    Phase.STARTING,
    Phase.PLANNING,
    Phase.COPYING,
    Phase.SEALING,
    Phase.COMPLETED,
    Phase.FAILED,
)
EXPECTED_PHASE = {
    S: {Signal.BEGUN: P, Signal.ABORTED: GONE},
    P: {Signal.PLANNED: C, Signal.ABORTED: GONE},
    C: {Signal.ALL_ACKNOWLEDGED: Z, Signal.ABORTED: GONE},
    Z: {Signal.SEALED: DONE, Signal.ABORTED: GONE},
    DONE: {},
    GONE: {Signal.SEALED: DONE, Signal.SETTLED: DONE},
}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("signal", Signal)
def test_every_pair_of_phase_and_signal(phase: Phase, signal: Signal) -> None:
    assert after(phase, signal) is EXPECTED_PHASE[phase].get(signal)


def test_the_journal_alone_leads_out_of_an_ended_phase() -> None:
    leaving = {signal for (phase, signal) in TRANSITIONS if phase in ENDED}
    assert leaving == {Signal.SEALED, Signal.SETTLED}


# --- one checkpoint: its state and every event about it ---

T, ID = Ticket(1), CheckpointId(1)
EVENTS: dict[str, Event] = {
    "begun": CheckpointBegun(T, ID),
    "planned": SnapshotPlanned(T, SHARDS),
    "ack": ShardAcknowledged(T, SHARDS[0]),
    "unknown shard": ShardAcknowledged(T, "nobody"),
    "plan failed": PlanFailed(T, FailureReason.FILES_VANISHED, "x"),
    "shard failed": ShardFailed(T, SHARDS[0], FailureReason.COPY_FAILED, "x"),
    "step failed": StepFailed(T, FailureReason.STORAGE_UNREACHABLE, "x"),
    "sealed": CheckpointSealed(T),
    "settled": EntrySettled(ID),
    "other ticket": CheckpointSealed(Ticket(77)),
}
STALE = "stale"
FAILS = "AbortCheckpoint RecordOutcome RaiseAlarm"
COMPLETES = "RecordOutcome PublishOutput RetireCheckpoints"
SETTLES = "RecordOutcome PublishOutput RetireCheckpoints ClearAlarm"
# What each event does in each state: the commands, "" for none without being stale, or STALE.
EXPECTED_COMMANDS = {
    "starting": {"begun": "", "planned": "", "plan failed": "", "step failed": FAILS},
    "starting, planned": {"begun": "CopyShards", "step failed": FAILS},
    "starting, not plannable": {"begun": FAILS, "step failed": FAILS},
    "planning": {"planned": "CopyShards", "plan failed": FAILS, "step failed": FAILS},
    "copying": {"ack": "", "shard failed": "", "step failed": FAILS},
    "one acknowledged": {"step failed": FAILS},
    "sealing": {"sealed": COMPLETES, "settled": COMPLETES, "step failed": FAILS},
    "doubtful": {"sealed": SETTLES, "settled": SETTLES},
    "failed": {},
    "completed": {},
}


def in_state(state: str) -> Driven:
    driven = Driven()
    ticket = driven.begin_periodic(0)
    assert ticket == T
    phases = {
        "starting": S,
        "starting, planned": S,
        "starting, not plannable": S,
        "planning": P,
        "copying": C,
        "one acknowledged": C,
        "failed": C,
    }
    driven.advance(ticket, phases.get(state, Z))
    if state == "starting, planned":
        driven.tell(SnapshotPlanned(T, SHARDS))
    elif state == "starting, not plannable":
        driven.tell(PlanFailed(T, FailureReason.FILES_VANISHED, "x"))
    elif state == "one acknowledged":
        driven.tell(ShardAcknowledged(T, SHARDS[0]))
    elif state in ("doubtful", "failed"):
        driven.tell(StepFailed(T, FailureReason.OUTCOME_UNKNOWN, "x"))
    elif state == "completed":
        driven.tell(CheckpointSealed(T))
    return driven


@pytest.mark.parametrize("state", EXPECTED_COMMANDS)
@pytest.mark.parametrize("event", EVENTS)
def test_every_pair_of_checkpoint_state_and_event(state: str, event: str) -> None:
    driven = in_state(state)
    stale = driven.stale
    commands = driven.tell(EVENTS[event])
    expected = EXPECTED_COMMANDS[state].get(event, STALE)
    if expected == STALE:
        assert (commands, driven.stale) == ([], stale + 1)
    else:
        assert (" ".join(kinds(commands)), driven.stale) == (expected, stale)


# --- the run: its state and every event about it ---

RUN_EVENTS: dict[str, Event] = {
    "time": TimePassed(),
    "started": QueryStarted(),
    "started elsewhere": QueryStarted(replaced=True, durable=BatchId(0)),
    "ended": QueryEnded(),
    "ended elsewhere": QueryEnded(replaced=True),
    "barrier": BarrierReached(BatchId(1)),
    "old barrier": BarrierReached(BatchId(0)),
    "checkpoint": CheckpointRequested(RequestId(1)),
    "savepoint": CheckpointRequested(RequestId(1), "savepoint", "s"),
    "stop": StopRequested(RequestId(1)),
    "stop with savepoint": StopRequested(RequestId(1), "s"),
    "savepoints known": SavepointsKnown(frozenset({"s"})),
    "released": OutputReleased(BatchId(1)),
    "published": OutputPublished(BatchId(0)),
    "publish failed": PublishFailed(BatchId(0), "x"),
    "damaged": CheckpointDamaged(CheckpointId(1)),
    "fenced": RunFenced("x"),
}
BEGINS = "BeginCheckpoint"
ABORTS = "AbortCheckpoint RecordOutcome"
SHOWS = "PublishOutput"
RUN_EXPECTED = {
    # No query yet.
    "new": {
        "old barrier": "",
        "stop": "EndRun",
        "stop with savepoint": "EndRun",
        "released": SHOWS,
        "fenced": "EndRun",
    },
    # The query runs, nothing is due.
    "idle": {
        "savepoint": BEGINS,
        "checkpoint": BEGINS,
        "stop": BEGINS,
        "stop with savepoint": BEGINS,
        "released": SHOWS,
        "fenced": "EndRun",
        "old barrier": STALE,
    },
    # A checkpoint of batch 0 is under way.
    "pending": {"ended elsewhere": ABORTS, "released": SHOWS, "fenced": f"{ABORTS} EndRun", "old barrier": STALE},
    # Everything is durable and published.
    "durable": {
        "checkpoint": "AnswerRequest",
        "savepoint": BEGINS,
        "stop": "EndRun",
        "stop with savepoint": BEGINS,
        "released": SHOWS,
        "fenced": "EndRun",
        "old barrier": STALE,
    },
    # A final checkpoint of batch 0 is under way.
    "stopping": {
        "ended elsewhere": f"{ABORTS} EndRun",
        "checkpoint": "AnswerRequest",
        "savepoint": "AnswerRequest",
        "stop with savepoint": "AnswerRequest",
        "released": SHOWS,
        "fenced": f"{ABORTS} EndRun",
        "old barrier": STALE,
    },
    "over": dict.fromkeys(RUN_EVENTS, STALE),
}


def in_run_state(state: str) -> Driven:
    driven = Driven(running=state != "new")
    if state == "new":
        return driven
    if state == "pending":
        driven.begin_periodic(0)
    elif state == "durable":
        driven.complete(driven.begin_periodic(0), 0)
    else:
        driven.barrier(0)
    if state in ("stopping", "over"):
        driven.tell(StopRequested(RequestId(9)))
    if state == "over":
        driven.tell(RunFenced("x"))
    return driven


@pytest.mark.parametrize("state", RUN_EXPECTED)
@pytest.mark.parametrize("event", RUN_EVENTS)
def test_every_pair_of_run_state_and_event(state: str, event: str) -> None:
    driven = in_run_state(state)
    stale = driven.stale
    commands = driven.tell(RUN_EVENTS[event])
    expected = RUN_EXPECTED[state].get(event, "")
    if expected == STALE:
        assert (commands, driven.stale) == ([], stale + 1)
    else:
        assert (" ".join(kinds(commands)), driven.stale) == (expected, stale)
    ends = [index for index, command in enumerate(commands) if isinstance(command, EndRun)]
    assert ends in ([], [len(commands) - 1])


def test_every_event_is_in_one_of_the_tables() -> None:
    covered = {type(event) for event in (*EVENTS.values(), *RUN_EVENTS.values())}
    assert covered == set(Event.__args__)


def test_a_record_names_every_phase_the_checkpoint_went_through() -> None:
    driven = in_state("sealing")
    record = next(c.record for c in driven.tell(CheckpointSealed(T)) if isinstance(c, RecordOutcome))
    assert [phase for phase, _ in record.phases] == [S, P, C, Z]
