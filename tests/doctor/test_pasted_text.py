"""Text as people have it: the same first finding as without what was put around it."""

import json
from pathlib import Path

import pytest

from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.engines import PLAIN
from holdfast.doctor.matching.scanning import placed, scan
from holdfast.doctor.reading.blocks import Piece, packing_of
from holdfast.doctor.reading.inputs import pieces_of
from holdfast.doctor.reading.pasted import written
from holdfast.finding import Finding

TRACE = """\
java.lang.Exception: Exception while creating StreamOperatorStateContext.
\tat org.apache.flink.streaming.api.operators.StreamTaskStateInitializerImpl.<init>(StreamTaskStateInitializerImpl.java:254)
Caused by: org.apache.flink.util.FlinkException: Could not restore keyed state backend for StreamMap_1 from any of the 1 provided restore options.
\tat org.apache.flink.streaming.api.operators.BackendRestorerProcedure.createAndRestore(BackendRestorerProcedure.java:160)
\t... 11 more
Caused by: org.rocksdb.RocksDBException: Bad table magic number: expected 9863518390377041911, found 17223112372431451250 in /tmp/x/db/000210.sst
\tat org.rocksdb.RocksDB.open(Native Method)
\t... 18 more
"""  # noqa: E501
LINES = TRACE.splitlines()
EXPIRED = "2023-02-01 10:10:00,000 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - Checkpoint 7 of job 00000000000000000000000000000001 expired before completing."  # noqa: E501


def wrapped(text: str, columns: int) -> str:
    return "\n".join(line[at : at + columns] for line in text.splitlines() for at in range(0, len(line), columns))


FORMS = {
    "whole": TRACE,
    "from-the-first-cause": "\n".join(LINES[2:]),
    "the-last-cause": LINES[5],
    "the-tail": "\n".join(LINES[3:]),
    "quoted": "".join(f"> {line}\n" for line in LINES),
    "quoted-twice": "".join(f">> {line}\n" for line in LINES),
    "indented": "".join(f"    {line}\n" for line in LINES),
    "html": TRACE.replace("<", "&lt;").replace(">", "&gt;"),
    "html-quoted": "".join(f"&gt; {line}\n" for line in LINES),
    "fenced": f"Our job fails since Monday.\n```\n{TRACE}```\nCould it be a time-out?\n",
    "in-a-ticket": f"Hello, since Monday our job does not start any more.\n\n{TRACE}\nWhat can we do? Thanks!\n",
    "coloured": "".join(f"\x1b[31m{line}\x1b[0m\n" for line in LINES),
    "windows": TRACE.replace("\n", "\r\n"),
    "one-line": " ".join(line.strip() for line in LINES),
    "wrapped-at-80": wrapped(TRACE, 80),
    "wrapped-at-120": wrapped(TRACE, 120),
    "kubectl": "".join(f"[pod/flink-tm-1/main] {line}\n" for line in LINES),
    "compose": "".join(f"taskmanager_1  | {line}\n" for line in LINES),
    "journald": "".join(f"Nov 18 12:46:25 host-7 flink[4711]: {line}\n" for line in LINES),
    "sbt": "".join(f"[error] {line}\n" for line in LINES),
    "numbered": "".join(f"  {number:4} {line}\n" for number, line in enumerate(LINES, 5511)),
    "code-span": f"It says `{LINES[5]}` and then restarts.",
    "ticks": f"`{LINES[5]}`",
    "json": '{"level":"ERROR","message":"' + TRACE.replace("\n", "\\n").replace("\t", "\\t") + '"}',
}


EXPORTS = {
    "aws-logs": {"events": [{"timestamp": 1675246200000, "message": TRACE}], "nextForwardToken": "f/1"},
    "datadog": {"data": [{"type": "log", "attributes": {"status": "error", "service": "flink", "message": TRACE}}]},
    "gcloud": [{"textPayload": TRACE, "timestamp": "2023-02-01T10:10:00Z", "severity": "ERROR"}],
    "gcloud-structured": [{"jsonPayload": {"message": TRACE, "logger": "org.apache.flink.x"}, "severity": "ERROR"}],
    "pod": {"status": {"containerStatuses": [{"lastState": {"terminated": {"exitCode": 1, "message": TRACE}}}]}},
    "rest-of-flink": {"root-exception": TRACE, "timestamp": 1675246200000, "all-exceptions": [], "truncated": False},
}


