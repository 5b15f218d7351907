"""L1: absence of news is news. What the reading commands say of a job that is not well, and how they end."""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.cli.main import main
from holdfast.identifiers import CheckpointId
from holdfast.repository.blobs import Blobs
from holdfast.repository.damage import load_manifest
from holdfast.repository.entries import WentBack
from holdfast.repository.ownership import current_process, read_heartbeat, write_heartbeat
from holdfast.repository.self_report import LocalState, ReportedAlarm, SelfReport, write_local_state
from tests.unit.here import Here
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.work_files import write

READING = [("status",), ("checkpoints",), ("jobs",), ("savepoint", "list")]


@pytest.fixture
def here(tmp_path: Path) -> Here:
    here = Here(tmp_path)
    here.run.batches(2)
    return here


def read(capsys: pytest.CaptureFixture[str], home: Path, *command: str, job: str = "orders") -> tuple[int, str, str]:
    of = () if command[0] == "jobs" else ("--job", job)
    code = main([*command, "--home", f"file://{home}", *of])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def document(capsys: pytest.CaptureFixture[str], home: Path, *command: str, job: str = "orders") -> Any:
    return json.loads(read(capsys, home, *command, "--json", job=job)[1])


def codes(status: Any) -> list[str]:
    return [finding["code"] for finding in status["findings"]]


# The home is full, the process knows.


