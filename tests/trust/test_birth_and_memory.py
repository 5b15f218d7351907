"""R3: birth is explicit, and memory is compared: what is agreed upon, as a table."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch, JobName, Sequence
from holdfast.repository.entries import Process, RunStarted, Stamp, WentBack
from holdfast.repository.state import JobState
from holdfast.runtime.recovery.memory import Asked, Memory, abandoned_but_shown, agree
from holdfast.sinks.protocol import fingerprint
from tests.trust.jobs_with_sinks import job as job
from tests.unit.job_histories import History

OURS = fingerprint("lineage")
THEIRS = fingerprint("another lineage")
NOTHING, NEW_LIFE, OLDER_HOME = Asked(), Asked(new_life=True), Asked(older_home=True)


@pytest.fixture
def state(tmp_path: Path) -> JobState:
    """Runs 1 and 4; checkpoints at batches 3 and 6."""
    history = History(tmp_path / "home")
    history.run()
    history.complete(1, batch=3)
    history.complete(2, batch=6)
    history.run()
    return history.state()


def memory(life: int | None = OURS, epoch: int = 4, claim: str | None = "orders-3", **others: Any) -> Memory:
    claimed = None if claim is None else fingerprint(claim)
    return Memory("delta:/data/orders", life, FencingEpoch(epoch), claimed, **others)


def agreed(state: JobState, memory: Memory, asked: Asked = NOTHING) -> Any:
    return agree(JobName("orders"), "file:///home", state, [memory], asked)


# --- what is agreed upon, as a table ---


@pytest.mark.parametrize(
    "same",
    [
        memory(),
        memory(claim=None),
        memory(epoch=1, claim="orders-0"),
        memory(epoch=0, claim=None),
        memory(published=BatchId(6)),
        memory(published=BatchId(2)),
        memory(head=Sequence(4)),
        memory(life=None, claim=None),
        memory(life=None, epoch=0, claim=None),
    ],
)
def test_a_home_that_knows_what_others_know_goes_on(state: JobState, same: Memory) -> None:
    agreement = agreed(state, same)
    assert (agreement.new_life, agreement.older_home) == (False, False)
    assert agreement.above <= state.head, "nothing has to be claimed above"


def test_nobody_knows_the_job_so_it_begins() -> None:
    agreement = agreed(JobState(), memory(life=None, epoch=0, claim=None))
    assert not agreement.new_life


@pytest.mark.parametrize("other", [memory(), memory(life=None, claim=None), memory(epoch=0), memory(THEIRS)])
def test_an_empty_home_is_no_birth_when_somebody_knows_the_job(other: Memory) -> None:
    """A mount that is missing, a bucket that was replaced, a home that was emptied, another home by mistake."""
    with pytest.raises(Conflict, match="this home has never seen it, but delta:/data/orders knows") as refused:
        agreed(JobState(), other)
    assert "--new-life" in (refused.value.hint or "")
    assert refused.value.exit_code == 2
    assert agreed(JobState(), other, NEW_LIFE).new_life
    with pytest.raises(Conflict):
        agreed(JobState(), other, OLDER_HOME)


def test_rows_that_would_stand_there_twice_are_spoken_of() -> None:
    with pytest.raises(Conflict) as refused:
        agreed(JobState(), memory(published=BatchId(9)))
    assert "the rows in delta:/data/orders stay, so rows that are read again are duplicated" in (
        refused.value.hint or ""
    )


def test_a_new_life_is_newer_than_any_run_of_the_old_one() -> None:
    assert agreed(JobState(), memory(epoch=17, head=Sequence(40)), NEW_LIFE).above == 40


def test_a_heartbeat_that_the_other_life_left_does_not_stand_in_the_way_of_a_new_one(state: JobState) -> None:
    """It says nothing of its life. To answer one refusal led to the other, and back."""
    heartbeat = Memory("the heartbeat beside the journal", None, FencingEpoch(9), fingerprint("orders-8"))
    memories = [memory(life=THEIRS, epoch=9), heartbeat]
    agreement = agree(JobName("orders"), "file:///home", state, memories, NEW_LIFE)
    assert agreement.new_life
    assert not agreement.older_home
    assert agreement.above == 9
    with pytest.raises(Conflict, match="knows run 9"):
        agreed(state, heartbeat)


def test_another_life_is_refused(state: JobState) -> None:
    with pytest.raises(Conflict, match="another life is known elsewhere: delta:/data/orders knows run 4"):
        agreed(state, memory(THEIRS))
    assert agreed(state, memory(THEIRS), NEW_LIFE).new_life
    with pytest.raises(Conflict):
        agreed(state, memory(THEIRS), OLDER_HOME)


@pytest.mark.parametrize(
    ("ahead", "why"),
    [
        (memory(epoch=9), "knows run 9, the home's newest is run 4"),
        (memory(epoch=9, claim=None), "knows run 9, the home's newest is run 4"),
        (memory(life=None, epoch=5, claim=None), "knows run 5"),
        (memory(claim="of another history"), "knows another run 4 than the home does"),
        (memory(epoch=1, claim="of another history"), "knows another run 1"),
        (memory(epoch=2, claim="x"), "knows run 2, which the home's journal does not have"),
        (memory(head=Sequence(5)), "knows entry 5 of the journal, the home's newest is entry 4"),
        (memory(published=BatchId(7)), "shows batches up to 7, the home has a checkpoint at batch 6 and no entry"),
    ],
)
def test_a_home_that_knows_less_than_others_is_older(state: JobState, ahead: Memory, why: str) -> None:
    with pytest.raises(Conflict, match=f"older than what it is compared with: delta:/data/orders {why}") as refused:
        agreed(state, ahead)
    assert "--accept-older-home, which rewinds the output to batch 6" in (refused.value.hint or "")
    with pytest.raises(Conflict):
        agreed(state, ahead, NEW_LIFE)
    accepted = agreed(state, ahead, OLDER_HOME)
    assert accepted.older_home
    assert accepted.above >= max(ahead.epoch, ahead.head)


def test_runs_of_the_home_that_this_one_was_copied_from_are_no_conflict(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.journal.claim(
        lambda stamp: msgspec.structs.replace(_run(stamp), purpose="maintenance", next_sequence=Sequence(1_000_000))
    )
    history.run()
    for epoch in (1, 9):
        agreed(history.state(), memory(epoch=epoch, claim="of the source"))
    with pytest.raises(Conflict, match="knows run 1000001"):
        agreed(history.state(), memory(epoch=1_000_001))


def _run(stamp: Stamp) -> RunStarted:
    return RunStarted(
        **stamp,
        lineage="lineage",
        process=Process("x", 1),
        heartbeat_s=5.0,
        work="",
        holdfast="0",
    )


# --- what an entry abandoned ---


def test_output_behind_the_newest_barrier_is_no_conflict_where_the_home_has_the_plans_of_it(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run()
    history.complete(1, batch=3)
    shows_5 = memory(epoch=1, claim="orders-0", published=BatchId(5))
    for planned, right in ((BatchId(5), True), (BatchId(6), True), (BatchId(4), False), (None, False)):
        with nullcontext() if right else pytest.raises(Conflict, match="shows batches up to 5"):
            agree(JobName("orders"), "file:///home", history.state(), [shows_5], NOTHING, planned)


def test_a_run_that_shows_every_batch_may_have_shown_more_than_the_entry_that_gave_it_up_knows(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run(sink="delta:/data", plans="require")
    history.complete(1, batch=3)
    history._append(WentBack, chosen=CheckpointId(1), abandoned=(), asked="checkpoint 1", published=BatchId(8))
    agreed(history.state(), memory(epoch=1, claim="orders-0", published=BatchId(9)))
    history.complete(2, batch=4)
    with pytest.raises(Conflict):
        agreed(history.state(), memory(epoch=1, claim="orders-0", published=BatchId(9)))


def test_output_that_an_entry_gave_up_is_no_conflict_until_the_new_line_has_a_checkpoint(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run()
    history.complete(1, batch=3)
    history.complete(2, batch=6)
    history._append(
        WentBack, chosen=CheckpointId(1), abandoned=(CheckpointId(2),), asked="checkpoint 1", published=BatchId(8)
    )
    assert abandoned_but_shown(history.state()) == 8
    shows_8 = memory(epoch=1, claim="orders-0", published=BatchId(8))
    agreed(history.state(), shows_8)
    with pytest.raises(Conflict):
        agreed(history.state(), replace(shows_8, published=BatchId(9)))
    history.complete(3, batch=4)
    assert abandoned_but_shown(history.state()) is None
    with pytest.raises(Conflict, match="shows batches up to 8, the home has a checkpoint at batch 4"):
        agreed(history.state(), shows_8)


def test_entries_of_the_first_versions_explain_what_their_checkpoints_had(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run()
    history.complete(1, batch=3)
    history.complete(2, batch=6)
    history.damage(2)
    assert abandoned_but_shown(history.state()) == 6
