"""The timeline of a report as an inline SVG: one row per finding, with what followed from it below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from holdfast.doctor.finding import Finding

_LABEL = 260
_WIDTH = 960
_ROW = 26
_TOP = 30
_LEAST_BAR = 6
_TICKS = 5
_ROWS = 60


@dataclass(frozen=True)
class _Row:
    label: str
    style: str
    begin: float
    end: float
    count: int


def timeline(findings: Sequence[Finding]) -> str:
    """Empty when the logs have no times."""
    rows = [row for finding in findings for row in _rows(finding)][:_ROWS]
    if not rows:
        return ""
    begin, end = min(row.begin for row in rows), max(row.end for row in rows)
    scale = (_WIDTH - _LABEL - 20) / max(1.0, end - begin)
    height = _TOP + _ROW * len(rows) + 10
    parts = [
        f'<svg class="timeline" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="When each finding was seen">',
        *_axis(begin, end, scale, height),
        *(part for index, row in enumerate(rows) for part in _drawn(row, index, begin, scale)),
        "</svg>",
    ]
    return "\n".join(parts)


def _rows(finding: Finding) -> Iterator[_Row]:
    if finding.first_seen is None or finding.last_seen is None:
        return
    yield _Row(finding.code, finding.severity, _seconds(finding.first_seen), _seconds(finding.last_seen), finding.count)
    for effect in finding.consequences:
        if effect.first_seen is not None and effect.last_seen is not None:
            begin, end = _seconds(effect.first_seen), _seconds(effect.last_seen)
            yield _Row(f"↳ {effect.code}", "consequence", begin, end, effect.count)


def _axis(begin: float, end: float, scale: float, height: int) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        moment = begin + (end - begin) * tick / _TICKS
        x = _LABEL + (moment - begin) * scale
        yield f'<line class="grid" x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{height - 6}"/>'
        if tick in (0, _TICKS) or end - begin > _TICKS:
            anchor = "start" if tick == 0 else "end" if tick == _TICKS else "middle"
            clock = _clock(moment, begin, end)
            yield f'<text class="tick" x="{x:.1f}" y="{_TOP - 12}" text-anchor="{anchor}">{clock}</text>'
        if end == begin:
            return


def _drawn(row: _Row, index: int, begin: float, scale: float) -> Iterator[str]:
    y = _TOP + index * _ROW
    x = _LABEL + (row.begin - begin) * scale
    width = max(_LEAST_BAR, (row.end - row.begin) * scale)
    yield f'<text class="label" x="0" y="{y + 16}">{escape(row.label)}</text>'
    yield f'<rect class="{row.style}" x="{x:.1f}" y="{y + 4}" width="{width:.1f}" height="16" rx="3">'
    yield f"<title>{escape(row.label)}: {row.count} times</title></rect>"


def _clock(moment: float, begin: float, end: float) -> str:
    pattern = "%m-%d %H:%M" if end - begin > 86_400 else "%H:%M:%S"
    return datetime.fromtimestamp(moment, UTC).strftime(pattern)


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
