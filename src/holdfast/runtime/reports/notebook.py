"""A status as HTML, for notebooks: a table, and a line of bars for the last checkpoints. Pure; text is escaped."""

from collections.abc import Sequence
from html import escape

from holdfast.alarm import Alarm
from holdfast.coordination.history import CheckpointRecord, Statistics

_HEIGHT = 20


def as_html(
    job: str,
    state: str,
    batches: tuple[int | None, int | None],
    statistics: Statistics,
    recent: Sequence[CheckpointRecord],
    alarms: Sequence[Alarm],
) -> str:
    """`batches`: the committed and the published one."""
    committed, published = batches
    newest = "none" if statistics.last_completed is None else str(statistics.last_completed)
    rows = [
        ("state", escape(state)),
        ("batch", f"{_number(committed)} committed, {_number(published)} published"),
        ("checkpoints", f"{statistics.completed} completed, {statistics.failed} failed; the newest is {newest}"),
        ("failures in a row", str(statistics.consecutive_failures)),
        ("last checkpoints", _bars(recent) or "none yet"),
    ]
    rows += [("alarm", escape(f"{alarm.severity}: {alarm.message}. Try: {alarm.hint}")) for alarm in alarms]
    body = "".join(f'<tr><th style="text-align:left">{name}</th><td>{value}</td></tr>' for name, value in rows)
    return f"<table><caption>{escape(job)}</caption>{body}</table>"


def _number(batch: int | None) -> str:
    return "none" if batch is None else str(batch)


def _bars(recent: Sequence[CheckpointRecord]) -> str:
    """Durations, oldest on the left; a failure is red."""
    if not recent:
        return ""
    longest = max(record.ended_at - record.triggered_at for record in recent) or 1.0
    drawn = [_bar(number, record, longest) for number, record in enumerate(recent)]
    return f'<svg width="{len(recent) * 8}" height="{_HEIGHT}" role="img">{"".join(drawn)}</svg>'


def _bar(number: int, record: CheckpointRecord, longest: float) -> str:
    took = record.ended_at - record.triggered_at
    height = max(2.0, took / longest * _HEIGHT)
    colour = "#1d4ed8" if record.failure is None else "#d92d20"
    why = "" if record.failure is None else f", failed: {record.failure.reason.value}"
    title = escape(f"checkpoint {record.id}: {took:.2f} s{why}")
    return (
        f'<rect x="{number * 8}" y="{_HEIGHT - height:.1f}" width="6" height="{height:.1f}" fill="{colour}">'
        f"<title>{title}</title></rect>"
    )
