"""First lines of events, as Flink, Spark, their containers and collectors write them."""

import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdfast.doctor.reading.assembling import event_of
from holdfast.doctor.reading.events import ExceptionLink
from holdfast.doctor.reading.formats import EVENT_START
from holdfast.doctor.reading.lines import first_line
from holdfast.doctor.reading.prefixes import same_writer, stripped
from holdfast.doctor.reading.times import milliseconds

JOB = "599a6ac3c371874d12ebf024978cadbc"
AT = milliseconds("2026-01-02T03:04:05.678Z")
SECOND = milliseconds("2026-01-02T03:04:05Z")
COORDINATOR = "org.apache.flink.runtime.checkpoint.CheckpointCoordinator"
FLINK = f"2026-01-02 03:04:05,678 INFO  {COORDINATOR}     [] - Triggering checkpoint 7 @ 1 for job {JOB}."

LINES = {
    "Flink, log4j 2": (FLINK, AT, "INFO", COORDINATOR, None, None),
    "Flink, log4j 1": (f"2026-01-02 03:04:05,678 WARN  {COORDINATOR}    - no", AT, "WARN", COORDINATOR, None, None),
    "Flink, thread behind the level": (
        f"2026-01-02 03:04:05,678 INFO  [Checkpoint Timer] {COORDINATOR} [] - x",
        AT,
        "INFO",
        COORDINATOR,
        "Checkpoint Timer",
        None,
    ),
    "logback": (
        f"2026-01-02 03:04:05.678 [Checkpoint Timer] ERROR {COORDINATOR} - x",
        AT,
        "ERROR",
        COORDINATOR,
        "Checkpoint Timer",
        None,
    ),
    "logback without a date": (f"03:04:05.678 [main] INFO  {COORDINATOR} - x", None, "INFO", COORDINATOR, "main", None),
    "Spark": ("26/01/02 03:04:05 WARN TaskSetManager: Lost task", SECOND, "WARN", "TaskSetManager", None, None),
    "Spark on YARN": (
        "2026-01-02 03:04:05,678 ERROR [stream execution thread] MicroBatchExecution: Query failed",
        AT,
        "ERROR",
        "MicroBatchExecution",
        "stream execution thread",
        None,
    ),
    "Spark, a thread with brackets in its name": (
        f"2026-01-02 03:04:05,678 [stream execution thread for a [id = 1, runId = 2]] ERROR {COORDINATOR} - x",
        AT,
        "ERROR",
        COORDINATOR,
        "stream execution thread for a [id = 1, runId = 2]",
        None,
    ),
    "log4j with the line of the code": (
        "2026-01-02 03:04:05,678 ERROR YarnScheduler:70 - Lost executor",
        AT,
        "ERROR",
        "YarnScheduler",
        None,
        None,
    ),
    "Hadoop, with the method": (
        "2026-01-02 03:04:05,678 WARN  [main] hdfs.DataStreamer (DataStreamer.java:run(826)) - bad datanode",
        AT,
        "WARN",
        "hdfs.DataStreamer",
        "main",
        None,
    ),
    "Spark, with the place in its code": (
        "2026-01-02 03:04:05,678 ERROR [worker 3.0 (TID 8)] executor.Executor (Logging.scala:98) - Exception in task",
        AT,
        "ERROR",
        "executor.Executor",
        "worker 3.0 (TID 8)",
        None,
    ),
    "Kafka's broker": (
        "[2026-01-02 03:04:05,678] INFO Closed (kafka.log.Log)",
        AT,
        "INFO",
        "kafka.log.Log",
        None,
        None,
    ),
    "JVM": ("[2026-01-02T03:04:05.678+0000][info][gc] GC(3) Pause Full 20000.0ms", AT, "INFO", "gc", None, None),
    "no time": (f"WARN  {COORDINATOR} [] - Failed to", None, "WARN", COORDINATOR, None, None),
    "time in another zone": ("2026-01-02T05:04:05.678+0200 INFO Foo: x", AT, "INFO", "Foo", None, None),
    "time of log4j 1": ("02 Jan 2026 03:04:05,678 INFO Foo: x", AT, "INFO", "Foo", None, None),
    "CRI": (f"2026-01-02T03:04:05.678901234Z stdout F {FLINK}", AT, "INFO", COORDINATOR, None, None),
    "kubectl --prefix": (f"[pod/flink-tm-1/main] {FLINK}", AT, "INFO", COORDINATOR, None, "flink-tm-1"),
    "kubectl --timestamps": (f"2026-01-02T03:04:05.678901Z {FLINK}", AT, "INFO", COORDINATOR, None, None),
    "kail": (f"[analytics-6688-mhqmc job] {FLINK}", AT, "INFO", COORDINATOR, None, "analytics-6688-mhqmc"),
    "kail with the namespace": (f"rt/tm-x2x4q[main]: {FLINK}", AT, "INFO", COORDINATOR, None, "tm-x2x4q"),
    "stern": (f"flink-tm-5d9c8-x2x4q main {FLINK}", AT, "INFO", COORDINATOR, None, "flink-tm-5d9c8-x2x4q"),
    "docker compose": (f"taskmanager-1  | {FLINK}", AT, "INFO", COORDINATOR, None, "taskmanager-1"),
    "syslog": (f"Jan  2 03:04:05 node7 flink[41]: {FLINK}", AT, "INFO", COORDINATOR, None, "node7"),
    "syslog, new": (f"<34>1 2026-01-02T03:04:05.678Z node7 flink: {FLINK}", AT, "INFO", COORDINATOR, None, "node7"),
    "logcli": (f'2026-01-02T03:04:05Z {{app="f", pod="tm-0"}} {FLINK}', SECOND, "INFO", COORDINATOR, None, "tm-0"),
    "grep -n": (f"119:{FLINK}", AT, "INFO", COORDINATOR, None, None),
    "no time, thread in front": (f"[Timer] WARN {COORDINATOR} - Failed to", None, "WARN", COORDINATOR, "Timer", None),
    "grep": (f"logs/jobmanager.log:12:{FLINK}", AT, "INFO", COORDINATOR, None, None),
    "colours": ("\x1b[32m2026-01-02 03:04:05,678 \x1b[1mINFO\x1b[0m Foo: x", AT, "INFO", "Foo", None, None),
    "NUL bytes in front": (f"\x00\x00\x00{FLINK}", AT, "INFO", COORDINATOR, None, None),
    "Spark's progress bar": (
        "\r[Stage 0:>            (0 + 2) / 2]\r                  \r26/01/02 03:04:05 WARN Foo: x",
        SECOND,
        "WARN",
        "Foo",
        None,
        None,
    ),
    "byte order mark": (f"\ufeff{FLINK}", AT, "INFO", COORDINATOR, None, None),
    "hard spaces": (FLINK.replace("  ", "\xa0 "), AT, "INFO", COORDINATOR, None, None),
    "docker": (
        '{"log":"' + FLINK + '\\n","stream":"stdout","time":"2026-01-02T03:04:05.678Z"}',
        AT,
        "INFO",
        COORDINATOR,
        None,
        None,
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_a_first_line_is_found_and_taken_apart(name: str) -> None:
    line, time, level, logger, thread, host = LINES[name]
    event = event_of("x.log", 1, [line.replace("\xa0", " ")])
    assert (event.time, event.level, event.logger, event.thread, event.host) == (time, level, logger, thread, host)
    assert starts_event(line)
    if FLINK in line:
        assert (event.job, event.checkpoint) == (JOB, 7)
        assert event.message == f"Triggering checkpoint 7 @ 1 for job {JOB}."


CONTINUATIONS = (
    "java.io.IOException: No space left on device",
    "\tat org.apache.flink.Foo.bar(Foo.java:12)",
    "Caused by: java.lang.Exception: INFO 2026",
    "\t... 23 more",
    "",
    "ERROR: something",
    "the time was 2026-01-02 03:04:05 INFO",
    "[pod/flink-tm-1/main] \tat org.apache.flink.Foo.bar(Foo.java:12)",
    "2026-01-02T03:04:05.678901234Z stderr F Caused by: java.lang.Exception: x",
    '{"log":"\\tat org.apache.flink.Foo.bar(Foo.java:12)\\n","stream":"stdout","time":"2026-01-02T03:04:05.678Z"}',
    '{"count": 3}',
    "| 2026-01-02 | ERROR |",
)


@pytest.mark.parametrize("line", CONTINUATIONS)
def test_what_continues_an_event_does_not_begin_one(line: str) -> None:
    assert first_line(line) is None
    assert not starts_event(line)


def test_re2_and_python_agree_on_cut_and_damaged_lines() -> None:
    lines = [line for line, *_ in LINES.values()] + list(CONTINUATIONS)
    cut = [line[:end] for line in lines for end in range(0, min(len(line), 130), 3) if "\x1b" not in line]
    found = starting_events(cut)
    assert [
        line
        for line, starts in zip(cut, found, strict=True)
        if starts != (first_line(line.replace("\xa0", " ")) is not None)
    ] == []


def test_json_layouts() -> None:
    trace = r"java.io.IOException: no\n\tat a.B.c(B.java:1)\n"
    trace += r"Caused by: java.net.ConnectException: refused\n\tat d.E.f(E.java:2)"
    rows = {
        "ECS": '{"@timestamp":"2026-01-02T03:04:05.678Z","log.level":"WARN","message":"m","log.logger":"L",'
        '"process.thread.name":"T","error.type":"java.io.IOException","error.stack_trace":"' + trace + '"}',
        "logstash": '{"@timestamp":"2026-01-02T03:04:05.678Z","message":"m","logger_name":"L","thread_name":"T",'
        '"level":"WARN","stack_trace":"' + trace + '"}',
        "log4j": '{"instant":{"epochSecond":1767323045,"nanoOfSecond":678000000},"thread":"T","level":"WARN",'
        '"loggerName":"L","message":"m","thrown":{"name":"java.io.IOException","message":"no","cause":'
        '{"name":"java.net.ConnectException","message":"refused","extendedStackTrace":[{"class":"d.E","method":"f"}]},'
        '"extendedStackTrace":[{"class":"a.B","method":"c","file":"B.java","line":1}]}}',
    }
    for name, row in rows.items():
        event = event_of("x.log", 1, [row])
        assert (event.time, event.level, event.logger, event.thread, event.message) == (AT, "WARN", "L", "T", "m"), name
        assert [link.class_name for link in event.exceptions] == ["java.io.IOException", "java.net.ConnectException"]
        assert event.frames == ("a.B.c", "d.E.f"), name
        assert starts_event(row), name


def test_sparks_structured_log() -> None:
    row = (
        '{"ts":"2026-01-02T03:04:05.678Z","level":"ERROR","msg":"Query terminated with error","context":{"query_id":'
        '"5ea0ab2e-90d7-4e10-a0a4-3e9f4e5f24f4"},"exception":{"class":"org.apache.spark.SparkException",'
        '"msg":"Job aborted",'
        '"stacktrace":[{"class":"org.apache.spark.Foo","method":"bar","file":"Foo.scala","line":"12"}]},'
        '"logger":"MicroBatchExecution"}'
    )
    event = event_of("x.log", 1, [row])
    assert (event.time, event.level, event.logger) == (AT, "ERROR", "MicroBatchExecution")
    assert event.job == "5ea0ab2e-90d7-4e10-a0a4-3e9f4e5f24f4"
    assert event.exceptions == (ExceptionLink("org.apache.spark.SparkException", "Job aborted"),)
    assert event.frames == ("org.apache.spark.Foo.bar",)


def test_sparks_event_log() -> None:
    lost = (
        '{"Event":"SparkListenerTaskEnd","Stage ID":3,"Stage Attempt ID":0,"Task End Reason":'
        '{"Reason":"ExceptionFailure",'
        '"Class Name":"java.io.IOException","Description":"No space left on device","Full Stack Trace":'
        '"java.io.IOException: No space left on device\\n\\tat a.B.c(B.java:1)\\n'
        'Caused by: java.lang.Exception: x\\n"},'
        '"Task Info":{"Index":1,"Attempt":0,"Host":"node7","Executor ID":"2","Finish Time":1767323045678}}'
    )
    event = event_of("x.log", 1, [lost])
    assert (event.time, event.level, event.logger, event.host) == (AT, "ERROR", "TaskEnd", "node7")
    assert (event.task, event.subtask) == ("stage 3.0", "1")
    assert event.message.startswith("Lost task 1.0 in stage 3.0 (node7 executor 2)")
    assert [link.class_name for link in event.exceptions] == ["java.io.IOException", "java.lang.Exception"]
    removed = (
        '{"Event":"SparkListenerExecutorRemoved","Timestamp":1767323045678,"Executor ID":"2","Removed Reason":"OOM"}'
    )
    assert event_of("x.log", 1, [removed]).message == "Lost executor 2: OOM"
    ended = (
        '{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$QueryTerminatedEvent","id":"q","runId":"r",'
        '"exception":"org.apache.spark.sql.streaming.StreamingQueryException: gone\\n\\tat a.B.c(B.java:1)"}'
    )
    event = event_of("x.log", 1, [ended])
    assert (event.logger, event.job) == ("QueryTerminatedEvent", "q")
    assert event.exceptions[0].class_name == "org.apache.spark.sql.streaming.StreamingQueryException"


def starts_event(line: str) -> bool:
    return starting_events([line])[0]


def starting_events(lines: list[str]) -> list[bool]:
    with_feeds = pa.array([line.encode() + b"\n" for line in lines], pa.binary())
    return pc.match_substring_regex(with_feeds, EVENT_START).to_pylist()


def test_the_pattern_has_no_group_that_re2_does_not_know() -> None:
    assert re.search(r"\(\?[=!<P]", EVENT_START) is None


RUNTIME_LINES = (
    "2026-01-02T03:04:05.123456789Z stdout F \tat org.apache.flink.Task.run(Task.java:1)",
    "2026-01-02T03:04:05Z stdout F Caused by: java.io.IOException: pod-1 app | 2026-01-02 said stdout F no",
    "2026-01-02T03:04:05.1+02:00 stdout F ",
)


def test_lines_of_one_writer_are_stripped_together_as_they_are_one_by_one() -> None:
    assert same_writer("\n".join(RUNTIME_LINES), ("cri", "stdout")) == "\n".join(
        stripped(line).text for line in RUNTIME_LINES
    )


@pytest.mark.parametrize(
    "other",
    [
        "2026-01-02T03:04:05Z stderr F \tat a.B.c(B.java:1)",
        "2026-01-02T03:04:05Z stdout P \tat a.B.c(B.java:1)",
        "2026-01-02T03:04:05Z stdout F Stage 1\rdone",
        "a stdout F line",
        "\tat a.B.c(B.java:1)",
        "",
    ],
)
def test_lines_that_another_may_have_written_are_looked_at_one_by_one(other: str) -> None:
    assert same_writer("\n".join((*RUNTIME_LINES, other)), ("cri", "stdout")) is None
    assert same_writer("\n".join(RUNTIME_LINES), ("kubectl", "pod-1", "app")) is None
