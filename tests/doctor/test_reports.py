"""The report in its forms, and what of it may be shown to others."""

import json
import re
from html.parser import HTMLParser

import msgspec
import pytest

from holdfast.cli.doctor_text import lines
from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.sightings import observe
from holdfast.doctor.reports.document import LogsRead, Report, summary
from holdfast.doctor.reports.markdown import markdown
from holdfast.doctor.reports.page import page
from holdfast.doctor.reports.redaction import Redactor
from tests.doctor.events import MINUTE, NOON, event, expired

NASTY = 'Slow waitForAckedSeqno took 68210ms <script>alert("x")</script> ``` | *all* of worker-7.internal'


@pytest.fixture
def report() -> Report:
    thrown = ("FlinkRuntimeException", "Exceeded checkpoint tolerable failure threshold.")
    seen = observe(
        [
            expired(4, NOON, line=12),
            expired(5, NOON + 10 * MINUTE, line=40),
            event(NASTY, line=33),
            event("Trying to recover from a global failure.", thrown, at=NOON + 10 * MINUTE + 5, line=41),
        ],
        RULES,
    )
    read = LogsRead(files=2, bytes=1000, lines=50, events=40, unparsed=3, skipped=("core.bin is not text",))
    return Report(findings=diagnose(seen), logs=read)


def test_the_report_says_what_when_why_what_to_change_and_where_it_is_written(report: Report) -> None:
    text = "\n".join(line.plain for line in lines(report))
    for wanted in (
        "critical  checkpoint-expired",
        "checkpoints were not acknowledged within their time-out (2 log lines)",
        "2024-06-10T06:13:20.000Z to 2024-06-10T06:23:20.000Z",
        "the checkpoint storage is slow",
        "state.backend.rocksdb.checkpoint.transfer.thread.num: 8",
        'in holdfast timeout="20m"',
        "jobmanager.log:12  Checkpoint 4 of job",
        "tolerable-failures-exceeded, 1 log line",
        "not read: core.bin is not text",
        "1 critical in 2 files, 50 lines, of which 3 belong to no event",
    ):
        assert wanted in text, text


def test_an_empty_report_says_so() -> None:
    read = LogsRead(files=1, bytes=1000, lines=50, events=40, unparsed=0)
    assert summary(Report(findings=(), logs=read)) == "nothing found in 1 file, 50 lines"
    assert summary(Report(findings=(), job="orders")) == "nothing found in the history of orders"


def test_of_a_trace_without_a_log_around_it_no_line_is_said_to_belong_nowhere(report: Report) -> None:
    pasted = LogsRead(files=1, bytes=200, lines=4, events=0, unparsed=4)
    assert summary(Report(findings=report.findings, logs=pasted)) == "1 critical in 1 file, 4 lines"


def test_json_has_the_fields_of_the_contract(report: Report) -> None:
    document = json.loads(msgspec.json.encode(report))
    (finding,) = document["findings"]
    assert {"code", "severity", "cause", "evidence", "fix", "count", "first_seen", "last_seen"} <= set(finding)
    assert finding["evidence"][0] == {
        "source": "jobmanager.log",
        "line": 12,
        "text": f"Checkpoint 4 of job {'a' * 32} expired before completing.",
    }
    assert document["logs"]["unparsed"] == 3


def test_markdown_keeps_what_logs_say_as_text(report: Report) -> None:
    text = markdown(report)
    assert "## critical: checkpoint-expired" in text
    assert "- **Followed by:** tolerable-failures-exceeded, 1 log line" in text
    assert "\n````\njobmanager.log:12: " in text
    assert text.count("````") == 2


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_from_elsewhere_and_lets_no_log_line_become_markup(report: Report) -> None:
    html = page(report)
    reader = _Reader()
    reader.feed(html)
    assert reader.open == []
    assert not reader.tags & {"script", "link", "img", "iframe", "object"}
    assert not [name for name, _ in reader.attributes if name == "src" or name.startswith("on")]
    assert {value for name, value in reader.attributes if name == "href"} == {"#finding-0"}
    assert ("id", "finding-0") in reader.attributes
    assert not re.search(r"url\(|@import|https?://", html)
    assert "&lt;script&gt;" in html


