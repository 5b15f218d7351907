"""Going back in time within a job: once per request, for good, and never into a history that was abandoned."""

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.checkpoint.manifest import manifest_key
from holdfast.cli.main import main
from holdfast.errors import Corrupt, InvalidSettings, NotFound
from holdfast.identifiers import CheckpointId
from holdfast.repository.damage import mark_corrupt
from holdfast.repository.entries import WentBack
from holdfast.repository.going_back import AlreadyBack, GoBack, Wanted, decide
from holdfast.repository.journal import read_entries
from holdfast.repository.retention import entries_to_drop
from holdfast.settings import Settings
from tests.unit.churning_runs import JOB, ChurningRun, ManualClock, state_of
from tests.unit.job_histories import History


class Lives:
    """One run after another, on one host."""

    def __init__(self, root: Path) -> None:
        self.home, self._work = root / "home", root / "work"
        self.home.mkdir()
        self._clock = ManualClock()
        self._number = 0

    def run(self, **settings: object) -> ChurningRun:
        self._number += 1
        return ChurningRun(self.home, self._work, self._clock, self._number, retained=20, **settings)

    @property
    def went_back(self) -> list[WentBack]:
        return [entry for _, entry in state_of(self.home).sequences if isinstance(entry, WentBack)]


@pytest.fixture
def lives(tmp_path: Path) -> Lives:
    """Six batches, a checkpoint of each; the third is a savepoint."""
    lives = Lives(tmp_path)
    run = lives.run()
    run.batches(2)
    run.query.batch()
    run.runtime.request("savepoint", "third", lambda answer: None)
    run.wait(0.5)
    run.batches(3)
    run.stop()
    return lives


def newest_barrier(run: ChurningRun) -> int:
    return max(int(path.name) for path in (run.query.directory / "commits").glob("*"))


def test_the_query_resumes_at_the_savepoint_and_what_lies_behind_it_is_abandoned(lives: Lives) -> None:
    run = lives.run(from_savepoint="third")
    assert newest_barrier(run) == 2
    (went,) = lives.went_back
    savepoint = state_of(lives.home).savepoint("third")
    assert savepoint is not None
    assert (went.chosen, went.asked) == (savepoint.id, "savepoint third")
    assert state_of(lives.home).restorable()[0].barrier_batch_id == 2
    assert {state_of(lives.home).completed[id].barrier_batch_id for id in went.abandoned} == {3, 4, 5}
    run.batches(1)
    assert state_of(lives.home).restorable()[0].barrier_batch_id == 3


def test_the_same_arguments_again_do_not_go_back_again(lives: Lives) -> None:
    run = lives.run(from_savepoint="third")
    run.batches(2)
    run = lives.run(from_savepoint="third")  # the first one was killed
    assert newest_barrier(run) == 4
    assert len(lives.went_back) == 1


def test_not_even_before_the_first_checkpoint_of_the_new_line(lives: Lives) -> None:
    lives.run(from_savepoint="third")
    run = lives.run(from_savepoint="third")
    assert newest_barrier(run) == 2
    assert len(lives.went_back) == 1


def test_another_request_does_go_back(lives: Lives) -> None:
    lives.run(from_savepoint="third").batches(2)
    run = lives.run(from_checkpoint=2)
    assert newest_barrier(run) == 1
    assert [went.asked for went in lives.went_back] == ["savepoint third", "checkpoint 2"]


def test_an_abandoned_history_is_refused_and_nothing_changes(lives: Lives) -> None:
    newest = state_of(lives.home).restorable()[0].id
    lives.run(from_savepoint="third").stop()
    with pytest.raises(InvalidSettings, match="history that was abandoned"):
        lives.run(from_checkpoint=newest)
    assert len(lives.went_back) == 1
    assert state_of(lives.home).ended is not None, "a start that fails records its end"


def test_a_savepoint_that_does_not_exist_is_named(lives: Lives) -> None:
    with pytest.raises(NotFound, match="could not go back to savepoint fourth"):
        lives.run(from_savepoint="fourth")


def test_a_damaged_one_abandons_nothing(lives: Lives) -> None:
    savepoint = state_of(lives.home).savepoint("third")
    assert savepoint is not None
    (lives.home / "churn" / manifest_key(savepoint.manifest)).unlink()
    with pytest.raises(Corrupt, match="could not go back to savepoint third: it is damaged"):
        lives.run(from_savepoint="third")
    assert lives.went_back == []
    assert newest_barrier(lives.run()) == 5


def test_the_abandoned_line_goes_when_the_new_one_has_enough(lives: Lives) -> None:
    abandoned = [entry.id for entry in state_of(lives.home).restorable() if entry.barrier_batch_id > 2]
    run = lives.run(from_savepoint="third")
    run.stop()
    run = ChurningRun(lives.home, lives.home.parent / "work", run.clock, 9, retained=2)
    run.batches(1)
    assert not state_of(lives.home).retired & set(abandoned), "one new checkpoint is not enough"
    run.batches(1)
    assert set(abandoned) <= state_of(lives.home).retired
    assert state_of(lives.home).savepoint("third") is not None


# --- deciding, pure ---


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History(tmp_path / "home")
    history.run()
    history.complete(1, batch=3)
    history.complete(2, batch=6, name="two")
    history.complete(3, batch=9)
    return history


def test_nothing_wanted_is_nothing_decided(history: History) -> None:
    assert decide(history.state(), Wanted()) is None


def test_by_name_or_by_id(history: History) -> None:
    state = history.state()
    assert decide(state, Wanted(savepoint="two")) == GoBack(state.completed[CheckpointId(2)], "savepoint two")
    assert decide(state, Wanted(checkpoint=1)) == GoBack(state.completed[CheckpointId(1)], "checkpoint 1")