@pytest.mark.parametrize("export", EXPORTS)
def test_a_trace_in_a_document_of_json_over_several_lines(export: str, tmp_path: Path) -> None:
    findings = told(json.dumps(EXPORTS[export], indent=2), tmp_path)
    assert [finding.code for finding in findings[:1]] == ["state-unreadable"]


@pytest.mark.parametrize("outer", ["jsonPayload", "content", "attributes"])
def test_a_message_that_an_exporter_has_put_one_level_down(outer: str, tmp_path: Path) -> None:
    text = json.dumps({"id": "A", outer: {"message": TRACE, "service": "flink"}})
    assert [finding.code for finding in told(text, tmp_path)] == ["state-unreadable"]


def test_what_a_document_of_json_quotes_is_no_evidence(tmp_path: Path) -> None:
    said = "Hello, could it be this?\nI think Checkpoint 7 expired before completing is what you mean."
    assert told(json.dumps({"comment": said}, indent=2), tmp_path) == ()
    cut = '  "message": "java.lang.Exception: x\\n\\u12"'
    assert [line.text for line in written(cut)] == [cut]


HEAP = """\
java.lang.OutOfMemoryError: Java heap space
\tat java.base/java.util.Arrays.copyOf(Arrays.java:3537)
\tat java.base/java.lang.AbstractStringBuilder.append(AbstractStringBuilder.java:1)"""
BRACKETS = {
    "each-line": lambda lines: "\n".join(f"[{line}]" for line in lines),
    "each-opened": lambda lines: "\n".join(f"[{line}" for line in lines),
    "around-all": lambda lines: "[" + "\n".join(lines) + "]",
    "twice": lambda lines: "[[" + "\n".join(lines) + "]]",
    "list-of-strings": lambda lines: json.dumps(lines, indent=1),
    "list-in-one-line": json.dumps,
    "list-of-python": str,
}
"""As screenshots are typed off, and as programs print a list of lines."""


@pytest.mark.parametrize("form", BRACKETS)
def test_a_trace_in_brackets(form: str, tmp_path: Path) -> None:
    text = BRACKETS[form](HEAP.split("\n"))
    assert [finding.code for finding in told(text, tmp_path)] == ["out-of-memory"], text


def test_brackets_of_a_line_that_is_no_trace_stay(tmp_path: Path) -> None:
    lines = ["[INFO] well", '["a", "b"]', "[x] - [ ] to do", "arr[0] = ['y'];", f"[{EXPIRED}"]
    assert [line.text for line in written("\n".join(lines))] == [*lines[:4], EXPIRED]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("length", ["a paste", "a log"])
def test_text_of_another_width_is_read_as_the_same_text(encoding: str, length: str, tmp_path: Path) -> None:
    """As Windows writes it, with and without a mark at its beginning."""
    before = f"{EXPIRED.partition(' INFO')[0]} INFO  org.apache.flink.Some [] - größer 🙂\n"
    text = before * (1 if length == "a paste" else 9_000) + EXPIRED + "\n" + TRACE
    wide, narrow = tmp_path / "wide", tmp_path / "narrow"
    wide.write_bytes(text.encode(encoding))
    narrow.write_bytes(text.encode())
    readings = [scan(Piece(str(path)), RULES, PLAIN) for path in (wide, narrow)]
    found = [[finding.code for finding in diagnose(placed([reading]))] for reading in readings]
    assert found[0] == found[1]
    assert {*found[0]} == {"state-unreadable", "checkpoint-expired"}
    first, second = ([sample.line for each in reading.sightings for sample in each.samples] for reading in readings)
    assert first == second
    assert list(pieces_of([str(wide)], 64 * 1024)) == [Piece(str(wide))] or encoding == "utf-8-sig"


