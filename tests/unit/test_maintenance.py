"""A command that writes owns the job while it writes, like a run; afterwards it is as if no run had been."""

import dataclasses
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.errors import Fenced, OwnedByAnotherRun
from holdfast.identifiers import AttemptId, JobName, Sequence
from holdfast.repository.entries import CheckpointCorrupt, Process, RunEnded
from holdfast.repository.folding import clear_folded
from holdfast.repository.journal import Journal, MakeEntry, read_entries
from holdfast.repository.ownership import Claimable, current_process, read_heartbeat, standing
from holdfast.repository.state import JobState
from holdfast.repository.views import job_status
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.commands.maintenance import maintenance
from holdfast.runtime.run.claiming import run_started
from holdfast.runtime.run.environment import Environment
from tests.unit.churning_runs import ManualClock
from tests.unit.job_histories import ELSEWHERE, History

JOB = JobName("orders")


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A run that made two checkpoints."""
    history = History(tmp_path / "home", start=datetime.now(UTC) - timedelta(seconds=3))
    history.run()
    history.beat()
    history.complete(1, batch=3)
    history.complete(2, batch=6)
    return history


def marking(journal: Journal, id: int) -> MakeEntry:
    return lambda stamp: CheckpointCorrupt(**stamp, id=id, detail="flipped")


def state_of(history: History) -> JobState:
    return JobState.of(read_entries(history.store))


def maintained(history: History, doing: str = "verify", around: Environment | None = None, on_conflict="refuse"):  # type: ignore[no-untyped-def]
    return maintenance(JOB, f"file://{history.home}", history.store, doing, around, on_conflict=on_conflict)


def watching() -> Environment:
    clock = ManualClock()
    return dataclasses.replace(Environment.real(), clock=clock, sleep=clock.sleep)


def test_it_claims_writes_and_records_its_end(history: History) -> None:
    history.end()
    with maintained(history) as journal:
        assert state_of(history).run.purpose == "maintenance"  # type: ignore[union-attr]
        journal.append(marking(journal, 2))
    state = state_of(history)
    assert list(state.corrupt) == [2]
    assert isinstance(state.ended, RunEnded)
    assert isinstance(standing(state, read_heartbeat(history.store), current_process()), Claimable)


def test_it_is_refused_while_the_owner_shows_life_and_the_owner_is_named(history: History) -> None:
    before = state_of(history).head
    refused = pytest.raises(OwnedByAnotherRun, match=r"could not verify job 'orders' .* host build-3, pid 4711")
    with refused as caught, maintained(history):
        pytest.fail("it must not begin")
    assert "it has not recorded its end" in str(caught.value)
    assert state_of(history).head == before


def test_it_takes_no_job_from_a_run_whose_identity_it_has(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command in the pod of the owner, whose environment it has."""
    history.run(replace(ELSEWHERE, identity="orders-0"))
    history.beat()
    monkeypatch.setenv("HOLDFAST_IDENTITY", "orders-0")
    with pytest.raises(OwnedByAnotherRun, match="identity orders-0"), maintained(history):
        pytest.fail("it must not begin")


def test_a_run_that_vanished_is_replaced_and_fenced_when_somebody_says_so(history: History) -> None:
    with maintained(history, around=watching(), on_conflict="takeover"):
        pass
    with pytest.raises(Fenced, match="maintenance 4 on host"):
        history.complete(3, batch=9)


def test_a_start_meanwhile_is_refused_and_told_that_it_is_maintenance(history: History) -> None:
    history.end()
    refused = pytest.raises(OwnedByAnotherRun, match="is being maintained by a command on host")
    with maintained(history), refused, maintained(history, "start"):
        pytest.fail("it must not begin")


def elsewhere() -> Environment:
    attempts = itertools.count()
    return Environment(
        SystemClock(), Process("other", 7), lambda: AttemptId(f"other-{next(attempts)}"), lambda: 0.5, lambda step: None
    )


def test_whoever_takes_the_job_from_it_fences_it(history: History) -> None:
    history.end()
    with maintained(history) as journal:
        history.journal.load()
        history.run()
        with pytest.raises(Fenced, match="run 6 on host build-3"):
            journal.append(marking(journal, 2))
    assert state_of(history).corrupt == {}
    assert state_of(history).ended is None, "it does not end the run that replaced it"


def test_work_that_failed_still_records_its_end(history: History) -> None:
    history.end()
    with pytest.raises(ZeroDivisionError), maintained(history, "collect garbage of"):
        raise ZeroDivisionError
    ended = state_of(history).ended
    assert ended is not None
    assert ended.reason == "could not collect garbage of the job"


def test_the_pipelines_last_run_stays_the_one_that_the_next_run_continues(history: History) -> None:
    history.end()
    for _ in range(3):
        with maintained(history):
            pass
    history.journal.load()
    history.run()
    previous = history.state().previous_run
    assert previous is not None
    assert previous.fencing_epoch == 1


def test_another_run_in_between_does_count(history: History) -> None:
    history.end()
    history.run()
    history.end()
    with maintained(history):
        pass
    history.journal.load()
    history.run()
    assert history.state().previous_run.fencing_epoch == 5  # type: ignore[union-attr]


def test_the_status_speaks_of_the_pipeline_and_names_the_maintenance_only_while_it_lasts(history: History) -> None:
    history.end("stopped")
    with maintained(history):
        history.journal.load()
        meanwhile = job_status(history.seen())
    history.journal.load()
    afterwards = job_status(history.seen(alive=False))
    for status in (meanwhile, afterwards):
        assert (status.state, status.running, status.ended_reason) == ("ended", False, "stopped")
        assert status.owner is not None
        assert status.owner.pid == 4711
    assert meanwhile.maintenance is not None
    assert meanwhile.maintenance.pid == current_process().pid
    assert afterwards.maintenance is None


def test_a_vanished_pipeline_stays_lost_after_maintenance(history: History) -> None:
    with maintained(history, around=watching(), on_conflict="takeover"):
        pass
    history.journal.load()
    assert job_status(history.seen(alive=False)).state == "lost"


def test_a_claim_in_a_place_that_a_fold_emptied_does_not_hide_the_owner(history: History) -> None:
    late = Journal(history.store, new_attempt=lambda: AttemptId("late"), now=lambda: history.now)
    late.load()
    for batch in range(3):
        history.start(3 + batch)
    history.journal.fold(frozenset(), Sequence(0))
    clear_folded(history.store, Sequence(4))
    claim = run_started(late, elsewhere(), 5.0, "", "maintenance")
    with pytest.raises(Fenced, match="moved on"):
        late.claim(claim)
    history.start(6)
    state = state_of(history)
    assert state.fencing_epoch == 1
    assert state.run is not None
    assert state.run.host == "build-3"
