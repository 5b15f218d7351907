"""One grammar for all commands: the job as an argument, a checkpoint of it behind an @; old spellings beside it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.cli.reference import Reference, Typed, named, one_job, referred
from holdfast.errors import InvalidSettings
from holdfast.identifiers import CheckpointId, job_name, savepoint_name
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import RequestAnswered
from holdfast.repository.journal import read_entries
from holdfast.repository.mailbox import Request, read_request, remove_request
from holdfast.repository.state import JobState
from tests.patience import PATIENCE
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.work_files import write


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOLDFAST_DEBUG", "HOLDFAST_JOB", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOLDFAST_HOME", f"file://{tmp_path / 'home'}")


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A run elsewhere: checkpoint 1, savepoint `before-v2`, checkpoint 3."""
    history = History(tmp_path / "home", start=datetime.now(UTC) - timedelta(seconds=10))
    work = tmp_path / "work" / "1-1"
    blobs = Blobs(history.store, history.run())
    write(work, {"metadata": b'{"id":"1"}', "offsets/12": b"offsets", "commits/12": b"commits"})
    for id, name in ((1, None), (2, "before-v2"), (3, None)):
        write(work, {f"state/0/0/{id}.delta": b"more"})
        complete_with_bytes(history, id, work, blobs, name=name)
    history.beat()
    return history


@pytest.fixture
def stopped(history: History) -> History:
    history.end()
    return history


def document(capsys: pytest.CaptureFixture[str], line: str) -> Any:
    code = main([*line.split(), "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


@pytest.mark.parametrize(
    ("text", "job", "expected"),
    [
        ("orders", None, Reference("orders")),
        ("orders@42", None, Reference("orders", checkpoint=42)),
        ("orders@before-v2", None, Reference("orders", savepoint="before-v2")),
        ("@42", "orders", Reference("orders", checkpoint=42)),
        (None, "orders", Reference("orders")),
        ("orders", "refunds", Reference("orders")),
        ("orders@1", Typed("orders"), Reference("orders", checkpoint=1)),
    ],
)
def test_a_reference_names_a_job_and_perhaps_a_checkpoint(text: str | None, job: str | None, expected: object) -> None:
    assert referred(text, job) == expected


@pytest.mark.parametrize(
    ("text", "job", "why"),
    [
        (None, None, "no job is named"),
        ("@42", None, "no job is named"),
        ("orders", Typed("refunds"), "two jobs are named"),
        ("orders@", None, "must be the id of a checkpoint or the name of a savepoint"),
        ("orders@../x", None, "must be the id of a checkpoint or the name of a savepoint"),
        ("orders@1@2", None, "must be the id of a checkpoint or the name of a savepoint"),
        ("or/ders@1", None, "job='or/ders' is not valid"),
    ],
)
def test_what_names_nothing_is_refused(text: str | None, job: str | None, why: str) -> None:
    with pytest.raises(InvalidSettings, match=why):
        referred(text, job)


def test_a_command_about_a_whole_job_takes_no_checkpoint() -> None:
    with pytest.raises(InvalidSettings, match="about a job"):
        one_job("orders@42", None)


def test_the_name_of_a_new_savepoint_may_be_a_number_behind_its_job() -> None:
    assert named("orders@2026", None) == ("orders", "2026")
    assert named("v2", "orders") == ("orders", "v2")


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("status orders", "status --job orders"),
        ("checkpoints orders", "checkpoints --job orders"),
        ("events orders", "events --job orders"),
        ("savepoint list orders", "savepoint list --job orders"),
        ("show orders@2", "show 2 --job orders"),
        ("show orders@before-v2", "show 2 --job orders"),
        ("show orders", "show 3 --job orders"),
        ("verify orders@2", "verify --job orders --checkpoint 2"),
        ("verify orders@before-v2", "verify --job orders --checkpoint 2"),
        ("collect orders --dry-run", "collect --job orders --dry-run"),
    ],
)
def test_both_spellings_answer_the_same(
    stopped: History, capsys: pytest.CaptureFixture[str], new: str, old: str
) -> None:
    assert _timeless(document(capsys, new)) == _timeless(document(capsys, old))


def _timeless(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _timeless(value) for name, value in found.items() if name not in ("seconds_since_last_completed")}
    return [_timeless(item) for item in found] if isinstance(found, list) else found