def test_a_log_that_begins_with_zeros_is_not_taken_for_wide_text(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\0" * 4096 + f"{EXPIRED}\n".encode())
    assert packing_of(str(tmp_path / "log")) is None


def told(text: str, tmp_path: Path) -> tuple[Finding, ...]:
    path = tmp_path / "pasted"
    path.write_text(text, newline="")
    return diagnose(placed([scan(Piece(str(path)), RULES, PLAIN)]))


@pytest.mark.parametrize("form", FORMS)
def test_a_trace_in_the_forms_that_people_have(form: str, tmp_path: Path) -> None:
    findings = told(FORMS[form], tmp_path)
    assert [finding.code for finding in findings[:1]] == ["state-unreadable"], FORMS[form]
    assert "state.backend.local-recovery: true" in findings[0].fix


@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "> {}",
        "    {}",
        "[pod/jm-1/main] {}",
        "2023-02-01T10:10:00.000Z {}",
        "2023-02-01T10:10:00.000Z\t{}",
        "1675246200000,{}",
        '"2023-02-01T10:10:00.000Z","{}"',
        "Feb  1 10:10:00 host-7 flink[4711]: {}",
        "[2023-02-01, 10:10:00 CET] {{pod_manager.py:472}} INFO - [base] {}",
        "<pre>{}</pre>",
    ],
)
def test_a_line_of_a_log_in_the_forms_that_people_have(form: str, tmp_path: Path) -> None:
    assert [finding.code for finding in told(form.format(EXPIRED), tmp_path)] == ["checkpoint-expired"]


@pytest.mark.parametrize(
    "words",
    [
        "Could it be a checkpoint time-out, or is RocksDB corrupt?",
        "We had java.io.IOException: No space left on device last week, but not today.",
        "I think Checkpoint 7 expired before completing is what you mean.",
        "Our state is large. Maybe the disk is full?",
    ],
)
def test_what_somebody_says_is_no_evidence(words: str, tmp_path: Path) -> None:
    assert told(words, tmp_path) == ()


def test_evidence_names_the_line_of_the_text(tmp_path: Path) -> None:
    text = f"Hello, our job fails.\n\n```\n{TRACE}```\n"
    assert [evidence.line for evidence in told(text, tmp_path)[0].evidence] == [4]


def test_a_wrapped_line_is_named_where_it_began(tmp_path: Path) -> None:
    (finding,) = told(wrapped(f"nothing of interest\n{EXPIRED}\n", 80), tmp_path)
    assert [evidence.line for evidence in finding.evidence] == [2]


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        (LINES[5], "certain"),
        (
            "akka.pattern.AskTimeoutException: Ask timed out on [Actor[akka.tcp://flink@tm:1/user/rpc/taskmanager_0]]",
            "likely",
        ),
        (EXPIRED, "possible"),
    ],
)
def test_how_sure_it_is(text: str, confidence: str, tmp_path: Path) -> None:
    assert told(text, tmp_path)[0].confidence == confidence


def test_where_nothing_else_shows_why_all_causes_are_told_with_how_to_tell(tmp_path: Path) -> None:
    (finding,) = told(EXPIRED, tmp_path)
    assert len(finding.other_causes) >= 6
    assert all("To tell: " in other and "Then: " in other for other in finding.other_causes)


SEEDS = {
    "seed-000-metadata-gcs": "metadata-exists",
    "seed-001-discarded": "discarded-checkpoint-failed-task",
    "seed-002-datanodes": "snapshot-write-failed",
    "seed-003-magic-number": "state-unreadable",
    "seed-003-metadata-nfs": "metadata-exists",
    "seed-004-too-late": "checkpoint-expired",
}


