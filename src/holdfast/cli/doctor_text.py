"""The doctor's report for a terminal."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.cli.output import labelled
from holdfast.doctor.reports.document import Report, summary, unknown
from holdfast.doctor.reports.wording import because, counted, elsewhere, followed, happened, period, shown
from holdfast.finding import Finding

if TYPE_CHECKING:
    from rich.text import Text

STYLES = {"critical": "bold red", "warning": "bold yellow", "info": "bold cyan"}


def lines(report: Report) -> Iterator["Text"]:
    from rich.text import Text

    for finding in report.findings:
        yield from finding_lines(finding)
    for skipped in report.logs.skipped if report.logs else ():
        yield Text.assemble(("not read: ", "yellow"), skipped)
    yield Text(summary(report))
    for line in unknown(report):
        yield Text(line)


def finding_lines(finding: Finding) -> Iterator["Text"]:
    from rich.text import Text

    yield Text.assemble((finding.severity, STYLES[finding.severity]), "  ", (finding.code, "bold"))
    yield labelled("what", happened(finding))
    yield labelled("when", period(finding))
    if finding.job:
        yield labelled("job", finding.job)
    yield labelled("why", because(finding))
    yield from _column("or", finding.other_causes)
    yield from _column("then", [followed(finding, effect) for effect in finding.consequences])
    yield from _changes("change", finding.fix)
    yield from _changes("in holdfast", elsewhere(finding))
    yield from _column("evidence", ["  ".join(filter(None, shown(finding, each))) for each in finding.evidence])
    yield from _column("counted", counted(finding))
    yield from _column("see", [", ".join(finding.references)] if finding.references else [])
    yield Text()


def _changes(label: str, fix: Sequence[str]) -> Iterator["Text"]:
    """Lines to copy are highlighted; advice is not."""
    for index, line in enumerate(fix):
        first = label if index == 0 else ""
        if line.startswith("# "):
            yield labelled(first, line.removeprefix("# "))
        else:
            yield labelled(first, (line, "bold green"))


def _column(label: str, texts: Sequence[str]) -> Iterator["Text"]:
    for index, text in enumerate(texts):
        yield labelled(label if index == 0 else "", text)
