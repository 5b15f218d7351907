"""Who owns a job: politeness by heartbeat, truth by journal, and jobs that never meet."""

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.cli.observing import refuse_if_owned
from holdfast.errors import Fenced, OwnedByAnotherRun
from holdfast.identifiers import JobName
from holdfast.repository.entries import Process
from holdfast.repository.jobs import job_names
from holdfast.repository.ownership import Claimable, Held, Unseen, current_process, read_heartbeat, standing
from holdfast.storage.local import LocalStore
from tests.unit.churning_runs import ChurningRun, ManualClock, state_of
from tests.unit.job_histories import History

HOURS = (-26.0, -3.0, 3.0, 26.0)


@pytest.mark.parametrize("hours", HOURS)
def test_whatever_the_clocks_say_the_one_that_was_taken_over_writes_nothing_more(tmp_path: Path, hours: float) -> None:
    now = datetime.now(UTC)
    owner = History(tmp_path / "home", start=now + timedelta(hours=hours))
    owner.run()
    owner.beat()
    other = History(tmp_path / "home", start=now, attempts="other")
    other.journal.load()
    other.run()
    other.complete(1)
    with pytest.raises(Fenced):
        owner.complete(1)
    assert set(other.state().completed) == {1}


def test_a_process_that_is_seen_alive_holds_the_job_and_is_named(tmp_path: Path) -> None:
    history = History(tmp_path / "home", start=datetime.now(UTC) - timedelta(days=2))
    alive = current_process()
    history.run(alive)
    history.beat("app-7")
    assert isinstance(standing(history.state(), read_heartbeat(history.store), alive), Held)
    with pytest.raises(
        OwnedByAnotherRun, match=rf"host {alive.host}, pid {alive.pid}, application app-7, run 1, started 20"
    ) as held:
        refuse_if_owned(f"file://{history.home}", JobName("orders"))
    assert "--on-conflict takeover" in str(held.value)


POD = Process("orders-0", 1, boot_id="node-1", pid_namespace="pid:[1]", started_ticks=10, identity="orders-0")


@pytest.mark.parametrize("shown", [True, False], ids=["heartbeat", "no heartbeat yet"])
@pytest.mark.parametrize(
    ("successor", "claimable"),
    [
        pytest.param(replace(POD, boot_id="node-2", started_ticks=99), True, id="same name on another node"),
        pytest.param(replace(POD, pid_namespace="pid:[2]", started_ticks=99), True, id="same name in a new container"),
        pytest.param(replace(POD, boot_id="node-2", identity="orders-1"), False, id="another name"),
        pytest.param(replace(POD, boot_id="node-2", identity=""), False, id="no name"),
    ],
)
def test_the_next_life_of_an_identity_does_not_wait(
    tmp_path: Path, successor: Process, claimable: bool, shown: bool
) -> None:
    history = History(tmp_path / "home")
    history.run(POD)
    if shown:
        history.beat()
    answer = standing(history.state(), read_heartbeat(history.store), successor)
    assert isinstance(answer, Claimable if claimable else Unseen)


def test_an_identity_given_to_two_living_processes_makes_no_successor(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    alive = current_process("orders-0")
    history.run(alive)
    history.beat()
    second = replace(alive, pid=alive.pid + 1, started_ticks=alive.started_ticks + 1)
    assert isinstance(standing(history.state(), read_heartbeat(history.store), second), Held)
    with pytest.raises(OwnedByAnotherRun, match=rf"pid {alive.pid}, identity orders-0, application app-1"):
        refuse_if_owned(f"file://{history.home}", JobName("orders"), "orders-0")


def test_runs_without_an_identity_are_not_each_others_successors(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run(replace(POD, identity=""))
    nobody = replace(POD, boot_id="node-2", identity="")
    assert isinstance(standing(history.state(), None, nobody), Unseen)


def test_a_run_stalled_across_a_trim_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.repository.retention.HISTORY_KEPT", 2)
    (tmp_path / "home").mkdir()
    clock = ManualClock()
    stalled = ChurningRun(tmp_path / "home", tmp_path / "one", clock, 1)
    stalled.batches(2)
    newer = ChurningRun(tmp_path / "home", tmp_path / "two", clock, 2)
    newer.batches(12)
    sequences = [sequence for sequence, _ in state_of(tmp_path / "home").sequences]
    assert sequences != list(range(1, sequences[-1] + 1)), "the journal was trimmed"
    stalled.query.batch()
    stalled.wait(2.0)
    assert isinstance(stalled.failure, Fenced)
    late = [entry for _, entry in state_of(tmp_path / "home").sequences if entry.sequence > sequences[-1]]
    assert late == []


def test_jobs_whose_names_begin_alike_do_not_meet(tmp_path: Path) -> None:
    names = ["a", "ab", "a.b", "a-b", "a_b", "A"]
    histories = {name: History(tmp_path / "home", job=name) for name in names}
    for name, history in histories.items():
        history.run()
        for id in range(1, 1 + len(name)):
            history.complete(id)
    assert sorted(job_names(LocalStore(tmp_path / "home"))) == sorted(names)
    for name, history in histories.items():
        assert len(history.journal.load().completed) == len(name)
        keys = [item.key for item in history.store.list("journal/")]
        assert len(keys) == 1 + len(name)
    for one, other in itertools.permutations(names, 2):
        histories[one].journal.load()
        histories[one].run()  # a claim of one
        histories[other].complete(50 + names.index(one))  # fences none of the others