@pytest.mark.parametrize("name", SEEDS)
def test_a_seed_pasted_without_times_and_loggers(name: str, tmp_path: Path) -> None:
    """The trace of each document alone, as it stands below the line of the log."""
    text = (Path(__file__).parent / "cases" / f"{name}.log").read_text()
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith(("java.", "org.", "Caused by"))), 0)
    trace = "\n".join(line for line in lines[start:] if not line[:4].isdigit())
    codes = [finding.code for finding in told(trace, tmp_path)]
    same = {
        "discarded-checkpoint-failed-task": {
            "discarded-checkpoint-failed-task",
            "snapshot-write-failed",
            "tasks-not-running",
        }
    }
    assert codes[0] in same.get(SEEDS[name], {SEEDS[name]}), codes


LOST = "Lost executor 3 on 10.1.97.7: Remote RPC client disassociated. Likely due to containers exceeding thresholds."
AROUND = {
    "no-time": f"ERROR TaskSchedulerImpl: {LOST}\n",
    "bold": f"**ERROR TaskSchedulerImpl: {LOST}**\n",
    "progress-bar": f"[Stage 1:=====>            (2 + 58) / 60]17/04/06 19:59:19 ERROR TaskSchedulerImpl: {LOST}\n",
    "class-and-method": f"2024-09-25 02:35:29,383 ERROR TaskSchedulerImpl.logExecutorLoss - {LOST}\n",
    "carbon": "TID: [-1] [] [2016-09-21 11:15:15,055] ERROR {org.apache.spark.scheduler.TaskSchedulerImpl} -  "
    f"{LOST} {{org.apache.spark.scheduler.TaskSchedulerImpl}}\n",
}


@pytest.mark.parametrize("form", AROUND)
def test_a_line_of_spark_whatever_is_around_it(form: str, tmp_path: Path) -> None:
    assert [finding.code for finding in told(AROUND[form], tmp_path)] == ["executor-lost"]


def test_the_advice_at_the_end_of_a_message_is_no_talk(tmp_path: Path) -> None:
    message = "Cannot map checkpoint/savepoint state for operator 9dd6 to the new program. "
    assert told(message + "If you want to skip it, you can set --allowNonRestoredState.\n", tmp_path)
    assert told("I think " + message + "\n", tmp_path) == ()


def test_what_was_suppressed_counts_where_nothing_else_was_thrown(tmp_path: Path) -> None:
    trace = (
        f"        Suppressed: {LINES[5].removeprefix('Caused by: ')}\n            at org.rocksdb.RocksDB.open(Native)\n"
    )
    assert [finding.code for finding in told(trace, tmp_path)] == ["state-unreadable"]


def test_the_cause_of_a_test_framework_is_a_cause(tmp_path: Path) -> None:
    line = "[info]   Cause: org.rocksdb.RocksDBException: Bad table magic number: expected 1, found 2 in /db/1.sst\n"
    assert [finding.code for finding in told(line, tmp_path)] == ["state-unreadable"]


GUIDE = {
    "packet loss delays the messages of checkpoint completion": "connections between the workers",
    "a JobManager CPU that is too small, so that acknowledging the checkpoint takes long": "paused",
    "long-running savepoint cleanup blocks the threads": "deleted slowly",
    "bottlenecks of the storage delay checkpoint completion": "checkpoint storage is slow",
    "a large state and checkpoint acknowledgments of many tasks": "state is too large",
    "old releases have known issues with checkpointing coordination": "known bugs",
}
SHORTER = {
    "Watch the performance of your state backend": "checkpoint storage is slow",
    "A long-running savepoint.cleanup keeps others waiting": "deleted slowly",
    "Releases have bug fixes for the checkpointing mechanism": "known bugs",
}


@pytest.mark.parametrize("words", GUIDE)
def test_a_guide_about_late_checkpoints_is_answered_with_its_topic_first(words: str, tmp_path: Path) -> None:
    (finding,) = told(f"The cause is {words}.\n", tmp_path)
    assert (finding.code, finding.severity, finding.confidence) == ("checkpoint-expired", "info", "possible")
    assert GUIDE[words] in finding.cause