def test_the_argument_goes_before_the_environment(
    stopped: History, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_JOB", "refunds")
    assert document(capsys, "status orders")["job"] == "orders"
    assert main(["status", "orders", "--job", "refunds"]) == 2
    assert "two jobs are named: orders and --job refunds" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", ["restore orders@before-v2 {dir}", "restore --job orders --savepoint before-v2 --to {dir}"]
)
def test_a_savepoint_is_restored_by_both_spellings(
    stopped: History, capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str
) -> None:
    assert document(capsys, line.format(dir=tmp_path / "restored"))["checkpoint"] == 2
    assert (tmp_path / "restored" / "state/0/0/2.delta").exists()
    assert not (tmp_path / "restored" / "state/0/0/3.delta").exists()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("restore orders", "no target directory is named"),
        ("restore orders {dir} --to {dir}", "two directories are named"),
        ("restore orders@2 {dir} --checkpoint 3", "two checkpoints are named"),
        ("restore {dir}", "is not valid"),
        ("copy orders@2 --savepoint before-v2 --to file://{dir}", "two checkpoints are named"),
        ("copy orders@2 --all --to file://{dir}", "--all excludes"),
        ("verify orders@2 --all", "exclude each other"),
        ("status", "no job is named"),
        ("show 0", "must be a whole number of at least 1"),
        ("stop orders@2", "about a job"),
        ("stop orders --savepoint ../x", "savepoint='../x' is not valid"),
    ],
)
def test_bad_input_is_refused_before_anything_is_touched(
    stopped: History, capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, why: str
) -> None:
    assert main(line.format(dir=tmp_path / "target").split()) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "target").exists()


def test_a_savepoint_is_named_and_deleted_behind_its_job(stopped: History, capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, "savepoint create orders@release --from 1")["name"] == "release"
    assert document(capsys, "savepoint delete orders@release")["checkpoint"] == 1


@contextmanager
def answering(history: History) -> Iterator[list[Request]]:
    """An owner that does what it is asked for: takes checkpoint 4, and stops on request."""
    asked: list[Request] = []
    over = Event()

    def serve(request: Request) -> None:
        asked.append(request)
        history.complete(4, batch=20, name=request.name)
        id = CheckpointId(4) if request.kind == "checkpoint" or request.name else None
        history.journal.append(lambda stamp: RequestAnswered(**stamp, request=request.id, checkpoint=id))
        remove_request(history.store, request)
        if request.kind == "stop":
            history.end("stopped on request")

    def look() -> None:
        while not over.wait(0.02):
            request = read_request(history.store)
            if request is not None and not asked:
                serve(request)

    thread = Thread(target=look)
    thread.start()
    try:
        yield asked
    finally:
        over.set()
        thread.join(PATIENCE)


def test_a_running_job_takes_a_checkpoint_now(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(history) as asked:
        found = document(capsys, "checkpoint orders")
    assert (found["id"], found["status"], found["barrier_batch_id"]) == (4, "completed", 20)
    assert [request.kind for request in asked] == ["checkpoint"]


@pytest.mark.parametrize("savepoint", [None, "last"])
def test_a_running_job_stops(history: History, capsys: pytest.CaptureFixture[str], savepoint: str | None) -> None:
    with answering(history) as asked:
        found = document(capsys, "stop orders" + (f" --savepoint {savepoint}" if savepoint else ""))
    assert (found["stopped"], found["checkpoint"]) == (True, 4)
    assert [(request.kind, request.name) for request in asked] == [("stop", savepoint)]


def test_a_job_that_does_not_run_is_stopped_already(stopped: History, capsys: pytest.CaptureFixture[str]) -> None:
    head = JobState.of(read_entries(stopped.store)).head
    assert document(capsys, "stop orders") | {"home": ""} == {
        "job": "orders",
        "home": "",
        "stopped": False,
        "checkpoint": 3,
    }
    assert main(["checkpoint", "orders"]) == 1
    assert main(["stop", "orders", "--savepoint", "last"]) == 1
    assert capsys.readouterr().err.count("is not running") == 2
    assert JobState.of(read_entries(stopped.store)).head == head


def test_a_name_that_was_typed_is_stored_as_a_plain_string() -> None:
    """msgspec encodes no subclass of str: a run with `--job` failed at its first entry."""
    assert type(job_name(Typed("orders"))) is str
    assert type(savepoint_name(Typed("v2"))) is str
