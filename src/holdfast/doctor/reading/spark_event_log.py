"""Spark's event log, as the history server reads it: one JSON object per line.

Only signs of trouble become more than a row of the table: failed tasks, stages and jobs, lost executors, and the start,
progress and end of streaming queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.times import milliseconds
from holdfast.doctor.reading.traces import read_trace

_MESSAGE_CHARACTERS = 8_000
_encoder = msgspec.json.Encoder()

Row = Mapping[str, Any]


def from_spark_event(source: str, line: int, row: Row) -> LogEvent:
    name = str(row["Event"]).rsplit(".", 1)[-1].rsplit("$", 1)[-1].removeprefix("SparkListener")
    text = _TEXTS.get(name, _nothing)(row)
    first, _, rest = text.partition("\n")
    trace = read_trace(first, rest)
    if not trace.exceptions and rest == "":
        trace = read_trace("", first) if name in ("QueryTerminatedEvent",) else trace
    task, subtask = _task(row)
    return LogEvent(
        source=source,
        line=line,
        time=_time(row),
        level="ERROR" if text and name != "QueryProgressEvent" and name != "QueryStartedEvent" else "INFO",
        logger=name,
        thread=None,
        host=_host(row),
        job=_query(row),
        task=task,
        subtask=subtask,
        checkpoint=None,
        exceptions=trace.exceptions,
        message=trace.message,
        frames=trace.frames,
    )


def _inner(row: Row, name: str) -> Row:
    value = row.get(name)
    return value if isinstance(value, dict) else {}


def _nothing(row: Row) -> str:
    return ""


def _task_end(row: Row) -> str:
    reason = _inner(row, "Task End Reason")
    kind = reason.get("Reason", "Success")
    if kind == "Success":
        return ""
    info = _inner(row, "Task Info")
    stage = f"{row.get('Stage ID')}.{row.get('Stage Attempt ID')}"
    lost = f"Lost task {info.get('Index')}.{info.get('Attempt')} in stage {stage}"
    where = f"({info.get('Host')} executor {info.get('Executor ID')})"
    return f"{lost} {where}: {kind}: {_reason(reason)}"


def _reason(reason: Row) -> str:
    full = reason.get("Full Stack Trace")
    if isinstance(full, str) and full:
        return full
    words = (reason.get(name) for name in ("Class Name", "Description", "Loss Reason", "Kill Reason", "Message"))
    return ": ".join(str(word) for word in words if word)


def _stage_completed(row: Row) -> str:
    info = _inner(row, "Stage Info")
    failure = info.get("Failure Reason")
    return f"Stage {info.get('Stage ID')} failed: {failure}" if failure else ""


def _job_end(row: Row) -> str:
    result = _inner(row, "Job Result")
    if result.get("Result") != "JobFailed":
        return ""
    return f"Job {row.get('Job ID')} failed: {_inner(result, 'Exception').get('Message', '')}"


def _executor_removed(row: Row) -> str:
    return f"Lost executor {row.get('Executor ID')}: {row.get('Removed Reason', '')}"


def _progress(row: Row) -> str:
    return _encoder.encode(row.get("progress") or {}).decode()


def _started(row: Row) -> str:
    return f"Query {row.get('name') or ''} [id = {row.get('id')}, runId = {row.get('runId')}] started"


def _terminated(row: Row) -> str:
    failure = row.get("exception")
    return (
        f"Query [id = {row.get('id')}, runId = {row.get('runId')}] terminated with exception: {failure}"
        if failure
        else ""
    )


_TEXTS: dict[str, Callable[[Row], str]] = {
    "TaskEnd": _task_end,
    "StageCompleted": _stage_completed,
    "JobEnd": _job_end,
    "ExecutorRemoved": _executor_removed,
    "ExecutorExcluded": _executor_removed,
    "QueryProgressEvent": _progress,
    "QueryStartedEvent": _started,
    "QueryTerminatedEvent": _terminated,
}


def _time(row: Row) -> int | None:
    for value in (
        row.get("Timestamp"),
        row.get("Completion Time"),
        row.get("time"),
        _inner(row, "Task Info").get("Finish Time"),
        _inner(row, "Stage Info").get("Completion Time"),
        _inner(row, "progress").get("timestamp"),
        row.get("timestamp"),
        row.get("Submission Time"),
    ):
        if isinstance(value, int) and value > 0:
            return value
        if isinstance(value, str) and (found := milliseconds(value)) is not None:
            return found
    return None


def _host(row: Row) -> str | None:
    host = _inner(row, "Task Info").get("Host")
    return host if isinstance(host, str) else None


def _query(row: Row) -> str | None:
    query = row.get("id") or _inner(row, "progress").get("id")
    return query if isinstance(query, str) else None


def _task(row: Row) -> tuple[str | None, str | None]:
    info = _inner(row, "Task Info")
    if "Index" not in info:
        return None, None
    return f"stage {row.get('Stage ID')}.{row.get('Stage Attempt ID')}", str(info["Index"])
