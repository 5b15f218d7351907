"""The timeline of a report: a row per finding, its consequences below it. Positions are shares of the width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from holdfast.finding import Finding

_TICKS = 4
_ROWS = 60
_DAY = 86_400
_CLOCKS = ((200 * _DAY, "%Y-%m-%d"), (_DAY, "%m-%d %H:%M"), (3_600, "%H:%M"), (-1, "%H:%M:%S"))
"""By how many seconds are to be shown, at least."""


@dataclass(frozen=True)
class _Row:
    label: str
    style: str
    anchor: str
    begin: float
    end: float
    count: int


def anchor(number: int) -> str:
    """Of the finding with this number in the report."""
    return f"finding-{number}"


def timeline(findings: Sequence[Finding]) -> str:
    """Empty when the logs have no times."""
    every = [row for number, finding in enumerate(findings) for row in _rows(finding, anchor(number))]
    if not every:
        return ""
    rows = every[:_ROWS]
    begin, end = min(row.begin for row in rows), max(row.end for row in rows)
    left_out = [f'<p class="soft">and {len(every) - len(rows)} more below</p>'] if len(every) > len(rows) else []
    parts = [
        '<section class="timeline" aria-label="When each finding was seen">',
        f'<div class="row axis"><span class="soft">{_day(begin, end)}</span><div class="track">',
        *_axis(begin, end),
        "</div></div>",
        *(_drawn(row, begin, end) for row in rows),
        *left_out,
        "</section>",
    ]
    return "\n".join(parts)


def _rows(finding: Finding, place: str) -> Iterator[_Row]:
    if finding.first_seen is None or finding.last_seen is None:
        return
    begin, end = _seconds(finding.first_seen), _seconds(finding.last_seen)
    yield _Row(finding.code, finding.severity, place, begin, end, finding.count)
    for effect in finding.consequences:
        if effect.first_seen is not None and effect.last_seen is not None:
            begin, end = _seconds(effect.first_seen), _seconds(effect.last_seen)
            yield _Row(f"↳ {effect.code}", "consequence", place, begin, end, effect.count)


def _axis(begin: float, end: float) -> Iterator[str]:
    if end == begin:
        yield f'<span class="tick first" style="left:0%">{_clock(begin, begin, end)}</span>'
        return
    for tick in range(_TICKS + 1):
        moment = begin + (end - begin) * tick / _TICKS
        edge = " first" if tick == 0 else " last" if tick == _TICKS else ""
        between = " between" if 0 < tick < _TICKS else ""
        clock = _clock(moment, begin, end)
        yield f'<span class="tick{edge}{between}" style="left:{100 * tick / _TICKS:.0f}%">{clock}</span>'


def _drawn(row: _Row, begin: float, end: float) -> str:
    whole = max(1.0, end - begin)
    left, width = 100 * (row.begin - begin) / whole, 100 * (row.end - row.begin) / whole
    times = "once" if row.count == 1 else f"{row.count:,} times"
    when = f"{_clock(row.begin, begin, end)} to {_clock(row.end, begin, end)}"
    return (
        f'<div class="row"><a class="label {row.style}" href="#{row.anchor}">{escape(row.label)}</a>'
        f'<div class="track" title="{escape(row.label)}, {times}, {when}">'
        f'<i class="bar {row.style}" style="left:min({left:.2f}%, 100% - 6px);width:{width:.2f}%"></i></div></div>'
    )


def _day(begin: float, end: float) -> str:
    """Once, where all is on one day."""
    return "" if end - begin > _DAY else datetime.fromtimestamp(begin, UTC).strftime("%Y-%m-%d, UTC")


def _clock(moment: float, begin: float, end: float) -> str:
    span = end - begin
    pattern = next(pattern for longer_than, pattern in _CLOCKS if span > longer_than)
    return datetime.fromtimestamp(moment, UTC).strftime(pattern)


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
