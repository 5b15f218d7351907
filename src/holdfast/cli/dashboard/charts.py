"""Charts as SVG of our own: every mark has its number as a title and in `data-value`. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.cli.dashboard.markup import Markup, tag
from holdfast.cli.dashboard.shapes import bar, mark

_HEIGHT, _TOP = 110, 14


@dataclass(frozen=True)
class Mark:
    """One point in time."""

    label: str
    """What and when."""
    parts: tuple[tuple[str, float], ...]
    """Names and values, stacked; empty for a failure, and where the value is not known."""
    id: int | None = None
    """Of its checkpoint: marks of the same one belong together."""
    failed: bool = False

    @property
    def total(self) -> float:
        return sum(value for _, value in self.parts)


def bars(title: str, marks: Sequence[Mark], shown: Callable[[float], str]) -> Markup:
    """Zero-based; oldest on the left; the newest value is written above. A failure is a cross."""
    highest = max((mark.total for mark in marks), default=0.0) or 1.0
    step = 1 / max(len(marks), 1)
    names = list(dict.fromkeys(name for mark in marks for name, _ in mark.parts))
    drawn = [_bar(each, number * step, step, highest, names, shown) for number, each in enumerate(marks)]
    newest = next((mark for mark in reversed(marks) if mark.parts), None)
    text = f"{title}: {len(marks)} points, highest {shown(highest)}"
    return tag(
        "figure",
        tag("figcaption", tag("span", title), tag("b", shown(newest.total) if newest else "-")),
        tag("svg", drawn, role="img", aria_label=text),
        _legend(names) if len(names) > 1 else None,
        class_="chart",
        data_title=title,
    )


def _bar(each: Mark, x: float, step: float, highest: float, names: list[str], shown: Callable[[float], str]) -> Markup:
    width = step * 0.8
    if each.failed:
        line = bar(x + width * 0.4, width * 0.2, _TOP, _HEIGHT - _TOP, "failed")
        body = [tag("title", each.label), line, mark("cross", x + width / 2, _HEIGHT - 6, "failed")]
    elif not each.parts:
        body = [tag("title", f"{each.label}: not known")]
    else:
        body = [tag("title", f"{each.label}: {_spelt(each, shown)}"), *_pieces(each, x, width, highest, names)]
    return tag(
        "g", *body, data_value=f"{each.total:.15g}" if each.parts else None, data_failed=each.failed, data_id=each.id
    )


def _spelt(mark: Mark, shown: Callable[[float], str]) -> str:
    if len(mark.parts) == 1:
        return shown(mark.total)
    return f"{shown(mark.total)} (" + ", ".join(f"{name} {shown(value)}" for name, value in mark.parts) + ")"


def _pieces(each: Mark, x: float, width: float, highest: float, names: list[str]) -> list[Markup]:
    drawn, bottom = [], float(_HEIGHT)
    for name, value in each.parts:
        height = value / highest * (_HEIGHT - _TOP)
        bottom -= height
        drawn.append(bar(x, width, bottom, height, f"part{names.index(name) % 5}"))
    return drawn


def _legend(names: Sequence[str]) -> Markup:
    return tag("p", [tag("span", name, class_=f"key part{n % 5}") for n, name in enumerate(names)], class_="legend")


def spark_line(marks: Sequence[tuple[str, float | None]], shown: Callable[[float], str]) -> Markup:
    """The last checkpoints of a job in a row of a table: names and values, None for a failure."""
    values = [value for _, value in marks]
    highest = max((value for value in values if value is not None), default=0.0) or 1.0
    drawn = [_tick(number * 5, name, value, highest, shown) for number, (name, value) in enumerate(marks)]
    failures = sum(value is None for value in values)
    text = f"durations of the last {len(values)} checkpoints, {failures} failed"
    return tag("svg", drawn, viewBox="0 0 100 18", class_="spark", role="img", aria_label=text)


def _tick(x: int, name: str, value: float | None, highest: float, shown: Callable[[float], str]) -> Markup:
    title = tag("title", f"{name}: {'failed' if value is None else shown(value)}")
    if value is None:
        return tag("path", title, d=f"M{x} 10l4 7m0-7l-4 7", class_="cross failed")
    height = max(2.0, value / highest * 18)
    return tag("rect", title, x=x, y=f"{18 - height:.1f}", width=4, height=f"{height:.1f}", class_="part0")


def ranking(title: str, values: Sequence[tuple[str, float]], shown: Callable[[float], str]) -> Markup:
    """One bar below the other, each with its number beside it."""
    highest = max((value for _, value in values), default=0.0) or 1.0
    rows = []
    for name, value in values:
        picture = tag("svg", bar(0, value / highest, 2, 12, "part0"), class_="bar", aria_hidden="true")
        cells = (tag("th", name, scope="row"), tag("td", picture), tag("td", shown(value), class_="number"))
        rows.append(tag("tr", cells, data_name=name, data_value=f"{value:.15g}"))
    return tag("table", tag("tbody", rows), class_="waterfall", aria_label=title)


def waterfall(phases: Sequence[tuple[str, float]], shown: Callable[[float], str]) -> Markup:
    """Phases one after the other, as long as they took."""
    total = sum(value for _, value in phases) or 1.0
    rows, begun = [], 0.0
    for name, value in phases:
        drawn = bar(begun / total, max(0.0025, value / total), 2, 12, "part0")
        picture = tag("svg", drawn, class_="bar", aria_hidden="true")
        rows.append(
            tag(
                "tr",
                tag("th", name, scope="row"),
                tag("td", picture),
                tag("td", shown(value), class_="number"),
                data_value=f"{value:.15g}",
            )
        )
        begun += value
    return tag("table", tag("tbody", rows), class_="waterfall")
