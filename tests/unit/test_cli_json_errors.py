"""`--json` is one JSON document, errors included; and every command ends with the documented exit code."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from tests.unit.job_histories import History

COMMANDS = {
    "jobs": "jobs",
    "status": "status --job orders",
    "checkpoints": "checkpoints --job orders",
    "show": "show 1 --job orders",
    "restore": "restore --job orders --to {tmp}/restored",
    "verify": "verify --job orders",
    "collect": "collect --job orders",
    "copy": "copy --job orders --to file://{tmp}/other",
    "doctor": "doctor --job orders",
    "savepoint create": "savepoint create release --from 1 --job orders",
    "savepoint list": "savepoint list --job orders",
    "savepoint delete": "savepoint delete release --job orders",
    "run": "run {tmp}/pipeline.py --job orders",
}
OF_A_JOB = [name for name in COMMANDS if name not in ("jobs", "run")]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_HOME", "HOLDFAST_JOB", "HOLDFAST_DEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.py").write_text("def orders(spark):\n    return 1\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def ended(capsys: pytest.CaptureFixture[str], home: str, command: str, tmp_path: Path) -> tuple[int, Any, str]:
    code = main([*COMMANDS[command].format(tmp=tmp_path).split(), "--home", home, "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out), captured.err


def assert_failed(code: int, expected: int, document: Any, messages: str) -> None:
    assert code == expected, messages
    error = document["error"]
    assert sorted(error) == ["exit_code", "hint", "message"]
    assert error["exit_code"] == code
    assert f"holdfast: {' '.join(error['message'].split())}" in messages
    assert error["hint"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_home_of_an_unknown_kind_is_2(
    capsys: pytest.CaptureFixture[str], home: Path, tmp_path: Path, command: str
) -> None:
    code, document, messages = ended(capsys, "sftp://host/x", command, tmp_path)
    assert_failed(code, 2, document, messages)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_home_that_is_not_there_is_6(
    capsys: pytest.CaptureFixture[str], home: Path, tmp_path: Path, command: str
) -> None:
    code, document, messages = ended(capsys, f"file://{tmp_path}/absent", command, tmp_path)
    assert_failed(code, 6, document, messages)


@pytest.mark.parametrize("command", OF_A_JOB)
def test_a_job_that_is_not_there_is_3(
    capsys: pytest.CaptureFixture[str], home: Path, tmp_path: Path, command: str
) -> None:
    code, document, messages = ended(capsys, f"file://{home}", command, tmp_path)
    assert_failed(code, 3, document, messages)


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_usage_is_2(capsys: pytest.CaptureFixture[str], home: Path, tmp_path: Path, command: str) -> None:
    code = main([*COMMANDS[command].format(tmp=tmp_path).split(), "--home", str(home), "--json", "--bogus"])
    captured = capsys.readouterr()
    assert_failed(code, 2, json.loads(captured.out), captured.err)


@pytest.mark.parametrize("command", ["jobs", "status", "checkpoints", "show", "savepoint list"])
def test_a_good_end_has_no_error(capsys: pytest.CaptureFixture[str], home: Path, tmp_path: Path, command: str) -> None:
    history = History(home)
    history.run()
    history.complete(1)
    code, document, _ = ended(capsys, f"file://{home}", command, tmp_path)
    assert code == 0
    assert "error" not in document


def test_what_was_found_and_what_failed_are_one_document(
    capsys: pytest.CaptureFixture[str], home: Path, tmp_path: Path
) -> None:
    history = History(home)
    history.run()
    history.end()
    code = main(["status", "--job", "orders", "--home", f"file://{home}", "--running", "--json"])
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert_failed(code, 1, document, captured.err)
    assert document["job"] == "orders"


def test_without_json_nothing_changes(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert main(["status", "--job", "orders", "--home", f"file://{home}"]) == 3
    assert capsys.readouterr().out == ""
    assert main(["jobs", "--home", f"file://{home}", "--", "--json"]) == 2
    assert capsys.readouterr().out == ""


def test_an_error_of_ours_is_a_document_too(
    capsys: pytest.CaptureFixture[str], home: Path, tracebacks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("x")

    monkeypatch.setattr("holdfast.cli.jobs.open_store", broken)
    code = main(["jobs", "--home", f"file://{home}", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == document["error"]["exit_code"] == 1
    assert "internal error: ZeroDivisionError" in document["error"]["message"]
    assert str(tracebacks) in document["error"]["hint"]