def test_a_full_home_six_failures_and_a_critical_alarm_are_what_status_says(
    here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here.command("status", "--running") == 0, "while it is well"
    capsys.readouterr()
    here.fail(6)
    assert here.command("status", "--running") == 1
    printed = capsys.readouterr()
    assert "churn  running, critical" in printed.out
    assert "6 since the last good one" in printed.out
    assert "storage_full: could not write" in printed.out
    assert "checkpoints-failing: the home has no space left" in printed.out
    assert "is not healthy: checkpoints-failing" in printed.err
    assert here.command("status", "--json") == 0, "not asked for its health"
    status = json.loads(capsys.readouterr().out)
    assert (status["running"], status["health"], status["consecutive_failures"]) == (True, "critical", 6)
    assert status["last_failure"]["failure"]["reason"] == "storage_full"
    assert [(alarm["code"], alarm["severity"]) for alarm in status["alarms"]] == [("checkpoints_failing", "critical")]


@pytest.mark.parametrize("command", READING)
def test_every_reading_command_has_an_exit_code_for_health(
    here: Here, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert read(capsys, here.home, *command, "--health", job="churn")[0] == 0
    here.fail(6)
    assert read(capsys, here.home, *command, job="churn")[0] == 0
    code, _, error = read(capsys, here.home, *command, "--health", job="churn")
    assert code == 1
    assert "checkpoints-failing" in error
    assert read(capsys, here.home, "doctor", job="churn")[0] == 1


def test_the_history_says_what_could_not_be_recorded(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert read(capsys, here.home, "checkpoints", job="churn")[2] == ""
    here.fail(3)
    said = read(capsys, here.home, "checkpoints", job="churn")[2]
    assert "3 failures in a row, not all of them recorded in the home; the last one: storage_full" in said


def test_a_probe_that_is_asked_for_health_ends_by_it(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert here.probe("--health") == 0
    here.fail(6)
    assert here.probe() == 0, "alive is alive"
    capsys.readouterr()
    assert here.probe("--health") == 1
    assert "checkpoints_failing" in capsys.readouterr().err


def test_a_home_that_hears_nothing_of_a_living_process(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    beat = read_heartbeat(here.run.store)
    assert beat is not None
    late = msgspec.structs.replace(beat, heartbeat_at=datetime.now(UTC) - timedelta(hours=1))
    write_heartbeat(here.run.store, late)
    status = document(capsys, here.home, "status", job="churn")
    assert (status["running"], status["health"]) == (True, "critical")
    assert codes(status) == ["home-not-written"]


def test_a_process_that_is_there_and_does_not_move(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    here.change(uptime_s=time.monotonic() - 1000)
    status = document(capsys, here.home, "status", job="churn")
    assert (status["running"], codes(status)) == (True, ["process-silent"])


def test_a_run_that_ended_in_failure_is_not_well_and_one_that_was_stopped_is(
    here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    here.run.stop()
    assert read(capsys, here.home, "status", "--health", job="churn")[0] == 0
    assert read(capsys, here.home, "status", "--running", job="churn")[0] == 1


def test_the_end_of_a_run_says_whether_it_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = Here(tmp_path, restart_attempts=0)
    here.run.batches(1)
    here.run.query.die("ValueError: a poisonous row")
    here.run.wait(30)
    assert here.run.over
    code, out, _ = read(capsys, here.home, "status", "--health", job="churn")
    assert code == 1
    assert "run-failed" in out


# Nobody is there.


@pytest.fixture
def gone(tmp_path: Path) -> History:
    """The owner is gone for five hours, without a word. Of its checkpoints 2 is abandoned, 4 lacks an object."""
    history = History(tmp_path / "home", start=datetime.now(UTC) - timedelta(hours=5))
    blobs = Blobs(history.store, history.run())
    for id in (1, 2, 3, 4):
        write(tmp_path / "work", {"commits/12": b"v1\n%d" % id, "state/0/0/1.delta": bytes([id]) * 2_000_000})
        complete_with_bytes(history, id, tmp_path / "work", blobs)
        if id == 2:
            history._append(WentBack, chosen=CheckpointId(1), abandoned=(CheckpointId(2),), asked="checkpoint 1")
    history.beat()
    large_object(history, 4).unlink()
    return history


def large_object(history: History, id: int) -> Path:
    """With the state of this checkpoint alone."""
    manifest = load_manifest(history.store, history.journal.state.completed[CheckpointId(id)])
    (key,) = (file.key for file in manifest.files() if file.path.startswith("state/"))
    return history.home / "orders" / key


@pytest.mark.parametrize("command", [*READING, ("doctor",)])
def test_an_owner_gone_for_five_hours_is_reported(
    gone: History, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    flag = () if command == ("doctor",) else ("--health",)
    code, out, error = read(capsys, gone.home, *command, *flag)
    assert code == 1
    assert "owner-gone" in out + error


def test_the_doctor_finds_the_owner_gone_and_the_newest_checkpoint_damaged(
    gone: History, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, gone.home, "doctor")["findings"]
    assert [(finding["code"], finding["severity"]) for finding in found] == [
        ("owner-gone", "critical"),
        ("checkpoint-damaged", "critical"),
    ]
    assert "5.0 hours ago" in found[0]["cause"]
    assert "the newest usable one is 3" in found[1]["cause"]


def test_status_says_what_a_start_would_go_on_from(gone: History, capsys: pytest.CaptureFixture[str]) -> None:
    status = document(capsys, gone.home, "status")
    assert (status["state"], status["health"]) == ("lost", "critical")
    assert (status["last_completed"]["id"], status["last_completed"]["usable"]) == (4, False)
    assert status["last_usable"]["id"] == 3
    words = read(capsys, gone.home, "status")[1]
    assert "not usable, damaged: blobs/" in words
    assert "last good   checkpoint 3" in words
    assert "4 at batch 12, damaged" in read(capsys, gone.home, "jobs")[1]


def test_each_checkpoint_is_usable_or_not_because(gone: History, capsys: pytest.CaptureFixture[str]) -> None:
    gone.retire(1)
    gone.damage(3)
    gone.fail(5)
    listed = document(capsys, gone.home, "checkpoints")["checkpoints"]
    assert not any(item["usable"] for item in listed)
    assert [(item["id"], item["status"], item["unusable_because"].partition(":")[0]) for item in listed] == [
        (5, "failed", "failed"),
        (4, "completed", "damaged"),
        (3, "completed", "abandoned"),
        (2, "completed", "abandoned"),
        (1, "retired", "retired"),
    ]
    rows = read(capsys, gone.home, "checkpoints")[1].splitlines()[1:]
    assert [row.split()[1] for row in rows] == ["failed", "damaged", "abandoned", "abandoned", "retired"]
    assert read(capsys, gone.home, "show", "4", "--health")[0] == 1
    assert "usable      no, damaged" in read(capsys, gone.home, "show", "4")[1]
    assert "no checkpoint is usable" in read(capsys, gone.home, "status")[1]


def test_a_manifest_that_is_gone_and_an_object_that_was_cut_off_are_seen(
    gone: History, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = gone.journal.state.completed[CheckpointId(4)].manifest
    (gone.home / "orders" / "manifests" / manifest).unlink()
    large_object(gone, 3).write_bytes(b"cut off")
    status = document(capsys, gone.home, "status")
    assert "is gone" in status["last_completed"]["corrupt"]
    assert status["last_usable"]["id"] == 1
    listed = document(capsys, gone.home, "checkpoints")["checkpoints"]
    assert "has 7 bytes of 2000000" in next(item for item in listed if item["id"] == 3)["corrupt"]


# Somebody is there, and nothing happens.


def running(tmp_path: Path, *, minutes: float, **report: Any) -> History:
    """A run elsewhere, whose newest checkpoint is so old; its heartbeat is fresh."""
    history = History(tmp_path / "home", start=datetime.now(UTC) - timedelta(minutes=minutes))
    history.run(interval_s=60.0)
    history.complete(1, batch=7, took_s=0.1)
    history.now = datetime.now(UTC)
    history.beat(report=SelfReport(**report) if report else None)
    return history


def test_a_checkpoint_is_late_by_the_interval_of_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also when there are too few to guess the interval from."""
    history = running(tmp_path, minutes=8.2)
    code, out, _ = read(capsys, history.home, "status", "--health")
    assert code == 1
    assert "no checkpoint for 8 intervals of 60.0s" in out.replace("1.0min", "60.0s")


def test_one_that_is_a_little_late_is_a_warning_and_none_is_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = running(tmp_path, minutes=4)
    status = document(capsys, history.home, "status")
    assert (status["health"], codes(status)) == ("warning", ["checkpoint-overdue"])
    assert status["interval_s"] == 60.0
    assert read(capsys, history.home, "status", "--health")[0] == 0


def test_a_source_that_is_silent_makes_no_checkpoint_late(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The process says that no batch came behind the newest checkpoint."""
    history = running(tmp_path, minutes=60, query_runs=True, batch=7)
    assert document(capsys, history.home, "status")["health"] == "well"
    history.beat(report=SelfReport(query_runs=True, batch=8))
    assert document(capsys, history.home, "status")["health"] == "critical"


def test_an_alarm_is_heard_from_other_hosts_through_the_heartbeat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alarm = ReportedAlarm(
        code="publish_failing", severity="critical", message="the sink is gone", hint="mend it", at=datetime.now(UTC)
    )
    history = running(tmp_path, minutes=1, batch=7, alarms=(alarm,))
    status = document(capsys, history.home, "status")
    assert (status["health"], codes(status)) == ("critical", ["publish-failing"])
    assert "the sink is gone" in read(capsys, history.home, "status")[1]


def test_a_process_of_this_host_that_is_gone_is_gone_however_fresh_its_heartbeat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History(tmp_path / "home", start=datetime.now(UTC) - timedelta(seconds=2))
    history.run(process=msgspec.structs.replace(current_process(), pid=2**22 + 1))
    history.complete(1, took_s=0.1)
    history.beat()
    status = document(capsys, history.home, "status")
    assert (status["running"], codes(status)) == (False, ["owner-gone"])


def test_a_process_in_another_container_of_this_host_decides_about_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody sees it from here, and the home cannot be written: its state file is on a volume that both have."""
    there = msgspec.structs.replace(current_process(), pid=7, pid_namespace="pid:[1]")
    history = History(tmp_path / "home", start=datetime.now(UTC) - timedelta(minutes=5))
    history.run(process=there, state_file=str(tmp_path / "state.json"))
    history.complete(1, took_s=0.1)
    history.beat()
    run = history.state().run
    assert run is not None
    state = LocalState(
        job="orders",
        home=f"file://{history.home}",
        process=there,
        fencing_epoch=run.fencing_epoch,
        claim=run.attempt,
        started_at=run.at,
        written_at=datetime.now(UTC),
        uptime_s=time.monotonic(),
        heartbeat_s=600.0,
        interval_s=60.0,
        report=SelfReport(query_runs=True),
    )
    assert document(capsys, history.home, "status")["state"] == "lost"
    write_local_state(tmp_path / "state.json", state)
    status = document(capsys, history.home, "status")
    assert (status["state"], codes(status)) == ("running", ["home-not-written"])
