"""The doctor: a paste, and the report about it."""

from collections.abc import Sequence
from datetime import datetime

from holdfast.cli.dashboard.markup import Child, Markup, tag
from holdfast.cli.dashboard.pages.layout import finding_article, whole_page
from holdfast.cli.home_reader import HomeReading
from holdfast.finding import Finding


def doctor_page(reading: HomeReading, now: datetime, report: Child = None) -> str:
    form = tag(
        "form",
        tag("label", "A stack trace or part of a log", for_="text"),
        tag("textarea", name="text", id="text", rows=14, spellcheck="false", required=True),
        tag("p", tag("label", "or a file ", tag("input", type="file", id="file"))),
        tag("button", "Examine"),
        method="post",
        action="/doctor",
    )
    explained = "Nothing leaves this machine: the text is examined by this process."
    return whole_page("Doctor", reading, now, tag("h1", "Doctor"), tag("p", explained), report, form)


def doctor_report(findings: Sequence[Finding]) -> Markup:
    if not findings:
        return tag("section", tag("h2", "Report"), tag("p", "Nothing known was found in this text."), id="report")
    return tag("section", tag("h2", "Report"), [finding_article(each) for each in findings], id="report")
