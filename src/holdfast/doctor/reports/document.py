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


def _looked_at(report: Report) -> str:
    if report.logs is None:
        return f"the history of {report.job}"
    logs = report.logs
    files = "1 file" if logs.files == 1 else f"{logs.files:,} files"
    belong = "1 belongs" if logs.unparsed == 1 else f"{logs.unparsed:,} belong"
    unread = f", of which {belong} to no event" if logs.unparsed else ""
    return f"{files}, {'1 line' if logs.lines == 1 else f'{logs.lines:,} lines'}{unread}"