def test_a_request_that_was_carried_out_stays_so_when_its_savepoint_is_deleted(history: History) -> None:
    history._append(WentBack, chosen=CheckpointId(2), abandoned=(CheckpointId(3),), asked="savepoint two")
    assert decide(history.state(), Wanted(savepoint="two")) == AlreadyBack(CheckpointId(2))
    history.delete("two", 2)
    assert decide(history.state(), Wanted(savepoint="two")) == AlreadyBack(CheckpointId(2))


def test_a_name_that_was_given_again_is_another_request(history: History) -> None:
    history._append(WentBack, chosen=CheckpointId(2), abandoned=(CheckpointId(3),), asked="savepoint two")
    history.delete("two", 2)
    history.complete(4, batch=7, name="two")
    answer = decide(history.state(), Wanted(savepoint="two"))
    assert isinstance(answer, GoBack)
    assert answer.to.id == 4


def test_retired_and_damaged_ones_are_refused(history: History) -> None:
    history.retire(1)
    mark_corrupt(history.journal, CheckpointId(3), "flipped", passed_over=False)
    with pytest.raises(NotFound, match="checkpoint 1"):
        decide(history.state(), Wanted(checkpoint=1))
    with pytest.raises(Corrupt, match="it is damaged: flipped"):
        decide(history.state(), Wanted(checkpoint=3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"from_savepoint": "a", "from_checkpoint": 1}, "exclude each other"),
        ({"from_savepoint": "../x"}, "from_savepoint='../x' is not valid"),
        ({"from_checkpoint": 0}, "from_checkpoint=0 is not valid"),
        ({"from_checkpoint": "7"}, "from_checkpoint='7' is not valid"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_touched(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        Settings(**options)  # type: ignore[arg-type]


def test_names_survive_trimming_with_their_checkpoints(history: History) -> None:
    history.delete("two", 2)
    history.name("other", 1)
    again = type(history.state()).of(read_entries(history.store))
    assert again.savepoint("two") is None
    assert again.savepoint("other").id == 1  # type: ignore[union-attr]


class TestRollback:
    """`holdfast rollback`: the journal remembers it until a start has gone there."""

    def ended(self, lives: Lives, *words: str) -> int:
        return main(["rollback", *words, "--home", f"file://{lives.home}"])

    def test_the_next_start_goes_back_and_those_after_it_go_on(self, lives: Lives) -> None:
        assert self.ended(lives, f"{JOB}@third") == 0
        savepoint = state_of(lives.home).savepoint("third")
        assert savepoint is not None
        run = lives.run()
        assert newest_barrier(run) == 2
        assert [went.chosen for went in lives.went_back] == [savepoint.id]
        run.batches(2)
        run.stop()
        assert newest_barrier(lives.run()) == 4
        assert len(lives.went_back) == 1

    def test_to_the_same_point_twice_is_twice(self, lives: Lives) -> None:
        for count in (1, 2):
            assert self.ended(lives, JOB, "--to", "2") == 0
            run = lives.run()
            assert [went.chosen for went in lives.went_back] == [2] * count
            run.batches(1)
            run.stop()

    def test_cancelled_or_tried_only_nothing_goes_back(self, lives: Lives, capsys: pytest.CaptureFixture[str]) -> None:
        before = state_of(lives.home).head
        assert self.ended(lives, f"{JOB}@2", "--dry-run") == 0
        assert (
            "would go back to checkpoint 2 at batch 1, and abandons checkpoints 3, 4, 5, 6" in capsys.readouterr().out
        )
        assert state_of(lives.home).head == before
        assert self.ended(lives, f"{JOB}@2") == 0
        assert main(["status", JOB, "--home", f"file://{lives.home}"]) == 0
        assert "the next start goes back to checkpoint 2" in capsys.readouterr().out
        assert self.ended(lives, JOB, "--cancel") == 0
        assert newest_barrier(lives.run()) == 5
        assert lives.went_back == []

    @pytest.mark.parametrize(
        ("words", "code", "why"),
        [
            ((f"{JOB}@99",), 3, "it does not exist, or is no longer kept"),
            ((f"{JOB}@v3",), 3, "it does not exist, or is no longer kept"),
            ((JOB,), 2, "no checkpoint is named"),
            ((f"{JOB}@2", "--cancel"), 2, "--cancel excludes a checkpoint"),
            ((f"{JOB}@2", "--to", "3"), 2, "two checkpoints are named"),
        ],
    )
    def test_bad_input_changes_nothing(
        self, lives: Lives, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, why: str
    ) -> None:
        before = state_of(lives.home).head
        assert self.ended(lives, *words) == code
        assert why in capsys.readouterr().err
        assert state_of(lives.home).head == before

    def test_a_job_that_runs_is_stopped_first(self, lives: Lives, capsys: pytest.CaptureFixture[str]) -> None:
        history = History(lives.home, "refunds")
        history.run()
        history.complete(1)
        history.beat()
        assert self.ended(lives, "refunds@1") == 5
        assert "Try: holdfast stop refunds" in capsys.readouterr().err

    def test_a_fold_keeps_a_request_that_nobody_has_carried_out(self, lives: Lives) -> None:
        assert self.ended(lives, f"{JOB}@2") == 0
        state = state_of(lives.home)
        asked = state.rollback
        assert asked is not None
        padded = replace(state, sequences=[*state.sequences, *state.sequences[:1] * 10_000])
        assert asked.sequence not in entries_to_drop(padded, ())