@pytest.mark.parametrize("words", SHORTER)
def test_one_sentence_of_a_guide_is_answered_with_its_topic(words: str, tmp_path: Path) -> None:
    (finding,) = told(f"{words}.\n", tmp_path)
    assert (finding.code, finding.severity) == ("checkpoint-expired", "info")
    assert SHORTER[words] in finding.cause


def test_a_whole_guide_is_answered_in_the_order_of_its_causes(tmp_path: Path) -> None:
    (finding,) = told("".join(f"Cause: {words}.\n\n" for words in reversed(GUIDE)), tmp_path)
    causes = [finding.cause, *finding.other_causes]
    assert [next(each for each in GUIDE.values() if each in cause) for cause in causes[:6]] == list(GUIDE.values())


@pytest.mark.parametrize(
    "words",
    [
        "The coordinator discards an ongoing checkpoint when a task declines it.",
        "A write belonging to a discarded checkpoint fails, and with it the task.",
        "A workaround is to disable failTaskOnCheckpointError for the job.",
    ],
)
def test_a_report_about_discarded_checkpoints_is_no_failure(words: str, tmp_path: Path) -> None:
    (finding,) = told(words + "\n", tmp_path)
    assert (finding.code, finding.severity) == ("discarded-checkpoint-failed-task", "info")
    assert "execution.checkpointing.tolerable-failed-checkpoints: 3" in finding.fix


WRITING_TAIL = """\
at org.apache.hadoop.hdfs.DFSClient.closeFile(DFSClient.java:1208)
at org.apache.hadoop.fs.FSDataOutputStream.close(FSDataOutputStream.java:106)
at org.apache.flink.core.fs.ClosingFSDataOutputStream.close(ClosingFSDataOutputStream.java:64)
at org.apache.flink.runtime.state.filesystem.FsCheckpointStreamFactory$FsCheckpointStateOutputStream.closeAndGetHandle(FsCheckpointStreamFactory.java:312)
... 12 common frames omitted
"""  # noqa: E501
TOLERATED_TAIL = """\
\tat org.apache.flink.runtime.checkpoint.CheckpointFailureManager.checkFailureAgainstCounter(CheckpointFailureManager.java:206)
\tat org.apache.flink.runtime.checkpoint.CheckpointCoordinator.finalizeCheckpoint(CheckpointCoordinator.java:1375)
"""  # noqa: E501
TOLERATE = "execution.checkpointing.tolerable-failed-checkpoints: 3"


@pytest.mark.parametrize(
    ("frames", "code", "severity", "confidence"),
    [
        (WRITING_TAIL, "snapshot-write-failed", "info", "possible"),
        (TOLERATED_TAIL, "tolerable-failures-exceeded", "critical", "likely"),
    ],
    ids=["writing", "tolerated"],
)
def test_frames_alone_show_what_was_being_done(
    frames: str, code: str, severity: str, confidence: str, tmp_path: Path
) -> None:
    (finding,) = told(frames, tmp_path)
    assert (finding.code, finding.severity, finding.confidence) == (code, severity, confidence)
    assert TOLERATE in finding.fix


@pytest.mark.parametrize(
    "frames",
    [
        "at org.acme.Orders.map(Orders.java:3)\nat java.lang.Thread.run(Thread.java:745)\n",
        f'"flink-akka-9" #71 prio=5 tid=0x7f runnable\n   java.lang.Thread.State: RUNNABLE\n{WRITING_TAIL}',
    ],
    ids=["of-the-program", "of-a-thread-dump"],
)
def test_other_frames_alone_show_nothing(frames: str, tmp_path: Path) -> None:
    assert told(frames, tmp_path) == ()


SNAPSHOT = "java.lang.Exception: Could not complete snapshot 45843 for operator Window -> Map (153/459).\n"
SNAPSHOT += "\tat org.apache.flink.streaming.api.operators.AbstractStreamOperator.snapshotState(A.java:4)\n"
FAILED_IN_CODE = "Caused by: java.lang.NullPointerException\n\tat org.acme.Orders.snapshotState(Orders.java:40)\n"


