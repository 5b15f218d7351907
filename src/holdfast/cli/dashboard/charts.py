"""Charts as SVG of our own: every mark has its number as a title and in `data-value`. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.cli.dashboard.markup import Markup, tag

_WIDTH, _HEIGHT, _TOP = 600, 110, 14


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
    step = _WIDTH / max(len(marks), 1)
    names = list(dict.fromkeys(name for mark in marks for name, _ in mark.parts))
    drawn = [_bar(mark, number * step, step, highest, names, shown) for number, mark in enumerate(marks)]
    newest = next((mark for mark in reversed(marks) if mark.parts), None)
    text = f"{title}: {len(marks)} points, highest {shown(highest)}"
    return tag(
        "figure",
        tag("figcaption", tag("span", title), tag("b", shown(newest.total) if newest else "-")),
        tag("svg", drawn, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=text, preserveAspectRatio="none"),
        _legend(names) if len(names) > 1 else None,
        class_="chart",
        data_title=title,
    )


def _bar(mark: Mark, x: float, step: float, highest: float, names: list[str], shown: Callable[[float], str]) -> Markup:
    width = max(1.0, step * 0.8)
    if mark.failed:
        drawn = [tag("rect", x=f"{x:.1f}", y=_TOP, width=f"{width:.1f}", height=_HEIGHT - _TOP, class_="failed")]
        body = [tag("title", mark.label), *drawn]
    elif not mark.parts:
        body = [tag("title", f"{mark.label}: not known")]
    else:
        body = [tag("title", f"{mark.label}: {_spelt(mark, shown)}"), *_pieces(mark, x, width, highest, names)]
    return tag(
        "g", *body, data_value=f"{mark.total:.15g}" if mark.parts else None, data_failed=mark.failed, data_id=mark.id
    )


def _spelt(mark: Mark, shown: Callable[[float], str]) -> str:
    if len(mark.parts) == 1:
        return shown(mark.total)
    return f"{shown(mark.total)} (" + ", ".join(f"{name} {shown(value)}" for name, value in mark.parts) + ")"


def _pieces(mark: Mark, x: float, width: float, highest: float, names: list[str]) -> list[Markup]:
    drawn, bottom = [], float(_HEIGHT)
    for name, value in mark.parts:
        height = value / highest * (_HEIGHT - _TOP)
        bottom -= height
        colour = f"part{names.index(name) % 5}"
        drawn.append(
            tag("rect", x=f"{x:.1f}", y=f"{bottom:.1f}", width=f"{width:.1f}", height=f"{height:.1f}", class_=colour)
        )
    return drawn


def _legend(names: Sequence[str]) -> Markup:
    return tag("p", [tag("span", name, class_=f"key part{n % 5}") for n, name in enumerate(names)], class_="legend")


def spark_line(marks: Sequence[tuple[str, float | None]], shown: Callable[[float], str]) -> Markup:
    """The last checkpoints of a job in a row of a table: names and values, None for a failure."""
    values = [value for _, value in marks]
    highest = max((value for value in values if value is not None), default=0.0) or 1.0
    drawn = []
    for number, (name, value) in enumerate(marks):
        height = 18.0 if value is None else max(2.0, value / highest * 18)
        colour = "failed" if value is None else "part0"
        title = tag("title", f"{name}: {'failed' if value is None else shown(value)}")
        place = {"x": number * 5, "y": f"{18 - height:.1f}", "width": 4, "height": f"{height:.1f}"}
        drawn.append(tag("rect", title, class_=colour, **place))
    failures = sum(value is None for value in values)
    text = f"durations of the last {len(values)} checkpoints, {failures} failed"
    return tag("svg", drawn, viewBox="0 0 100 18", class_="spark", role="img", aria_label=text)


def ranking(title: str, values: Sequence[tuple[str, float]], shown: Callable[[float], str]) -> Markup:
    """One bar below the other, each with its number beside it."""
    highest = max((value for _, value in values), default=0.0) or 1.0
    rows = []
    for name, value in values:
        bar = tag("rect", x=0, y=2, width=f"{value / highest * 400:.1f}", height=12, class_="part0")
        picture = tag("svg", bar, viewBox="0 0 400 16", class_="bar", aria_hidden="true", preserveAspectRatio="none")
        cells = (tag("th", name, scope="row"), tag("td", picture), tag("td", shown(value), class_="number"))
        rows.append(tag("tr", cells, data_name=name, data_value=f"{value:.15g}"))
    return tag("table", tag("tbody", rows), class_="waterfall", aria_label=title)


def waterfall(phases: Sequence[tuple[str, float]], shown: Callable[[float], str]) -> Markup:
    """Phases one after the other, as long as they took."""
    total = sum(value for _, value in phases) or 1.0
    rows, begun = [], 0.0
    for name, value in phases:
        x, width = begun / total * 400, max(1.0, value / total * 400)
        bar = tag("rect", x=f"{x:.1f}", y=2, width=f"{width:.1f}", height=12, class_="part0")
        picture = tag("svg", bar, viewBox="0 0 400 16", class_="bar", aria_hidden="true", preserveAspectRatio="none")
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
