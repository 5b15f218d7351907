"""What happened when: batches, checkpoints, and the ends and beginnings of runs, over one axis of time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from holdfast.cli import figures
from holdfast.cli.dashboard.judging import Judged
from holdfast.cli.dashboard.markup import Child, Markup, tag
from holdfast.cli.dashboard.pages.layout import cell, iso, path_of, table, time_of
from holdfast.cli.dashboard.shapes import GLYPHS, Shape, bar, mark
from holdfast.cli.dashboard.spans import TimeSpan
from holdfast.repository.documents import CheckpointDetail
from holdfast.repository.entries import BatchSpan, QueryRestarted, RunEnded, RunStarted
from holdfast.showing import shown

_NARROWEST = 0.0017
"""Of the width: a mark can be seen."""
_ROWS = 300
_ALARM_PX = 12
_KEY: tuple[tuple[str, Shape | None, str], ...] = (
    ("part0", None, "batch, as high as it was long"),
    ("part1", None, "checkpoint, as wide as it was long"),
    ("part3", "diamond", "savepoint"),
    ("failed", "cross", "failed, died"),
    ("part1", "triangle", "a run begins"),
    ("part4", "square", "stopped"),
)
_SHAPES: Mapping[str, tuple[Shape, str]] = {
    "died": ("cross", "failed"),
    "began": ("triangle", "part1"),
    "ended": ("square", "part4"),
}
_COLOURS = {"critical": "failed", "warning": "part2", "info": "part4"}


@dataclass(frozen=True)
class Axis:
    begin: datetime
    end: datetime

    def at(self, when: datetime) -> float:
        """From 0 to 1."""
        whole = (self.end - self.begin).total_seconds() or 1.0
        return min(max((when - self.begin).total_seconds() / whole, 0.0), 1.0)


@dataclass(frozen=True)
class _Turn:
    """A run begins, ends or its query dies."""

    at: datetime
    kind: str
    text: str


@dataclass(frozen=True)
class _Raised:
    """An alarm from its beginning to its end, or to the last that is known of it."""

    code: str
    severity: str
    message: str
    since: datetime
    until: datetime
    lasts: bool

    @property
    def text(self) -> str:
        end = "it lasts" if self.lasts else _clock(self.until)
        return f"{self.severity}: {shown(self.code)} {_clock(self.since)} to {end}: {self.message}"


def batches_of(job: Judged) -> tuple[BatchSpan, ...]:
    """Oldest first; of the heartbeat those that no checkpoint in the journal has."""
    recorded = [span for each in job.history for span in each.batches]
    newest = max((span.at for span in recorded), default=None)
    report = job.seen.report
    reported = report.batches if report is not None else ()
    recorded += [span for span in reported if newest is None or span.at > newest]
    return tuple(sorted(recorded, key=lambda span: span.at))


def timeline(
    job: Judged, points: Sequence[CheckpointDetail], batches: Sequence[BatchSpan], span: TimeSpan | None, now: datetime
) -> Child:
    """`points` are the checkpoints to show, oldest first. With `span` the axis is that, else as long as they need."""
    axis = _axis(job, points, batches, now) if span is None else Axis(span.begin, span.end)
    turns = [turn for turn in _turns(job) if axis.begin <= turn.at <= axis.end]
    until_now = axis.end if span is None else now
    raised = [each for each in _raised(job, until_now) if each.until >= axis.begin and each.since <= axis.end]
    lanes = (
        _batch_lane(batches, axis),
        _lane("checkpoints", 24, (_checkpoint(each, axis) for each in points), _told(points)),
        _alarm_lane(raised, axis),
        _lane("runs", 16, (_turn(turn, axis) for turn in turns), "; ".join(turn.text for turn in turns) or "no change"),
    )
    key = [tag("span", _glyph(shape), text, class_=f"key {colour}") for colour, shape, text in _KEY]
    ends = (tag("span", _clock(axis.begin)), tag("span", _clock(axis.end)))
    return tag(
        "figure",
        *lanes,
        tag("p", ends, class_="axis"),
        tag("figcaption", key, class_="legend"),
        _details("Numbers of the batches", batch_table("batch-numbers", batches), "batches") if batches else None,
        _details("Alarms", _alarm_table(raised), "raised") if raised else None,
        class_="timeline",
        id="timeline",
        data_begin=iso(axis.begin),
        data_end=iso(axis.end),
    )


def span_form(job: Judged, span: TimeSpan | None) -> Markup:
    """What dragging over the timeline does, for keyboards and without script."""
    fields = [
        tag("label", f"{name} ", tag("input", type="datetime-local", step=1, name=name, value=at, required=True))
        for name, at in (("from", _typed(span.begin if span else None)), ("to", _typed(span.end if span else None)))
    ]
    form = tag("form", fields, " UTC ", tag("button", "Show"), action=path_of(job), class_="compare")
    whole = tag("a", "Show all of it again", href=path_of(job), id="whole") if span else None
    drag = tag("p", "Or drag over the timeline.", class_="summary")
    return tag("div", whole, tag("details", tag("summary", "Look at a span of time"), form, drag, id="span"))


def _typed(at: datetime | None) -> str | None:
    return None if at is None else f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"


def _axis(job: Judged, points: Sequence[CheckpointDetail], batches: Sequence[BatchSpan], now: datetime) -> Axis:
    begun = [each.triggered_at for each in points] + [_begin(span) for span in batches]
    return Axis(min(begun), max(now, *begun) if job.view.running else max(_ends(job, points, batches)))


def batch_table(name: str, batches: Sequence[BatchSpan]) -> Markup:
    rows = [
        tag(
            "tr",
            cell("batch", numbered(span), sort=span.first),
            cell("ended", time_of(span.at), sort=span.at.timestamp()),
            cell("took", figures.duration(span.ms), sort=span.ms, title=f"{span.ms} ms"),
            cell("longest", figures.duration(span.longest_ms), sort=span.longest_ms, title=f"{span.longest_ms} ms"),
            cell("rows", f"{span.rows:,}", sort=span.rows),
            cell(
                "rows of state", "-" if span.state_rows is None else f"{span.state_rows:,}", sort=span.state_rows or 0
            ),
            data_batch=span.first,
        )
        for span in list(batches)[-_ROWS:][::-1]
    ]
    return table(name, ("batch", "ended", "took", "longest", "rows", "rows of state"), rows)


def numbered(span: BatchSpan) -> str:
    return str(span.first) if span.first == span.last else f"{span.first}-{span.last}"


def _glyph(shape: Shape | None) -> Child:
    return tag("b", GLYPHS[shape], aria_hidden="true") if shape else None


def _lane(name: str, height: int, marks: Iterable[Markup], told: str) -> Markup:
    label = f"{name}: {told}"[:500]
    picture = tag("svg", list(marks), role="img", aria_label=label, height=height)
    return tag("div", tag("span", name), picture, class_="lane", data_lane=name)


def _details(summary: str, numbers: Markup, name: str) -> Markup:
    return tag("details", tag("summary", summary), numbers, id=name)


def _batch_lane(batches: Sequence[BatchSpan], axis: Axis) -> Child:
    """Without batches nothing is known of them: an empty lane would say that none ran."""
    if not batches:
        return None
    longest = max(span.longest_ms for span in batches) or 1
    drawn = (_batch(span, axis, longest) for span in batches)
    return _lane("batches", 60, drawn, _count(len(batches), "batch", "es"))


def _alarm_lane(raised: Sequence[_Raised], axis: Axis) -> Child:
    """Alarms that last at the same time are below each other."""
    if not raised:
        return None
    ends: list[float] = []
    marks = []
    for each in raised:
        begin = axis.at(each.since)
        row = next((number for number, end in enumerate(ends) if end < begin), len(ends))
        ends[row : row + 1] = [max(axis.at(each.until), begin + _NARROWEST)]
        drawn = _bar(axis, each.since, each.until, row * _ALARM_PX + 1, _ALARM_PX - 3, _COLOURS[each.severity])
        marks.append(tag("g", tag("title", each.text), drawn, data_alarm=each.code))
    told = "; ".join(each.text for each in raised)
    return _lane("alarms", len(ends) * _ALARM_PX, marks, told)


def _alarm_table(raised: Sequence[_Raised]) -> Markup:
    rows = [
        tag(
            "tr",
            cell("alarm", shown(each.code), sort=each.code),
            cell("severity", each.severity, sort=each.severity),
            cell("since", time_of(each.since), sort=each.since.timestamp()),
            cell("until", "it lasts" if each.lasts else time_of(each.until), sort=each.until.timestamp()),
            cell("message", each.message, sort=each.message),
        )
        for each in reversed(raised)
    ]
    return table("alarms", ("alarm", "severity", "since", "until", "message"), rows)


def _raised(job: Judged, now: datetime) -> list[_Raised]:
    """As the heartbeat of the newest run tells of them, oldest first."""
    beat = job.seen.heartbeat
    report = job.seen.report or (beat.report if beat is not None else None)
    if report is None:
        return []
    lasts = job.view.running
    last_sign = now if lasts or beat is None else beat.heartbeat_at
    past = [
        _Raised(each.code, each.severity, shown(each.message), each.since, each.until, lasts=False)
        for each in report.past_alarms
    ]
    active = [
        _Raised(each.code, each.severity, shown(each.message), each.since or each.at, last_sign, lasts=lasts)
        for each in report.alarms
    ]
    return sorted((*past, *active), key=lambda each: each.since)


def _batch(span: BatchSpan, axis: Axis, longest: int) -> Markup:
    height = max(2.0, span.longest_ms / longest * 58)
    count = span.last - span.first + 1
    together = f", {count} batches, the longest {figures.duration(span.longest_ms)}" if count > 1 else ""
    text = f"batch {numbered(span)}: {_clock(span.at)}, {figures.duration(span.ms)}{together}, {span.rows:,} rows"
    drawn = _bar(axis, _begin(span), span.at, 60 - height, height, "part0")
    return tag("g", tag("title", text), drawn, data_value=span.ms)


def _checkpoint(each: CheckpointDetail, axis: Axis) -> Markup:
    name = "a checkpoint" if each.id is None else f"#{each.id}"
    result = f"failed: {each.failure.reason}: {each.failure.message}" if each.failure else each.status
    text = f"{name} {each.name or ''} {_clock(each.triggered_at)}, {figures.duration(each.duration_ms)}, {result}"
    begin = each.triggered_at
    end = begin + timedelta(milliseconds=each.duration_ms or 0)
    if each.failure:
        drawn = [_bar(axis, begin, end, 4, 16, "failed hollow"), mark("cross", axis.at(begin), 12, "failed")]
    elif each.kind == "savepoint":
        drawn = [_bar(axis, begin, end, 8, 8, "part3"), mark("diamond", axis.at(begin), 12, "part3")]
    else:
        drawn = [_bar(axis, begin, end, 4, 16, "part1")]
    return tag("g", tag("title", shown(" ".join(text.split()))), drawn, data_id=each.id)


def _turn(turn: _Turn, axis: Axis) -> Markup:
    drawn = mark(_SHAPES[turn.kind][0], axis.at(turn.at), 8, _SHAPES[turn.kind][1])
    return tag("g", tag("title", f"{_clock(turn.at)} {turn.text}"), drawn, data_turn=turn.kind)


def _bar(axis: Axis, begin: datetime, end: datetime, top: float, height: float, colour: str) -> Markup:
    x = axis.at(begin)
    width = max(_NARROWEST, axis.at(end) - x)
    return bar(min(x, 1 - _NARROWEST), width, top, height, colour)


def _turns(job: Judged) -> list[_Turn]:
    """A run that another one followed without an end of its own died."""
    turns: list[_Turn] = []
    open_run: RunStarted | None = None
    for _, entry in job.seen.state.sequences:
        if isinstance(entry, RunStarted) and entry.purpose == "pipeline":
            if open_run is not None:
                last = _last_sign(job, open_run, entry.at)
                turns.append(_Turn(last, "died", f"run {open_run.fencing_epoch} was gone without a word"))
            turns.append(_Turn(entry.at, "began", f"run {entry.fencing_epoch} began on {shown(entry.host)}"))
            open_run = entry
        elif isinstance(entry, RunEnded) and open_run is not None and entry.fencing_epoch == open_run.fencing_epoch:
            kind = "died" if entry.failed else "ended"
            turns.append(_Turn(entry.at, kind, f"run {entry.fencing_epoch} ended: {shown(entry.reason)}"))
            open_run = None
        elif isinstance(entry, QueryRestarted):
            turns.append(_Turn(entry.at, "died", f"the query died: {shown(entry.cause)}"))
    if open_run is not None and job.view.state == "lost":
        owner = job.view.owner
        at = owner.heartbeat_at if owner is not None and owner.heartbeat_at is not None else open_run.at
        turns.append(_Turn(at, "died", f"run {open_run.fencing_epoch} is gone without a word"))
    return turns


def _last_sign(job: Judged, run: RunStarted, before: datetime) -> datetime:
    """Of a run that left no end: its newest entry in the journal."""
    signs = [entry.at for _, entry in job.seen.state.sequences if entry.fencing_epoch == run.fencing_epoch]
    return min(max(signs, default=run.at), before)


def _begin(span: BatchSpan) -> datetime:
    return span.at - timedelta(milliseconds=span.ms)


def _ends(job: Judged, points: Sequence[CheckpointDetail], batches: Sequence[BatchSpan]) -> list[datetime]:
    took = [each.triggered_at + timedelta(milliseconds=each.duration_ms or 0) for each in points]
    owner = job.view.owner
    last = (job.view.ended_at, owner.heartbeat_at if owner is not None else None)
    return [*took, *(span.at for span in batches), *(at for at in last if at is not None)]


def _told(points: Sequence[CheckpointDetail]) -> str:
    failed = sum(each.failure is not None for each in points)
    return f"{_count(len(points), 'checkpoint', 's')}, {failed} failed"


def _count(number: int, noun: str, plural: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{plural}"


def _clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