def test_a_trace_cut_off_before_its_cause_does_not_blame_the_operator(tmp_path: Path) -> None:
    (finding,) = told(SNAPSHOT, tmp_path)
    assert (finding.code, finding.confidence) == ("snapshot-write-failed", "possible")
    assert "ends before the reason" in finding.cause
    assert TOLERATE in finding.fix
    (finding,) = told(SNAPSHOT + FAILED_IN_CODE, tmp_path)
    assert (finding.confidence, "in its own code" in finding.cause) == ("certain", True)


def test_a_restore_cut_off_before_its_cause(tmp_path: Path) -> None:
    (finding,) = told(LINES[0], tmp_path)
    assert (finding.code, finding.confidence) == ("state-unreadable", "possible")
    assert "state.backend.local-recovery: true" in finding.fix


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("Our snapshotState failed due to bad disks of HDFS, so we lost an hour.", "HDFS had no healthy datanode"),
        ("When triggerCheckpointOnBarrier fails, we think the job should go on.", "ends before the reason"),
    ],
)
def test_who_explains_a_failed_snapshot_is_told_what_is_known(words: str, cause: str, tmp_path: Path) -> None:
    (finding,) = told(words, tmp_path)
    assert (finding.code, finding.severity, finding.confidence) == ("snapshot-write-failed", "info", "possible")
    assert cause in finding.cause
    assert TOLERATE in finding.fix
    assert told(f"Is it that {words.removesuffix('.')}?", tmp_path) == ()


@pytest.mark.parametrize("words", [f"We read that {words} in your job." for words in GUIDE], ids=list(GUIDE.values()))
def test_a_guide_may_speak_to_its_reader(words: str, tmp_path: Path) -> None:
    (finding,) = told(words, tmp_path)
    assert (finding.code, finding.severity) == ("checkpoint-expired", "info")
    assert told(words.removesuffix(".") + "?", tmp_path) == ()


def test_an_explanation_beside_the_trace_adds_no_finding(tmp_path: Path) -> None:
    (alone,) = told(SNAPSHOT + FAILED_IN_CODE, tmp_path)
    (beside,) = told(f"Our snapshotState failed due to HDFS.\n\n{SNAPSHOT}{FAILED_IN_CODE}", tmp_path)
    assert (beside.cause, beside.severity) == (alone.cause, "critical")


EXPLAINED = {
    "Several writers are updating the _metadata of one checkpoint.": ("metadata-exists", "two deployments"),
    "Use separate NFS mounts for each deployment.": ("metadata-exists", "two deployments"),
    "With more tasks than slots, the job never makes progress.": ("tasks-not-running", "wait for slots"),
    "Keep the parallelism of your KafkaSource at that of the topic.": ("kafka-commit-failed", "more consumers"),
    "We set a back-off in “KafkaSource” & “KafkaSink”.": ("kafka-commit-failed", "reconnect in a loop"),
    "It was the tolerance limit of checkpoint failures.": ("tolerable-failures-exceeded", "0 by default"),
    "We added support for local task recovery.": ("state-unreadable", "damaged"),
}


@pytest.mark.parametrize("words", EXPLAINED)
def test_one_paragraph_that_explains_a_trouble_is_told_its_cause_and_change(words: str, tmp_path: Path) -> None:
    (finding,) = told(f"{words}\n", tmp_path)
    code, cause = EXPLAINED[words]
    assert (finding.code, finding.severity, finding.confidence) == (code, "info", "possible")
    assert cause in finding.cause
    assert finding.fix
    assert told(words.replace(".", "?"), tmp_path) == ()


def test_who_explains_a_trouble_beside_it_adds_nothing(tmp_path: Path) -> None:
    (finding,) = told(f"{LINES[5]}\n\nWe added support for local task recovery.\n", tmp_path)
    assert (finding.code, finding.severity, finding.confidence) == ("state-unreadable", "critical", "certain")
    assert all("local task recovery" not in evidence.text for evidence in finding.evidence)
