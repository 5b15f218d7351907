"""Horizontal bars with their spread, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP = 720, 30, 190, 120, 34
_COLOURS = {"ours": "#2a6f97", "others": "#9aa5b1"}


@dataclass(frozen=True)
class Bar:
    label: str
    least: float
    middle: float
    most: float
    shown: str
    ours: bool


def bars(title: str, each: Sequence[Bar]) -> str:
    height = _TOP + _ROW * len(each) + 8
    most = max((bar.most for bar in each), default=1.0) or 1.0
    rows = "\n".join(_row(bar, _TOP + number * _ROW, most) for number, bar in enumerate(each))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'font-family="sans-serif" font-size="13">\n<title>{escape(title)}</title>\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>\n'
        f'<text x="8" y="20" font-weight="bold" fill="#1f2933">{escape(title)}</text>\n{rows}\n</svg>\n'
    )


def _row(bar: Bar, top: int, most: float) -> str:
    def at(value: float) -> float:
        return round(_LEFT + value / most * (_WIDTH - _LEFT - _RIGHT), 1)

    middle, colour = top + _ROW // 2, _COLOURS["ours" if bar.ours else "others"]
    return (
        f'<text x="{_LEFT - 8}" y="{middle + 4}" text-anchor="end" fill="#1f2933">{escape(bar.label)}</text>\n'
        f'<rect x="{_LEFT}" y="{top + 6}" width="{round(at(bar.middle) - _LEFT, 1)}" height="{_ROW - 12}" '
        f'fill="{colour}"/>\n'
        f'<path d="M{at(bar.least)} {middle}H{at(bar.most)}" stroke="#1f2933" stroke-width="1.5"/>\n'
        f'<text x="{at(bar.most) + 8}" y="{middle + 4}" fill="#1f2933">{escape(bar.shown)}</text>'
    )
