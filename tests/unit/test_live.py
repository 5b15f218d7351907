"""L1: what a run says of itself on its host, when the home cannot be told; and what a probe costs."""

import json
import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from holdfast.cli.main import main
from holdfast.repository.entries import Process
from holdfast.repository.ownership import current_process
from holdfast.repository.self_report import PAST_ALARMS, SelfReport, read_local_state
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.reports.alarms import Alarms, AtOnce
from holdfast.storage.metered import Meter, MeteredStore
from holdfast.storage.urls import open_store
from tests.unit.churning_runs import JOB, ChurningRun
from tests.unit.here import Here
from tests.unit.job_histories import History


@pytest.fixture
def here(tmp_path: Path) -> Here:
    here = Here(tmp_path)
    here.run.batches(2)
    return here


def test_a_state_file_is_for_the_user_alone(here: Here) -> None:
    assert stat.S_IMODE(here.state_file.stat().st_mode) == 0o600
    assert here.state().report.last_completed == 2
    files = [path.name for path in here.state_file.parent.iterdir() if path.is_file()]
    assert sorted(files) == ["job.json", "state.json"]


def test_failures_that_the_home_cannot_be_told_are_told_on_the_host(
    here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    here.fail(6)
    assert here.probe() == 0, "it is alive"
    words = capsys.readouterr().out
    assert "alive" in words
    assert "6 in a row" in words
    assert "storage_full: could not write" in words
    assert "checkpoints_failing (critical)" in words
    assert here.probe("--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["live"], told["source"], told["consecutive_failures"]) == (True, "process", 6)
    assert told["last_failure"]["reason"] == "storage_full"
    assert [(alarm["code"], alarm["severity"]) for alarm in told["alarms"]] == [("checkpoints_failing", "critical")]


def test_when_the_home_heals_the_alarm_is_gone(here: Here) -> None:
    here.fail(4)
    here.run.store.full = False
    while here.state().report.consecutive_failures:
        here.run.batches(1)
    assert here.state().report.alarms == ()


def test_an_alarm_that_is_over_is_told_of_by_later_runs_too(here: Here, tmp_path: Path) -> None:
    here.fail(4)
    began = here.state().report.alarms[0].since
    here.run.store.full = False
    while here.state().report.consecutive_failures:
        here.run.batches(1)
    (past,) = here.state().report.past_alarms
    assert (past.code, past.severity, past.since) == ("checkpoints_failing", "critical", began)
    assert past.since < past.until
    here.run.wait(130)
    here.run.stop()
    later = ChurningRun(here.home, tmp_path / "elsewhere", here.clock, seed=1, process=current_process())
    told = read_local_state(tmp_path / "elsewhere" / JOB / "state.json")
    assert told is not None
    assert told.report.past_alarms == (past,)
    later.stop()


def test_what_is_told_of_alarms_that_are_over_is_bounded() -> None:
    alarms = Alarms("orders", (), SystemClock(), AtOnce)
    for number in range(2 * PAST_ALARMS):
        alarms.raise_alarm(f"code-{number}", "warning", "x" * 10_000, "wait")
        alarms.clear(f"code-{number}", "it is over")
    assert [each.code for each in alarms.past] == [f"code-{n}" for n in range(PAST_ALARMS, 2 * PAST_ALARMS)]
    assert sum(len(each.message) for each in alarms.past) < 2_000


def test_a_loop_that_does_not_move_is_not_alive(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    here.change(uptime_s=time.monotonic() - 1000)
    assert here.probe() == 1
    printed = capsys.readouterr()
    assert "not alive" in printed.out
    assert "is there, but holdfast in it has not moved for" in printed.err


def test_a_process_that_is_gone_is_not_alive(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    here.change(process=msgspec.structs.replace(current_process(), pid=2**22 + 1))
    assert here.probe() == 1
    assert "not alive" in capsys.readouterr().out


def test_a_run_that_ended_says_so(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    here.run.stop()
    assert here.state().report.phase == "ended"
    assert here.probe() == 1
    assert "it has ended: stopped" in capsys.readouterr().err


def test_the_home_need_not_be_there(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    here.home.rename(here.home.with_name("elsewhere"))
    assert here.probe() == 0
    assert "process" in capsys.readouterr().out


def test_a_state_file_of_another_boot_says_nothing(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    here.change(process=Process("here", 1, boot_id="before"), report=SelfReport(consecutive_failures=9))
    here.probe("--json")
    assert json.loads(capsys.readouterr().out)["source"] == "heartbeat"


def test_a_full_disk_has_room_for_the_next_state(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    here.fail(2)
    assert here.state().report.consecutive_failures == 2
    assert here.state_file.stat().st_size == 16_384


class Counting:
    """What is asked of homes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.meter = Meter()
        monkeypatch.setattr("holdfast.cli.live.open_store", lambda home: MeteredStore(open_store(home), self.meter))

    @property
    def requests(self) -> int:
        usage = self.meter.usage
        return usage.get + usage.put + usage.list + usage.delete


def test_a_probe_costs_no_request_on_the_host_of_the_run(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch)
    assert here.probe() == 0
    assert counting.requests == 0


def test_a_probe_from_elsewhere_costs_one_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    history = History(tmp_path / "home", start=datetime.now(UTC) - timedelta(seconds=8))
    history.run()
    for id in range(1, 200):
        history.complete(id, took_s=0.01)
    history.now = datetime.now(UTC)
    history.beat()
    counting = Counting(monkeypatch)
    arguments = ["status", "--live", "--home", str(tmp_path / "home"), "--job", "orders"]
    assert main(arguments) == 0
    assert counting.requests == 1
    assert "process 4711 on build-3 showed its last heartbeat" in capsys.readouterr().out
    history.wait(-3600)
    history.beat()
    assert main(arguments) == 1
    assert counting.requests == 2
    assert "not alive" in capsys.readouterr().out


def test_the_home_leads_to_the_state_file(here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also who does not know where the work directory is hears what the process says."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    here.fail(2)
    counting = Counting(monkeypatch)
    assert main(["status", "--live", "--home", f"file://{here.home}", "--job", JOB]) == 0
    assert counting.requests == 1


def test_a_heartbeat_carries_what_the_run_says_of_itself(here: Here) -> None:
    here.run.wait(130)
    beat = json.loads((here.home / JOB / "owner.json").read_bytes())
    assert beat["report"]["last_completed"] == 2
    assert beat["state_file"] == str(here.state_file)


def test_status_of_a_home_that_is_gone_shows_what_the_process_says(
    here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    here.fail(4)
    here.home.rename(here.home.with_name("elsewhere"))
    assert here.command("status", "--work", str(here.work)) == 6
    printed = capsys.readouterr()
    assert "churn  alive" in printed.out
    assert "4 in a row" in printed.out
    assert printed.err
    assert here.command("status", "--work", str(here.work), "--json") == 6
    told = json.loads(capsys.readouterr().out)
    assert (told["live"], told["error"]["exit_code"]) == (True, 6)
    here.home.mkdir()
    assert here.command("status", "--work", str(here.work)) == 3, "a mount is gone: an empty directory is there"
    assert "churn  alive" in capsys.readouterr().out


def test_secrets_of_urls_are_in_neither_file(here: Here) -> None:
    url = "s3://me:hunter2@bucket/x?signature=hunter3"
    here.run.runtime._storage.alarms.raise_alarm("publish_failing", "critical", f"no answer of {url}", f"look at {url}")
    here.run.wait(130)
    written = here.state_file.read_text() + (here.home / JOB / "owner.json").read_text()
    assert written.count("publish_failing") == 2
    assert "hunter" not in written
