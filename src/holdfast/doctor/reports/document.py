"""The content of a report: the findings, and what was examined."""

from __future__ import annotations

import msgspec

from holdfast.finding import Finding


class LogsRead(msgspec.Struct, frozen=True, kw_only=True):
    files: int
    bytes: int
    lines: int
    events: int
    unparsed: int
    """Lines that belong to no event."""
    engines: tuple[str, ...] = ()
    """Which wrote them: `flink`, `spark`."""
    version: str | None = None
    exceptions: int = 0
    """In what was examined: all of a short text, of a longer one the events in which a rule finds its words."""
    thrown: tuple[str, ...] = ()
    """The first of these exceptions."""
    skipped: tuple[str, ...] = ()
    """Files that were not read, or not to their end, each with the reason."""


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    findings: tuple[Finding, ...]
    logs: LogsRead | None = None
    job: str | None = None
    home: str | None = None


def summary(report: Report) -> str:
    """One line: how many findings, and from what."""
    counts = dict.fromkeys(("critical", "warning", "info"), 0)
    for finding in report.findings:
        counts[finding.severity] += 1
    found = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count) or "nothing found"
    return f"{found} in {_looked_at(report)}"


def unknown(report: Report) -> tuple[str, ...]:
    """Where nothing was found: what was recognised, and what would help."""
    logs = report.logs
    if logs is None or report.findings:
        return ()
    names = " and ".join(engine.capitalize() for engine in logs.engines) or "neither Flink nor Spark"
    version = f" {logs.version}" if logs.version and len(logs.engines) == 1 else ""
    exceptions = "1 exception" if logs.exceptions == 1 else f"{logs.exceptions:,} exceptions"
    lines = "1 line that begins" if logs.events == 1 else f"{logs.events:,} lines that begin"
    recognised = f"recognised: {names}{version}, {exceptions} that no rule knows, {lines} like a line of a log"
    return (recognised, *(f"  {text}" for text in logs.thrown), f"what would help: {_wanted(logs)}")


def _wanted(logs: LogsRead) -> str:
    if logs.engines == ("flink",):
        return (
            "the JobManager's log from five minutes before the failure on, and the end of the log of the TaskManager "
            "that it names"
        )
    if logs.engines == ("spark",):
        return "the driver's log from before `terminated with error`, and stderr of the executor that it names"
    return (
        "the log of the JobManager or the driver: the first exception with its `Caused by` lines, and the hundred "
        "lines before it"
    )


def _looked_at(report: Report) -> str:
    if report.logs is None:
        return f"the history of {report.job}"
    logs = report.logs
    files = "1 file" if logs.files == 1 else f"{logs.files:,} files"
    belong = "1 belongs" if logs.unparsed == 1 else f"{logs.unparsed:,} belong"
    # Of a paste without one line as a log begins them, this says nothing: its trace is evidence all the same.
    unread = f", of which {belong} to no event" if logs.unparsed and logs.events else ""
    return f"{files}, {'1 line' if logs.lines == 1 else f'{logs.lines:,} lines'}{unread}"
