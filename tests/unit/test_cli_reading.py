"""The commands that show a home: what they print, where, and how they end."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.checkpoint.manifest import digest_of
from holdfast.cli.main import main
from holdfast.cli.observing import examine
from holdfast.repository.entries import Failure, Requests
from holdfast.repository.journal import entry_key
from holdfast.repository.ownership import current_process
from holdfast.repository.views import Observation
from holdfast.storage.interface import ObjectStore
from tests.patience import PATIENCE
from tests.unit.job_histories import ELSEWHERE, EXPIRED, History


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_HOME", "HOLDFAST_JOB", "HOLDFAST_DEBUG", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def history(home: Path) -> History:
    """A living run elsewhere with two checkpoints, a failure, and one in progress; its clock is the real one."""
    history = History(home, start=datetime.now(UTC) - timedelta(seconds=10))
    history.run()
    history.complete(1, batch=3)
    history.complete(2, batch=6, name="before-upgrade")
    history.fail(3, EXPIRED)
    history.start(4, batch=9)
    history.beat()
    return history


def succeeding(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(arguments)
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(succeeding(capsys, *arguments, "--json"))


def failing(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert 1 <= len(captured.err.splitlines()) <= 2
    assert "Traceback" not in captured.err
    return code, captured.err


def of(home: Path, job: str = "orders") -> tuple[str, ...]:
    return ("--home", f"file://{home}", "--job", job)


def test_jobs_lists_every_job_with_its_state(home: Path, history: History, capsys: pytest.CaptureFixture[str]) -> None:
    other = History(home, "clicks")
    other.run()
    other.end()
    (home / "not-a-job").mkdir()
    listed = document(capsys, "jobs", "--home", f"file://{home}")
    assert listed["home"] == f"file://{home}"
    assert [(job["job"], job["state"], job["running"]) for job in listed["jobs"]] == [
        ("clicks", "ended", False),
        ("orders", "running", True),
    ]
    words = succeeding(capsys, "jobs", "--home", f"file://{home}")
    assert "build-3 pid 4711" in words
    assert "2 at batch 6" in words


def test_jobs_of_an_empty_home_is_an_empty_list(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, "jobs", "--home", str(home)) == {"home": str(home), "jobs": []}
    assert main(["jobs", "--home", str(home)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "holdfast run" in captured.err


def test_jobs_shows_the_others_when_one_cannot_be_read(
    home: Path, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = History(home, "broken")
    broken.run()
    (home / "broken" / entry_key(1)).write_bytes(b"{}")
    assert main(["jobs", "--home", str(home), "--json"]) == 4
    captured = capsys.readouterr()
    assert [job["job"] for job in json.loads(captured.out)["jobs"]] == ["orders"]
    assert "'broken'" in captured.err


def test_the_jobs_of_a_remote_home_are_read_side_by_side(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a", "b", "c"]
    for name in names:
        History(home, name).run()
    together = Barrier(len(names))

    def waiting(home: str, job: str, store: ObjectStore) -> Observation:
        together.wait(PATIENCE)
        return examine(home, job, store)

    monkeypatch.setattr("holdfast.cli.jobs.is_local", lambda home: False)
    monkeypatch.setattr("holdfast.cli.jobs.examine", waiting)
    assert [job["job"] for job in document(capsys, "jobs", "--home", str(home))["jobs"]] == names


def test_status_names_the_owner_and_the_last_good_checkpoint(
    home: Path, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    status = document(capsys, "status", *of(home))
    assert status["job"] == "orders"
    assert status["running"] is True
    assert status["owner"]["host"] == "build-3"
    assert status["owner"]["application_id"] == "app-1"
    assert status["owner"]["heartbeat_at"].endswith("Z")
    assert status["last_completed"]["id"] == 2
    assert status["consecutive_failures"] == 1
    assert 0 < status["seconds_since_last_completed"] < 600
    assert status["findings"] == []
    words = succeeding(capsys, "status", *of(home))
    assert "build-3, pid 4711" in words
    assert "savepoint 2 'before-upgrade' at batch 6" in words
    assert "expired: took longer than 10m" in words
    assert "Try: raise the timeout" in words


def test_status_shows_what_the_last_checkpoint_asked_of_the_home(
    home: Path, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Requests(put=18, get=13, list=0, delete=2, bytes_out=5000, bytes_in=400, seconds=60.0)
    history.complete(5, batch=12, requests=asked)
    assert document(capsys, "status", *of(home))["last_completed"]["requests"] == msgspec.to_builtins(asked)
    assert "18 PUT, 13 GET, 2 DELETE in 1m 00s" in succeeding(capsys, "status", *of(home))


def test_restarts_of_the_query_are_shown_with_cause_duration_and_what_to_change(
    home: Path, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "restart" not in succeeding(capsys, "status", *of(home))
    history.restart(number=2)
    assert document(capsys, "status", *of(home))["last_restart"]["duration_ms"] == 1400
    words = succeeding(capsys, "status", *of(home))
    assert "2 restarts in this run, the last " in words
    assert "ago, took 1.4s" in words
    assert "user code: ValueError: a poisonous row" in words
    assert "Try: correct the pipeline's code" in words
    assert document(capsys, "checkpoints", *of(home))["restarts"][0]["cause"] == "user code"
    row = next(line for line in succeeding(capsys, "checkpoints", *of(home)).splitlines() if "poisonous" in line)
    assert [cell.strip() for cell in row.split("  ") if cell.strip()][1:4] == ["1", "1.4s", "user code"]


def test_restarts_are_shown_before_there_is_a_checkpoint(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fresh = History(home, "fresh")
    fresh.run()
    fresh.restart(duration_ms=None)
    assert main(["checkpoints", *of(home, "fresh")]) == 0
    captured = capsys.readouterr()
    assert "failed" in captured.out
    assert "no checkpoint yet" in captured.err


def test_status_of_a_run_whose_heartbeat_is_stale_is_not_running(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History(home, start=datetime.now(UTC) - timedelta(hours=1))
    history.run()
    history.beat()
    assert document(capsys, "status", *of(home))["running"] is False
    assert "not running" in succeeding(capsys, "status", *of(home))
    assert main(["status", *of(home), "--running"]) == 1
    assert "is not running" in capsys.readouterr().err
    history.now = datetime.now(UTC)
    history.beat()
    assert main(["status", *of(home), "--running"]) == 0


def test_status_of_a_run_that_is_known_dead_on_this_host_is_not_running_though_its_heartbeat_is_fresh(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = current_process()
    history = History(home)
    history.run(type(here)(here.host, 2**22 + 1, here.boot_id, here.pid_namespace, 1))
    history.beat()
    assert document(capsys, "status", *of(home))["state"] == "lost"


def test_status_shows_the_identity_and_is_no_successor_itself(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command in the pod of the owner, whose environment it has."""
    monkeypatch.setenv("HOLDFAST_IDENTITY", "orders-0")
    history = History(home)
    history.run(replace(ELSEWHERE, identity="orders-0"))
    history.beat()
    shown = document(capsys, "status", *of(home))
    assert (shown["running"], shown["owner"]["identity"]) == (True, "orders-0")
    assert "pid 4711, identity orders-0, run 1" in succeeding(capsys, "status", *of(home))


