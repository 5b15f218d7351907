"""Events that are one JSON object: log4j's and logback's layouts, Spark's structured and event logs, collectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.doctor.reading.events import ExceptionLink, LogEvent
from holdfast.doctor.reading.lines import first_line, level_name
from holdfast.doctor.reading.mentions import checkpoint_of, host_in_path, job_of, task_of
from holdfast.doctor.reading.prefixes import Stripped
from holdfast.doctor.reading.spark_event_log import from_spark_event
from holdfast.doctor.reading.times import milliseconds
from holdfast.doctor.reading.traces import MESSAGE_CHARACTERS, Trace, read_trace, starts_trace

_decoder = msgspec.json.Decoder(dict[str, Any])

_MESSAGE = ("message", "msg", "MESSAGE", "textPayload", "line", "log")
_LEVEL = ("level", "log.level", "severity", "levelname", "loglevel")
_LOGGER = ("logger", "logger_name", "loggerName", "log.logger", "logger.name", "name")
_THREAD = ("thread", "thread_name", "threadName", "process.thread.name")
_TIME = ("ts", "@timestamp", "timestamp", "time", "timeMillis", "instant", "datetime", "date", "__REALTIME_TIMESTAMP")
_HOST = ("pod", "pod_name", "host", "hostname", "HOSTNAME", "host.name", "_HOSTNAME", "instance", "source_host")
_TRACE = (
    "stack_trace",
    "stackTrace",
    "error.stack_trace",
    "exception",
    "stacktrace",
    "thrown",
    "throwable",
    "exc_info",
)
_NESTED = (
    "kubernetes",
    "labels",
    "resource",
    "fields",
    "error",
    "log",
    "process",
    "context",
    "mdc",
    "contextMap",
    "jsonPayload",
    "content",
    "attributes",
)
_NANOSECONDS, _MICROSECONDS, _MILLISECONDS = 10**17, 10**14, 10**11
_PRINTED = ("extendedStackTrace", "stackTrace")
"""log4j with stacktraceAsString: the whole chain, as it would have been printed."""


def from_json(source: str, line: int, text: str, prefix: Stripped) -> LogEvent | None:
    """None when it is not JSON after all, or was cut off."""
    try:
        row = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if isinstance(row.get("Event"), str):
        return from_spark_event(source, line, row)
    return _from_layout(source, line, _flattened(row), prefix)


def _from_layout(source: str, line: int, row: Mapping[str, Any], prefix: Stripped) -> LogEvent:
    message = _text(row, _MESSAGE) or ""
    inner = first_line(message.split("\n", 1)[0])
    trace = _trace(row, message if inner is None else inner[1].message + message[len(message.split("\n", 1)[0]) :])
    text = " ".join((trace.message, *(link.message for link in trace.exceptions)))
    task, subtask = task_of(text)
    return LogEvent(
        source=source,
        line=line,
        time=_time(row) or (inner[1].time if inner else None) or prefix.time,
        level=(inner[1].level if inner else None) or level_name(_text(row, _LEVEL)),
        logger=(inner[1].logger if inner else None) or _text(row, _LOGGER),
        thread=(inner[1].thread if inner else None) or _text(row, _THREAD),
        host=_text(row, _HOST) or prefix.host or host_in_path(source),
        job=_text(row, ("flink-job-id", "query_id")) or job_of(text),
        task=task,
        subtask=subtask,
        checkpoint=checkpoint_of(text),
        exceptions=trace.exceptions,
        message=trace.message,
        frames=trace.frames,
    )


def _flattened(row: dict[str, Any]) -> dict[str, Any]:
    """Nested fields of collectors, under their own name and, as in ECS, with the outer name before it."""
    flat: dict[str, Any] = {}
    for outer in _NESTED:
        inner = row.get(outer)
        if isinstance(inner, dict):
            flat.update(inner)
            flat.update({f"{outer}.{name}": value for name, value in inner.items()})
    flat.update(row)
    return flat


def _text(row: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int) and not isinstance(value, bool) and names is _LEVEL:
            return None
    return None


def _time(row: Mapping[str, Any]) -> int | None:
    for name in _TIME:
        value = row.get(name)
        if isinstance(value, dict) and isinstance(value.get("epochSecond"), int):
            return int(value["epochSecond"]) * 1000 + int(value.get("nanoOfSecond") or 0) // 1_000_000
        if isinstance(value, str):
            found = milliseconds(value) or (_since_1970(int(value)) if value.isdecimal() and len(value) < 20 else None)
            if found is not None:
                return found
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return _since_1970(value)
    return None


def _since_1970(number: float) -> int:
    """Seconds, milliseconds, microseconds or nanoseconds, by magnitude."""
    if number >= _NANOSECONDS:
        return int(number // 1_000_000)
    if number >= _MICROSECONDS:
        return int(number // 1_000)
    return int(number if number >= _MILLISECONDS else number * 1000)


def _trace(row: Mapping[str, Any], message: str) -> Trace:
    first, _, rest = message.partition("\n")
    written = next((row[name] for name in _TRACE if row.get(name)), None)
    if isinstance(written, str):
        return read_trace(first, f"{rest}\n{written}")
    if not isinstance(written, dict):
        return read_trace(first, rest)
    if (printed := _text(written, _PRINTED)) is not None and starts_trace(printed):
        return read_trace(first, f"{rest}\n{printed}")
    links, frames = _chain(written)
    return Trace(message.replace("\n", " ")[:MESSAGE_CHARACTERS], tuple(links), tuple(frames))


def _chain(thrown: Mapping[str, Any]) -> tuple[list[ExceptionLink], list[str]]:
    """log4j's `thrown` with its `cause`s; Spark's `exception`, which has none of its own."""
    links: list[ExceptionLink] = []
    frames: list[str] = []
    each: object = thrown
    while isinstance(each, dict) and len(links) < 30:
        name = _text(each, ("name", "class", "exception_class", "type")) or "unknown"
        written = _text(each, ("message", "msg", "exception_message", "localizedMessage")) or ""
        first, _, rest = written.partition("\n")
        links.append(ExceptionLink(name, first[:2_000]))
        further = read_trace("", f"{rest}\n{_text(each, ('stacktrace',)) or ''}")
        links += further.exceptions
        frames += [*_frames(each), *further.frames][:3]
        each = each.get("cause")
    return links, frames


def _frames(thrown: Mapping[str, Any]) -> list[str]:
    rows = thrown.get("stacktrace") or thrown.get("extendedStackTrace") or thrown.get("stackTrace")
    if not isinstance(rows, list):
        return []
    return [f"{row.get('class')}.{row.get('method')}" for row in rows[:3] if isinstance(row, dict)]
