"""`holdfast doctor LOGS`: what it prints, where, and how it ends. All in one session of Spark."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from holdfast.cli.main import main
from holdfast.cli.reading_logs import News
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.sightings import observe
from holdfast.finding import Finding
from tests.doctor.collection import CASES, excerpts
from tests.doctor.events import MINUTE, NOON, completed, expired

pytestmark = pytest.mark.usefixtures("spark")

Output = pytest.CaptureFixture[str]


def case(name: str) -> str:
    return str(CASES / f"{name}.log")


def document(capsys: Output, *arguments: str, code: int = 0) -> dict:  # type: ignore[type-arg]
    assert main(("doctor", *arguments, "--json")) == code
    answer: dict = json.loads(capsys.readouterr().out)  # type: ignore[type-arg]
    return answer


def failing(capsys: Output, *arguments: str) -> tuple[int, str]:
    code = main(("doctor", *arguments))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 2
    assert "Traceback" not in captured.err
    return code, captured.err


def test_the_whole_collection_at_once(capsys: Output) -> None:
    answer = document(capsys, str(CASES), code=1)
    assert answer["logs"]["files"] == len(excerpts())
    assert {finding["severity"] for finding in answer["findings"]} == {"critical", "warning", "info"}
    first = next(finding for finding in answer["findings"] if finding["code"] == "discarded-checkpoint-failed-task")
    path, line = first["evidence"][0]["source"], first["evidence"][0]["line"]
    assert "switched from RUNNING to FAILED" in Path(path).read_text().splitlines()[line - 1]


def test_what_is_critical_ends_with_1_and_what_is_not_with_0(capsys: Output) -> None:
    assert main(("doctor", case("seed-003-magic-number"))) == 1
    words = capsys.readouterr().out
    assert words.startswith("critical  state-unreadable\n")
    assert "state.backend.local-recovery: true" in words
    assert main(("doctor", case("healthy-flink-1.17"))) == 0
    first, recognised, wanted = capsys.readouterr().out.splitlines()
    assert first == "nothing found in 1 file, 4 lines"
    assert recognised.startswith("recognised: Flink")
    assert wanted.startswith("what would help: the JobManager's log")


def test_markdown_and_html_go_to_a_file(capsys: Output, tmp_path: Path) -> None:
    log = case("worker-pod-oomkilled-1.20")
    assert main(("doctor", log, "--format", "html", "-o", str(tmp_path / "report.html"))) == 1
    assert 'class="timeline"' in (tmp_path / "report.html").read_text()
    assert main(("doctor", log, "--format", "markdown")) == 1
    assert "## critical: out-of-memory" in capsys.readouterr().out
    assert failing(capsys, log, "--format", "html", "-o", str(tmp_path / "no" / "where.html"))[0] == 2


def test_a_report_for_others(capsys: Output) -> None:
    assert main(("doctor", case("expired-network-1.16"), "--redact")) == 1
    words = capsys.readouterr().out
    assert "10.20.4.11" not in words
    assert "address-1" in words


def test_standard_input(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path(case("seed-002-datanodes")).read_bytes()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    (finding,) = document(capsys, "-", code=1)["findings"]
    assert finding["code"] == "snapshot-write-failed"
    assert finding["evidence"][0]["source"] == "standard input"


def test_events_are_kept_as_a_table(spark: SparkSession, capsys: Output, tmp_path: Path) -> None:
    assert main(("doctor", case("healthy-flink-1.17"), "--keep", str(tmp_path / "events"))) == 0
    assert "kept 4 events" in capsys.readouterr().err
    assert spark.read.parquet(str(tmp_path / "events")).where("checkpoint = 2").count() == 2
    assert failing(capsys, case("healthy-flink-1.17"), "--keep", str(tmp_path / "events"))[0] == 2


def test_nothing_to_examine(capsys: Output, tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    (tmp_path / "garbage.log").write_text("lorem ipsum\ndolor sit amet\n")
    (tmp_path / "core").write_bytes(bytes(range(256)) * 40)
    for name, words in {
        "missing.log": "missing.log does not exist",
        "*.nothing": "matches nothing",
        "empty.log": "the input is empty",
        "garbage.log": "none begins like a line of a log",
        "core": "core is not text",
    }.items():
        code, said = failing(capsys, str(tmp_path / name))
        assert code == 3, said
        assert words in said
        assert "Try: " in said
    assert failing(capsys)[0] == 2
    assert failing(capsys, case("healthy-flink-1.17"), "--follow")[0] == 3


def test_a_binary_file_among_logs_is_passed_over(capsys: Output, tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(bytes(range(256)) * 40)
    answer = document(capsys, case("healthy-flink-1.17"), str(tmp_path / "core"))
    assert answer["logs"]["skipped"] == [f"{tmp_path / 'core'} is not text"]


def test_what_is_followed_is_told_once_and_again_when_it_becomes_critical() -> None:
    told: list[Finding] = []
    news = News(told.append)
    news.take(observe([expired(1), completed(2, NOON + MINUTE)], RULES))
    news.take(observe([expired(3, NOON + 2 * MINUTE)], RULES))
    news.take(observe([expired(4, NOON + 3 * MINUTE)], RULES))
    assert [finding.severity for finding in told] == ["warning", "critical"]
    assert news.critical