def test_checkpoints_are_newest_first_with_failures_and_reasons(
    home: Path, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = document(capsys, "checkpoints", *of(home))
    assert (listed["job"], listed["home"]) == ("orders", f"file://{home}")
    assert [(item["id"], item["status"]) for item in listed["checkpoints"]] == [
        (4, "in_progress"),
        (3, "failed"),
        (2, "completed"),
        (1, "completed"),
    ]
    failure = listed["checkpoints"][1]["failure"]
    assert (failure["reason"], failure["message"], failure["counted"]) == ("expired", "took longer than 10m", True)
    words = succeeding(capsys, "checkpoints", *of(home))
    headings = "id status kind batch triggered duration size new shards reason"
    assert " ".join(words.splitlines()[0].split()) == headings
    assert "before-upgrade" in words
    assert "expired: took longer than 10m" in words


def test_checkpoints_limit(home: Path, history: History, capsys: pytest.CaptureFixture[str]) -> None:
    assert [c["id"] for c in document(capsys, "checkpoints", *of(home), "--limit", "2")["checkpoints"]] == [4, 3]
    assert main(["checkpoints", *of(home), "--limit", "2"]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 3
    assert "2 older" in captured.err


def test_a_narrow_terminal_gets_whole_numbers_and_short_reasons(
    home: Path, history: History, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = succeeding(capsys, "checkpoints", *of(home)).splitlines()
    assert max(len(line) for line in lines) <= 80
    assert "…" not in "".join(lines)
    assert lines[2].split()[:2] == ["3", "failed"]
    assert lines[2].endswith("expired")


def test_output_that_is_no_terminal_has_no_colour_and_is_not_wrapped(
    home: Path, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    history.fail(5, Failure("storage", "word " * 100, True))
    words = succeeding(capsys, "checkpoints", *of(home))
    assert "\x1b" not in words
    assert len(words.splitlines()) == 6


def test_show_pictures_phases_shards_and_bytes(
    home: Path, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = document(capsys, "show", "1", *of(home))
    assert (shown["id"], shown["status"]) == (1, "completed")
    assert shown["phases"] == [{"name": "plan", "ms": 12}, {"name": "copy", "ms": 1100}, {"name": "journal", "ms": 88}]
    assert shown["bytes_reused"] == 1_500_000
    assert shown["slowest_shards"][0]["id"] == "state/0/3"
    words = succeeding(capsys, "show", "1", *of(home))
    bars = {line.split()[-3]: line.count("█") for line in words.splitlines() if "ms  " in line or "copy" in line}
    assert max(bars.values()) == 30
    assert "230 files" in words
    assert "new 500 kB" in words


def test_show_of_a_failed_checkpoint_says_why(home: Path, history: History, capsys: pytest.CaptureFixture[str]) -> None:
    words = succeeding(capsys, "show", "3", *of(home))
    assert "expired: took longer than 10m" in words
    assert "3 of 4 acknowledged" in words


def test_savepoint_list(home: Path, history: History, capsys: pytest.CaptureFixture[str]) -> None:
    listed = document(capsys, "savepoint", "list", *of(home))
    assert [(item["name"], item["id"]) for item in listed["savepoints"]] == [("before-upgrade", 2)]
    assert "before-upgrade" in succeeding(capsys, "savepoint", "list", *of(home))


def test_home_and_job_come_from_the_environment(
    home: Path, history: History, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    monkeypatch.setenv("HOLDFAST_JOB", "orders")
    assert document(capsys, "status")["job"] == "orders"


@pytest.mark.parametrize("command", ["status", "checkpoints", "show 1", "savepoint list", "verify", "restore --to x"])
def test_a_job_that_does_not_exist_exits_3_and_names_those_that_do(
    home: Path, history: History, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    code, message = failing(capsys, *command.split(), *of(home, "nope"))
    assert code == 3
    assert "'nope'" in message
    assert "Try: one of: orders" in message


def test_a_checkpoint_that_does_not_exist_exits_3(
    home: Path, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    code, message = failing(capsys, "show", "99", *of(home))
    assert code == 3
    assert "checkpoint 99" in message


@pytest.mark.parametrize("command", ["jobs", "status --job a", "verify --job a"])
def test_a_home_that_does_not_exist_exits_6(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, message = failing(capsys, *command.split(), "--home", f"file://{tmp_path}/nowhere")
    assert code == 6
    assert f"{tmp_path}/nowhere" in message
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("job", ["../other", "a/b", "..", "", "home.json"])
def test_a_job_name_that_is_no_plain_name_exits_2(
    home: Path, history: History, capsys: pytest.CaptureFixture[str], job: str
) -> None:
    assert failing(capsys, "status", "--home", str(home), "--job", job)[0] == 2


@pytest.mark.parametrize(
    "command",
    [
        "jobs",
        "status --home /x",
        "show --home /x --job a",
        "show x --home /x --job a",
        "jobs --home /x --bogus",
        "nope",
    ],
)
def test_wrong_usage_exits_2_in_two_lines(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, message = failing(capsys, *command.split())
    assert code == 2
    assert message.splitlines()[1].startswith("Try: holdfast")


def test_a_home_of_an_unknown_kind_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(capsys, "jobs", "--home", "ftp://example/x")[0] == 2


@pytest.mark.parametrize("command", ["jobs", "status --job orders", "verify --job orders"])
def test_a_home_written_by_a_newer_format_is_a_clear_error(
    home: Path, history: History, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    path = home / "orders" / entry_key(1)
    newer = path.read_bytes().rpartition(b',"checksum"')[0].replace(b'"format":2', b'"format":99') + b"}"
    path.write_bytes(newer[:-1] + b',"checksum":"%b"}' % digest_of(newer).encode())
    code, message = failing_or_listing(capsys, *command.split(), "--home", str(home))
    assert code == 2
    assert "format 99" in message
    assert "upgrade holdfast" in message


def failing_or_listing(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(arguments)
    return code, capsys.readouterr().err


def test_no_arguments_show_the_help_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "checkpoints" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert succeeding(capsys, "--version").startswith("holdfast ")


def test_an_unexpected_error_is_one_line_and_exits_1(
    home: Path,
    history: History,
    tracebacks: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(seen: object) -> None:
        raise RuntimeError("boom\nwith a second line")

    monkeypatch.setattr("holdfast.cli.status.judged", broken)
    code, message = failing(capsys, "status", *of(home))
    assert code == 1
    assert message.startswith("holdfast: internal error: RuntimeError: boom with")
    (kept,) = tracebacks.glob("holdfast-*")
    assert f"Try: report it with {kept}" in message
    monkeypatch.setenv("HOLDFAST_DEBUG", "1")
    assert main(["status", *of(home)]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_exits_130(
    home: Path, history: History, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(seen: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.cli.status.judged", interrupted)
    assert main(["status", *of(home)]) == 130