def test_the_page_has_a_timeline_of_findings_and_consequences(report: Report) -> None:
    html = page(report)
    assert 'class="bar critical"' in html
    assert 'class="bar consequence"' in html
    assert "06:13:20" in html
    assert "06:23:20" in html
    timeless = Report(findings=diagnose(observe([expired(1, None)], RULES)), logs=report.logs)
    assert '<section class="timeline"' not in page(timeless)
    one_moment = Report(findings=diagnose(observe([expired(1)], RULES)), logs=report.logs)
    assert '<section class="timeline"' in page(one_moment)


@pytest.mark.parametrize(
    ("said", "gone", "kept"),
    [
        ("fs.s3a.secret.key=wJalrXUtnFEMI", "wJalrXUtnFEMI", "fs.s3a.secret.key=***"),
        ("password: hunter2, user joe", "hunter2", "user joe"),
        ("Authorization: Bearer abc.def.ghi", "abc.def.ghi", "Authorization"),
        ("key AKIAIOSFODNN7EXAMPLE is not valid", "AKIAIOSFODNN7EXAMPLE", "is not valid"),
        ("jdbc:postgresql://joe:pw123@db.acme.com:5432/x", "pw123", "jdbc:postgresql://"),
        ("jdbc:postgresql://joe:pw123@db.acme.com:5432/x", "acme", ":5432/x"),
        ("hdfs://nn1:8020/flink/chk-7", "nn1", ":8020/flink/chk-7"),
        ("s3://acme-state/orders/chk-7/_metadata", "acme-state", "/orders/chk-7/_metadata"),
        ("akka.tcp://flink@10.20.4.11:36115", "10.20.4.11", "akka.tcp://"),
        ("from 2001:db8:0:1:1:1:1:1 port 9", "2001:db8", "port 9"),
        ("at ip-10-1-3-9.ec2.internal (dataPort=39115)", "ip-10-1-3-9", "(dataPort=39115)"),
        ("Lost executor 2 on worker-7: Container killed", "worker-7", "Lost executor 2 on host-1: Container killed"),
        ("Lost task 4.0 in stage 88.0 (worker-7 executor 2)", "worker-7", "Lost task 4.0 in stage 88.0"),
        ("[pod/orders-blue-6c8d/main] x", "orders-blue-6c8d", "/main] x"),
        ("mail ops@acme.org", "acme", "mail user-1"),
    ],
)
def test_secrets_hosts_and_addresses_are_masked(said: str, gone: str, kept: str) -> None:
    text = Redactor().text(said)
    assert gone not in text
    assert kept in text


@pytest.mark.parametrize(
    "said",
    [
        "org.apache.flink.runtime.checkpoint.CheckpointCoordinator.finalizeCheckpoint(CheckpointCoordinator.java:1405)",
        "java.io.IOException: No space left on device",
        "execution.checkpointing.tolerable-failed-checkpoints: 3",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=true",
        "Checkpoint 12 expired before completing, Flink 1.18.1, 12:30:01,123",
        "s3.entropy.key: _entropy_",
    ],
)
def test_what_is_no_secret_stays(said: str) -> None:
    assert Redactor().text(said) == said


def test_a_host_has_one_pseudonym_all_through_a_report(report: Report) -> None:
    redactor = Redactor()
    first = redactor.text("Lost executor 2 on worker-7: gone")
    assert redactor.text("the last words of worker-7 and of worker-77") == "the last words of host-1 and of worker-77"
    assert redactor.text("Lost executor 3 on worker-8: gone") == first.replace("2", "3").replace("host-1", "host-2")
    masked = msgspec.json.encode(Redactor().report(report)).decode()
    assert "worker-7.internal" not in masked
    assert "checkpoint-expired" in masked
