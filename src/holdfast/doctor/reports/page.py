"""The report as one HTML file: no script, no font, no image from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from holdfast.doctor.reports.chart import anchor, timeline
from holdfast.doctor.reports.document import Report, summary
from holdfast.doctor.reports.style import STYLE
from holdfast.doctor.reports.wording import because, counted, elsewhere, followed, happened, period, shown
from holdfast.finding import Finding


def page(report: Report) -> str:
    findings = "\n".join(_finding(finding, number) for number, finding in enumerate(report.findings))
    skipped = report.logs.skipped if report.logs else ()
    unread = f'<article class="info"><h2>Not read</h2><pre>{_text(skipped)}</pre></article>' if skipped else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>holdfast doctor</title><style>{STYLE}</style></head><body>\n"
        f'<header><h1>holdfast doctor</h1><p class="soft">{escape(summary(report))}.</p></header>\n'
        f"<main>{timeline(report.findings)}\n{findings}\n{unread}</main></body></html>\n"
    )


def _finding(finding: Finding, number: int) -> str:
    rows = [
        ("when", escape(period(finding))),
        ("job", f"<code>{escape(finding.job)}</code>" if finding.job else ""),
        ("or", "<br>".join(map(escape, finding.other_causes))),
        ("then", "<br>".join(escape(followed(finding, effect)) for effect in finding.consequences)),
        ("change", _lines_to_copy(finding.fix)),
        ("in holdfast", _lines_to_copy(elsewhere(finding))),
        ("evidence", _evidence(finding)),
        ("counted", f"<pre>{_text(counted(finding))}</pre>" if counted(finding) else ""),
        ("see", escape(", ".join(finding.references))),
    ]
    listed = "\n".join(f"<dt>{label}</dt><dd>{value}</dd>" for label, value in rows if value)
    return (
        f'<article class="{finding.severity}" id="{anchor(number)}">\n'
        f'<h2><span class="badge">{finding.severity}</span> {escape(finding.code)}</h2>\n'
        f'<p class="what">{escape(_sentence(happened(finding)))}</p>\n'
        f'<p class="why">{escape(_sentence(because(finding)))}</p>\n'
        f"<dl>{listed}</dl></article>"
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lines_to_copy(lines: Sequence[str]) -> str:
    """Advice, which is not to be copied, is shown differently."""
    if not lines:
        return ""
    marked = (f'<span class="soft">{escape(line)}</span>' if line.startswith("#") else escape(line) for line in lines)
    return f"<pre>{chr(10).join(marked)}</pre>"


def _evidence(finding: Finding) -> str:
    lines: list[str] = []
    for each in finding.evidence:
        where, text = shown(finding, each)
        lines += [f'<span class="soft">{escape(where)}</span>'] if where else []
        lines.append(escape(text))
    return f"<pre>{chr(10).join(lines)}</pre>"


def _text(lines: Iterable[str]) -> str:
    return escape("\n".join(lines))
