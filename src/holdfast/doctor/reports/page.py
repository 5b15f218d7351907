"""The report as one HTML file: no script, no font, no image from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from holdfast.doctor.finding import Finding
from holdfast.doctor.reports.chart import timeline
from holdfast.doctor.reports.document import Report, summary
from holdfast.doctor.reports.wording import elsewhere, followed, happened, period, place

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --soft: #57606a; --line: #d0d7de; --code: #f6f8fa;
  --critical: #b3261e; --warning: #9a6700; --info: #0550ae; --consequence: #8c959f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --soft: #9198a1; --line: #30363d;
  --code: #161b22; --critical: #ff7b72; --warning: #d29922; --info: #79c0ff; --consequence: #6e7681; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 980px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; border-top: 1px solid var(--line); padding-top: 1rem; }
h2 .critical { color: var(--critical); } h2 .warning { color: var(--warning); } h2 .info { color: var(--info); }
dl { display: grid; grid-template-columns: 8rem 1fr; gap: .2rem 1rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; }
pre { background: var(--code); padding: .6rem .8rem; border-radius: 6px; overflow-x: auto; margin: .2rem 0;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: 13px; }
.timeline { width: 100%; height: auto; margin: 1rem 0; }
.timeline text { fill: var(--ink); font: 12px system-ui, sans-serif; }
.timeline .tick { fill: var(--soft); font-size: 11px; } .timeline .grid { stroke: var(--line); }
.timeline .critical { fill: var(--critical); } .timeline .warning { fill: var(--warning); }
.timeline .info { fill: var(--info); }
.timeline .consequence { fill: var(--consequence); }
"""


def page(report: Report) -> str:
    findings = "\n".join(_finding(finding) for finding in report.findings)
    skipped = report.logs.skipped if report.logs else ()
    unread = f"<h2>Not read</h2><pre>{_text(skipped)}</pre>" if skipped else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>holdfast doctor</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>holdfast doctor</h1><p>{escape(summary(report))}.</p>\n"
        f"{timeline(report.findings)}\n{findings}\n{unread}</body></html>\n"
    )


def _finding(finding: Finding) -> str:
    rows = [
        ("what", escape(happened(finding))),
        ("when", escape(period(finding))),
        ("job", escape(finding.job or "")),
        ("why", escape(finding.cause)),
        *(("or", escape(other)) for other in finding.other_causes),
        *(("then", escape(followed(effect))) for effect in finding.consequences),
        ("change", f"<pre>{_text(finding.fix)}</pre>"),
        ("in holdfast", f"<pre>{_text(elsewhere(finding))}</pre>" if elsewhere(finding) else ""),
        ("evidence", f"<pre>{_text(f'{place(each)}: {each.text}' for each in finding.evidence)}</pre>"),
        ("see", escape(", ".join(finding.references))),
    ]
    listed = "\n".join(f"<dt>{label}</dt><dd>{value}</dd>" for label, value in rows if value)
    heading = f'<span class="{finding.severity}">{finding.severity}</span> {escape(finding.code)}'
    return f"<h2>{heading}</h2>\n<dl>{listed}</dl>"


def _text(lines: Iterable[str]) -> str:
    return escape("\n".join(lines))
