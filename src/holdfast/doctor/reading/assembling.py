"""Lines of one event -> `LogEvent`."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.json_layouts import from_json
from holdfast.doctor.reading.lines import FirstLine, first_line
from holdfast.doctor.reading.mentions import checkpoint_of, host_in_path, job_of, task_of
from holdfast.doctor.reading.pasted import is_prose
from holdfast.doctor.reading.prefixes import Stripped, stripped
from holdfast.doctor.reading.traces import Trace, read_trace


def event_of(source: str, line: int, lines: Sequence[str]) -> LogEvent:
    """The lines of one event, its first line first, all with their prefixes."""
    found = first_line(lines[0])
    if found is None:
        return headless(source, line, [stripped(text) for text in lines])
    return headed(source, line, *found, "\n".join(stripped(text).text for text in lines[1:]))


def headed(source: str, line: int, prefix: Stripped, first: FirstLine, continuation: str) -> LogEvent:
    """`continuation` without prefixes."""
    if first.is_json:
        event = from_json(source, line, first.message, prefix)
        if event is not None:
            return event
    return _event(source, line, prefix, first, read_trace(first.message, continuation))


def headless(source: str, line: int, lines: Sequence[Stripped]) -> LogEvent:
    """Text without a log line before it: a pasted exception, output of another program."""
    trace = read_trace("", "\n".join(each.text for each in lines))
    return _event(source, line, lines[0], FirstLine("", lines[0].time), trace)


def loose(source: str, line: int, lines: Sequence[Stripped]) -> LogEvent:
    """Text that belongs to no line of a log; an exception may also stand in the middle of a message."""
    trace = read_trace("", "\n".join(each.text for each in lines), anywhere=not is_prose(lines[0].text))
    return _event(source, line, lines[0], FirstLine("", lines[0].time), trace)


def _event(source: str, line: int, prefix: Stripped, first: FirstLine, trace: Trace) -> LogEvent:
    text = " ".join((first.context, trace.message, *(link.message for link in trace.exceptions)))
    task, subtask = task_of(text)
    return LogEvent(
        source=source,
        line=line,
        time=first.time,
        level=first.level,
        logger=first.logger,
        thread=first.thread,
        host=prefix.host or host_in_path(source),
        job=job_of(text),
        task=task,
        subtask=subtask,
        checkpoint=checkpoint_of(text),
        exceptions=trace.exceptions,
        message=trace.message,
        frames=trace.frames,
    )
