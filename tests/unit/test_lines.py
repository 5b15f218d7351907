"""Lines of batches: when one begins, what it is called, and which plans are needed."""

from pathlib import Path

import pytest

from holdfast.identifiers import BatchId, CheckpointId
from holdfast.repository.entries import CheckpointCorrupt, CheckpointRepaired, WentBack
from holdfast.repository.lines import line_folder, line_of, needed_after, plan_key, unneeded_plans
from holdfast.repository.names import is_foreign, is_plan
from tests.unit.job_histories import History


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History(tmp_path / "home")
    history.run()
    for id in range(1, 5):
        history.complete(id, batch=id * 10)
    return history


def test_a_job_begins_on_line_0_and_runs_do_not_change_it(history: History) -> None:
    history.run()
    history._append(CheckpointCorrupt, id=CheckpointId(4), detail="gone", passed_over=False)
    assert line_of(history.state()) == line_of(History(history.home, "new").state()) == 0


def test_going_back_begins_a_line(history: History) -> None:
    history._append(WentBack, chosen=CheckpointId(2), abandoned=(CheckpointId(3),), asked="checkpoint 2")
    assert line_of(history.state()) == history.state().head


def test_passing_over_a_checkpoint_begins_a_line_and_its_return_another(history: History) -> None:
    history._append(CheckpointCorrupt, id=CheckpointId(4), detail="gone", passed_over=True)
    first = line_of(history.state())
    assert first == history.state().head
    history._append(CheckpointRepaired, id=CheckpointId(4), detail="back", returns=True)
    assert line_of(history.state()) > first


def test_a_line_keeps_its_number_when_the_entry_that_began_it_is_folded_away(history: History) -> None:
    history._append(CheckpointCorrupt, id=CheckpointId(4), detail="gone", passed_over=True)
    line = line_of(history.state())
    history.complete(5, batch=35, line=line)
    history.retire(1, 2, 3, 4)
    state = history.state()
    dropped = frozenset(sequence for sequence, entry in state.sequences if isinstance(entry, CheckpointCorrupt))
    assert line_of(state.without(dropped)) == line


def test_plans_have_names_of_their_own(history: History) -> None:
    key = plan_key(line_folder(history.state()), BatchId(7))
    assert is_plan(key)
    assert not is_foreign(key)
    assert is_foreign("plans/7")
    assert line_folder(history.state()) != line_folder(History(history.home, "other").state())


def test_plans_are_needed_behind_the_oldest_checkpoint_that_a_recovery_may_begin_with(history: History) -> None:
    state = history.state()
    assert needed_after(state, 3) == 20
    assert needed_after(state, 5) is None, "it may begin anew"
    folder = line_folder(state)
    keys = [plan_key(folder, BatchId(batch)) for batch in (19, 20, 21)]
    assert unneeded_plans(keys, state, 3) == frozenset(keys[:2])
    assert unneeded_plans(keys, state, 5) == frozenset()


def test_plans_of_a_line_that_was_left_are_not_needed(history: History) -> None:
    key = plan_key(line_folder(history.state()), BatchId(41))
    history._append(WentBack, chosen=CheckpointId(2), abandoned=(CheckpointId(3),), asked="checkpoint 2")
    assert unneeded_plans([key], history.state(), 3) == {key}
