"""Charts of a job's checkpoints and batches, and the numbers behind them as a table."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from holdfast.cli import figures
from holdfast.cli.dashboard.charts import Mark, bars
from holdfast.cli.dashboard.judging import Judged
from holdfast.cli.dashboard.markup import Child, Markup, tag
from holdfast.cli.dashboard.pages.layout import cell, dollars, requests_of, size, table, time_of
from holdfast.cli.dashboard.pages.timeline import numbered
from holdfast.repository.documents import CheckpointDetail
from holdfast.repository.entries import BatchSpan
from holdfast.storage.prices import dollars_for

CHOICES = (30, 120, 480)
"""How many checkpoints can be shown at once."""
POINTS = 120

Value = Callable[[CheckpointDetail], float | None]


@dataclass(frozen=True)
class _Measure:
    name: str
    value: Value
    shown: Callable[[float], str]


def measures(job: Judged, points: Sequence[CheckpointDetail], batches: Sequence[BatchSpan]) -> Markup:
    """`points` and `batches` are oldest first."""
    home = job.seen.home
    measured = (
        _Measure("new bytes", lambda each: each.bytes_new, size),
        _Measure("size", lambda each: each.bytes_total, size),
        _Measure("requests", requests_of, lambda value: f"{value:,.0f}"),
        _Measure("cost of requests", lambda each: _cost(each, home), dollars),
    )
    of_checkpoints = [each for each in measured if any(each.value(point) is not None for point in points)]
    charts = [bars("duration by phase", [_mark(each, _phases(each)) for each in points], figures.duration)]
    for measure in of_checkpoints:
        marks = [_mark(each, [("", measure.value(each))]) for each in points]
        charts.append(bars(measure.name, marks, measure.shown))
    charts += _of_batches(batches)
    return tag(
        "section",
        tag("h2", "The last checkpoint" if len(points) == 1 else f"The last {len(points)} checkpoints"),
        _choices(len(job.history)),
        tag("div", charts, class_="charts"),
        tag("details", tag("summary", "Numbers of the checkpoints"), _numbers(points, of_checkpoints), id="measured"),
        id="measures",
    )


def _of_batches(batches: Sequence[BatchSpan]) -> list[Markup]:
    if not batches:
        return []
    rows = [Mark(_label(span), (("", span.rows / (span.last - span.first + 1)),)) for span in batches]
    charts = [bars("rows per batch", rows, lambda value: f"{value:,.0f}")]
    if any(span.state_rows is not None for span in batches):
        state = [Mark(_label(span), (("", float(span.state_rows or 0)),)) for span in batches]
        charts.append(bars("rows of state", state, lambda value: f"{value:,.0f}"))
    return charts


def _label(span: BatchSpan) -> str:
    return f"batch {numbered(span)} {span.at:%Y-%m-%d %H:%M:%S} UTC"


def _choices(available: int) -> Child:
    """Links, so that a choice is in the address."""
    offered = [number for number in CHOICES if number == CHOICES[0] or number < available * 2]
    links = [(tag("a", f"last {number}", href=f"?last={number}"), " ") for number in offered]
    return tag("p", links, class_="summary") if len(offered) > 1 else None


def _cost(each: CheckpointDetail, home: str) -> float | None:
    made = each.requests
    if made is None:
        return None
    return dollars_for(home, put=made.put, get=made.get, list=made.list, delete=made.delete)


def _phases(each: CheckpointDetail) -> list[tuple[str, float | None]]:
    return [(phase.name, float(phase.ms)) for phase in each.phases] or [("all", float(each.duration_ms or 0))]


def _mark(each: CheckpointDetail, parts: Iterable[tuple[str, float | None]]) -> Mark:
    when = f"{each.triggered_at:%Y-%m-%d %H:%M:%S} UTC"
    why = f" failed: {each.failure.reason}" if each.failure else ""
    known = () if each.failure else tuple((name, float(value)) for name, value in parts if value is not None)
    label = f"#{each.id} {when}{why}" if each.id is not None else f"{when}{why}"
    return Mark(label, known, each.id, failed=each.failure is not None)


def _numbers(points: Sequence[CheckpointDetail], shown: Sequence[_Measure]) -> Markup:
    phases = list(dict.fromkeys(name for each in points if not each.failure for name, _ in _phases(each)))
    heads = ("checkpoint", "triggered", "failed", *phases, *(measure.name for measure in shown))
    rows = []
    for each in reversed(points):
        spent = dict(_phases(each))
        values: list[tuple[str, float | None, Callable[[float], str]]] = [
            (name, spent.get(name), figures.duration) for name in phases
        ]
        values += [(measure.name, measure.value(each), measure.shown) for measure in shown]
        rows.append(
            tag(
                "tr",
                cell("checkpoint", "-" if each.id is None else f"#{each.id}", sort=each.id or 0),
                cell("triggered", time_of(each.triggered_at), sort=each.triggered_at.timestamp()),
                cell(
                    "failed",
                    each.failure.reason if each.failure else "",
                    sort=each.failure.reason if each.failure else "",
                ),
                [_number(name, None if each.failure else value, written) for name, value, written in values],
            )
        )
    return table("numbers", heads, rows)


def _number(name: str, value: float | None, written: Callable[[float], str]) -> Markup:
    if value is None:
        return cell(name, "-", sort="")
    return cell(name, written(value), sort=f"{value:.15g}", title=f"{value:.15g}")
