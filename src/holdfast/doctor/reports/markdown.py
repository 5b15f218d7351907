"""The report for a ticket."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.doctor.reports.document import Report, summary
from holdfast.doctor.reports.wording import because, counted, elsewhere, followed, happened, period, shown
from holdfast.finding import Finding


def markdown(report: Report) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield "# Findings"
    yield ""
    yield f"{_escaped(summary(report))}."
    for finding in report.findings:
        yield ""
        yield from _finding(finding)
    if report.logs and report.logs.skipped:
        yield ""
        yield "Not read:"
        yield ""
        yield from (f"- {_escaped(skipped)}" for skipped in report.logs.skipped)


def _finding(finding: Finding) -> Iterator[str]:
    yield f"## {finding.severity}: {finding.code}"
    yield ""
    yield f"- **What happened:** {_escaped(happened(finding))}"
    yield f"- **When:** {period(finding)}"
    if finding.job:
        yield f"- **Job:** `{finding.job}`"
    yield f"- **Why:** {_escaped(because(finding))}"
    yield from (f"- **Also possible:** {_escaped(other)}" for other in finding.other_causes)
    yield from (f"- **Followed by:** {_escaped(followed(finding, effect))}" for effect in finding.consequences)
    if finding.references:
        yield f"- **See:** {_escaped(', '.join(finding.references))}"
    yield ""
    yield "What to change:"
    yield ""
    yield from _block(finding.fix)
    yield ""
    if elsewhere(finding):
        yield "In holdfast:"
        yield ""
        yield from _block(elsewhere(finding))
        yield ""
    yield "Evidence:"
    yield ""
    yield from _block([": ".join(filter(None, shown(finding, each))) for each in finding.evidence])
    if counted(finding):
        yield ""
        yield "Failures that were counted:"
        yield ""
        yield from _block(counted(finding))


def _block(lines: tuple[str, ...] | list[str]) -> Iterator[str]:
    fence = "```"
    while any(fence in line for line in lines):
        fence += "`"
    yield fence
    yield from lines
    yield fence


def _escaped(text: str) -> str:
    for mark in "\\`*_<>#|":
        text = text.replace(mark, "\\" + mark)
    return text
