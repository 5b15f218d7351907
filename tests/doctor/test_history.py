"""Findings from a job's history: each is there when the numbers say so, with the value to try, and only then."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.finding import Finding
from holdfast.history import history_findings
from holdfast.identifiers import CheckpointId
from holdfast.repository.entries import (
    CheckpointCorrupt,
    Failure,
    PhaseDuration,
    QueryRestarted,
    Requests,
    Retention,
    ShardSummary,
)
from tests.unit.job_histories import EXPIRED, History

THROTTLED = Failure("storage_throttled", "503 SlowDown", True, "raise interval")
VANISHED = Failure("files_vanished", "state/0/1/17.zip is gone", True, "")


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History(tmp_path / "home", start=datetime.now(UTC) - timedelta(hours=2))
    history.run()
    history.beat()
    return history


def checkpoints(history: History, count: int, *, took_s: float = 1.0, every_s: float = 60.0, **fields: Any) -> None:
    """`count` of them, `every_s` from trigger to trigger, each ten batches on."""
    first = history.journal.state.last_checkpoint + 1
    for id in range(first, first + count):
        history.complete(id, batch=10 * id, took_s=took_s, **fields)
        history.wait(every_s - took_s)


def found(history: History, code: str) -> Finding | None:
    return next((finding for finding in history_findings(history.seen()) if finding.code == code), None)


def the(history: History, code: str) -> Finding:
    finding = found(history, code)
    assert finding is not None, [each.code for each in history_findings(history.seen())]
    assert finding.evidence
    assert all(evidence.source and evidence.text for evidence in finding.evidence)
    return finding


def test_a_healthy_job_has_no_finding(history: History) -> None:
    checkpoints(history, 12)
    assert [finding for finding in history_findings(history.seen()) if finding.severity != "info"] == []


def test_a_job_that_never_ran_has_no_finding(tmp_path: Path) -> None:
    assert history_findings(History(tmp_path / "home").seen(alive=False)) == ()


def test_checkpoints_that_fill_their_interval(history: History) -> None:
    checkpoints(
        history,
        8,
        took_s=40,
        phases=(PhaseDuration("planning", 100), PhaseDuration("copying", 39_000), PhaseDuration("sealing", 90)),
    )
    finding = the(history, "checkpoints-near-interval")
    assert finding.severity == "warning"
    assert finding.fix == ('interval="2m"', "parallelism=8")
    assert "67% of the 1.0min" in finding.cause


def test_checkpoints_that_grow_towards_their_interval(history: History) -> None:
    for took in range(4, 22):
        checkpoints(history, 1, took_s=took)
    finding = the(history, "checkpoints-growing")
    assert 'interval="1m"' in finding.fix
    assert found(history, "checkpoints-near-interval") is None


def test_spark_deletes_almost_as_fast_as_is_copied(history: History) -> None:
    first = history.journal.state.last_checkpoint + 1
    for id in range(first, first + 8):
        history.complete(id, batch=200 * id, took_s=20)
        history.wait(40)
    finding = the(history, "little-headroom")
    assert finding.severity == "warning"
    assert "spark.sql.streaming.minBatchesToRetain=300" in finding.fix


def test_files_that_vanished_mean_too_little_headroom(history: History) -> None:
    history.fail(1, VANISHED)
    assert "spark.sql.streaming.minBatchesToRetain=200" in the(history, "little-headroom").fix


def test_a_home_that_answers_slowly(history: History) -> None:
    checkpoints(history, 6, phases=(PhaseDuration("copying", 200), PhaseDuration("sealing", 6_100)))
    assert 'storage_deadline="2m"' in the(history, "store-slow").fix


def test_a_slow_line_to_the_home(history: History) -> None:
    checkpoints(
        history,
        6,
        took_s=20,
        bytes_new=20_000_000,
        phases=(PhaseDuration("copying", 19_000), PhaseDuration("sealing", 10)),
    )
    finding = the(history, "upload-slow")
    assert "1.1 MB a second" in finding.cause
    assert "parallelism=16" in finding.fix


def test_requests_that_cost_too_much(history: History) -> None:
    asked = Requests(put=900, get=100, list=0, delete=0, bytes_out=1, bytes_in=1, seconds=60.0)
    checkpoints(history, 6, requests=asked)
    seen = dataclasses.replace(history.seen(), home="s3://bucket/home")
    finding = next(each for each in history_findings(seen) if each.code == "requests-expensive")
    assert finding.severity == "info"
    assert finding.fix == ('interval="10m"',)


@pytest.mark.parametrize(
    ("size", "code", "line"),
    [
        (9_000_000, "shard-skewed", "# salt the skewed key, or aggregate it in two steps"),
        (400_000, "shard-slow", "parallelism=8"),
    ],
)
def test_one_shard_that_holds_up_the_others(history: History, size: int, code: str, line: str) -> None:
    shards = (
        ShardSummary("state/0/3", 8_000, size, 90_000, 12),
        ShardSummary("state/0/1", 900, 400_000, 90_000, 12),
        ShardSummary("control", 20, 900, 900, 4),
    )
    checkpoints(history, 6, took_s=9, slowest=shards)
    finding = the(history, code)
    assert line in finding.fix
    assert finding.cause.startswith("state/0/3 took 8.0s, the next one 0.9s")


def test_retention_that_reaches_back_minutes(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run(retention=Retention(retained=10))
    checkpoints(history, 10)
    assert "keep_hourly=24" in the(history, "retention-short").fix
    history.run(retention=Retention(retained=10, keep_hourly=24))
    assert found(history, "retention-short") is None


def test_failures_in_a_row_by_their_most_frequent_reason(history: History) -> None:
    checkpoints(history, 6)
    history.fail(7, EXPIRED, took_s=600)
    assert found(history, "checkpoints-failing") is None
    history.fail(8, EXPIRED, took_s=600)
    finding = the(history, "checkpoints-failing")
    assert (finding.severity, finding.count) == ("critical", 2), "twenty intervals without a checkpoint"
    assert 'timeout="20m"' in finding.fix
    history.fail(9, THROTTLED)
    history.fail(10, EXPIRED, took_s=600)
    assert the(history, "checkpoints-failing").severity == "critical"
    checkpoints(history, 1)
    assert found(history, "checkpoints-failing") is None


def test_an_overdue_checkpoint_is_a_consequence_of_those_that_fail(history: History) -> None:
    checkpoints(history, 8)
    for id in range(9, 13):
        history.fail(id, took_s=600)
    finding, *others = history_findings(history.seen())
    assert (finding.code, finding.severity) == ("checkpoints-failing", "critical")
    assert [effect.code for effect in finding.consequences] == ["checkpoint-overdue"]
    assert "checkpoint-overdue" not in {other.code for other in others}


def test_a_checkpoint_that_is_overdue(history: History) -> None:
    checkpoints(history, 6)
    history.wait(60)
    assert found(history, "checkpoint-overdue") is None
    history.wait(100)
    assert the(history, "checkpoint-overdue").severity == "warning"
    history.wait(600)
    assert the(history, "checkpoint-overdue").severity == "critical"


def test_damaged_checkpoints(history: History) -> None:
    checkpoints(history, 3)
    history._append(CheckpointCorrupt, id=CheckpointId(3), detail="blobs/aa has another digest", passed_over=False)
    assert the(history, "checkpoint-damaged").severity == "critical"
    checkpoints(history, 1)
    assert the(history, "checkpoint-damaged").severity == "warning"


def test_a_query_that_is_restarted_again_and_again(history: History) -> None:
    for attempt in range(3):
        history.wait(5)
        history._append(QueryRestarted, cause="SparkException", message="Task 3 failed", attempt_number=attempt + 1)
    finding = the(history, "restart-loop")
    assert finding.severity == "critical"
    assert "3 restarts within an hour" in finding.cause
    history.wait(4000)
    assert found(history, "restart-loop") is None


def test_status_shows_findings(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints(history, 6)
    history.fail(7, EXPIRED, took_s=600)
    history.fail(8, EXPIRED, took_s=600)
    history.now = datetime.now(UTC)
    history.beat()
    of = ("--home", f"file://{history.home}", "--job", "orders")
    assert main(("status", *of, "--json")) == 0
    status = json.loads(capsys.readouterr().out)
    assert [each["code"] for each in status["findings"]][:1] == ["checkpoints-failing"]
    assert {"code", "severity", "cause", "evidence", "fix", "count", "first_seen", "last_seen"} <= set(
        status["findings"][0]
    )
    assert main(("status", *of)) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "checkpoints-failing: the checkpoint timed out before it was complete" in words
    assert 'Try: timeout="20m"' in words


def test_the_doctor_without_logs_examines_the_history(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints(history, 12)
    history.now = datetime.now(UTC)
    checkpoints(history, 1)
    history.now = datetime.now(UTC)
    history.beat()
    of = ("--home", f"file://{history.home}", "--job", "orders")
    assert main(("doctor", *of)) == 0
    assert capsys.readouterr().out == "nothing found in the history of orders\n"
    for id in range(14, 18):
        history.fail(id, THROTTLED)
    assert main(("doctor", *of)) == 1
    words = capsys.readouterr().out
    assert words.startswith("critical  checkpoints-failing\n")
    assert 'interval="5m"' in words
    assert main(("doctor", *of, "--json")) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["job"], document["logs"]) == ("orders", None)
    assert document["findings"][0]["evidence"][0] == {
        "source": f"file://{history.home}/orders",
        "line": 17,
        "text": "checkpoint 17: storage_throttled: 503 SlowDown",
    }


def test_the_doctor_needs_something_to_examine(
    history: History, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOLDFAST_HOME", "HOLDFAST_JOB"):
        monkeypatch.delenv(name, raising=False)
    assert main(("doctor",)) == 2
    assert main(("doctor", "--home", f"file://{history.home}", "--job", "other")) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "neither logs nor a job were given" in captured.err
    assert "could not find job 'other'" in captured.err


def test_a_report_in_json_goes_to_the_file_that_was_asked_for(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints(history, 6)
    report = tmp_path / "report.json"
    of = ("--home", f"file://{history.home}", "--job", "orders")
    main(("doctor", *of, "--json", "-o", str(report)))
    assert capsys.readouterr().out == ""
    assert json.loads(report.read_text())["job"] == "orders"
