"""`holdfast savepoint`: naming and deleting on a job that is not running, asking one that is, and every way to fail."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.repository.damage import mark_corrupt
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.journal import read_entries
from holdfast.repository.mailbox import read_request
from holdfast.repository.state import JobState
from tests.unit.job_histories import History


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOLDFAST_DEBUG", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOLDFAST_HOME", f"file://{tmp_path / 'home'}")
    monkeypatch.setenv("HOLDFAST_JOB", "orders")


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A living run elsewhere with two checkpoints and a savepoint."""
    history = History(tmp_path / "home", start=datetime.now(UTC) - timedelta(seconds=10))
    history.run()
    history.complete(1, batch=3)
    history.complete(2, batch=6, name="old")
    history.complete(3, batch=9)
    history.beat()
    return history


@pytest.fixture
def stopped(history: History) -> History:
    history.end()
    return history


def state_of(history: History) -> JobState:
    return JobState.of(read_entries(history.store))


def succeeding(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(arguments)
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def failing(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert 1 <= len(captured.err.splitlines()) <= 2, captured.err
    assert "Traceback" not in captured.err
    return code, captured.err


def test_a_checkpoint_that_exists_gets_a_name(stopped: History, capsys: pytest.CaptureFixture[str]) -> None:
    out = succeeding(capsys, "savepoint", "create", "release", "--from", "1", "--json")
    document: dict[str, Any] = json.loads(out)
    assert (document["id"], document["kind"], document["name"]) == (1, "savepoint", "release")
    assert state_of(stopped).savepoint("release").id == 1  # type: ignore[union-attr]
    assert "release" in succeeding(capsys, "savepoint", "list")
    assert state_of(stopped).ended is not None, "the command has recorded its end"


def test_the_same_command_again_changes_nothing(stopped: History, capsys: pytest.CaptureFixture[str]) -> None:
    succeeding(capsys, "savepoint", "create", "release", "--from", "1")
    succeeding(capsys, "savepoint", "create", "release", "--from", "1")
    named = [entry for entry in read_entries(stopped.store) if type(entry).__name__ == "SavepointNamed"]
    assert len(named) == 1


def test_a_deleted_savepoint_is_a_checkpoint_like_others(stopped: History, capsys: pytest.CaptureFixture[str]) -> None:
    out = succeeding(capsys, "savepoint", "delete", "old", "--json")
    assert json.loads(out)["checkpoint"] == 2
    state = state_of(stopped)
    assert state.savepoint("old") is None
    assert isinstance(state.completed[2], CheckpointCompleted)  # type: ignore[index]
    assert state.completed[2].checkpoint_kind == "checkpoint"  # type: ignore[index]
    assert json.loads(succeeding(capsys, "savepoint", "list", "--json"))["savepoints"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("create", "x", "--from", "9"), 3, "could not make checkpoint 9 savepoint 'x': it is not kept"),
        (("create", "old", "--from", "1"), 2, "checkpoint 2 has that name"),
        (("create", "x", "--from", "2"), 2, "it is savepoint 'old' already"),
        (("create", "../x", "--from", "1"), 2, "savepoint='../x' is not valid"),
        (("create", "x"), 1, "is not running"),
        (("create", "x", "--stop"), 1, "is not running"),
        (("create", "x", "--from", "1", "--stop"), 2, "exclude each other"),
        (("create", "x", "--timeout", "soon"), 2, "timeout='soon' is not valid"),
        (("delete", "x"), 3, "could not delete savepoint 'x': there is none"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(
    stopped: History, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, message: str
) -> None:
    head = state_of(stopped).head
    found, error = failing(capsys, "savepoint", *arguments)
    assert found == code
    assert message in error
    assert state_of(stopped).head == head


def test_a_damaged_checkpoint_gets_no_name(stopped: History, capsys: pytest.CaptureFixture[str]) -> None:
    mark_corrupt(stopped.journal, 1, "flipped", passed_over=False)  # type: ignore[arg-type]
    code, error = failing(capsys, "savepoint", "create", "x", "--from", "1")
    assert code == 4
    assert "it is damaged: flipped" in error


def test_an_owner_that_does_not_answer_is_waited_for_and_the_request_withdrawn(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    head = state_of(history).head
    code, error = failing(capsys, "savepoint", "create", "x", "--timeout", "300ms")
    assert code == 1
    assert "did not answer within 0.3 s" in error
    assert "Try: holdfast status" in error
    assert read_request(history.store) is None
    assert state_of(history).head == head, "only the owner writes"


def test_a_taken_name_is_refused_before_anybody_is_asked(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = failing(capsys, "savepoint", "create", "old")
    assert code == 2
    assert "checkpoint 2 has that name" in error
