"""`holdfast checkpoints`: the history, failures with their reasons included."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import figures
from holdfast.cli.observing import observe
from holdfast.cli.options import AsJson, Home, Job
from holdfast.cli.output import answer, print_json, say
from holdfast.repository.views import CheckpointDocument, checkpoint_list

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_SHOWN = 25
_BAR = 8
_STYLES = {"completed": "green", "failed": "red", "in_progress": "yellow", "retired": "dim"}

Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", min=1, metavar="N", show_default=False, help=f"The newest N. Default: {_SHOWN}, with --json all."
    ),
]


def checkpoints(home: Home, job: Job, limit: Limit = None, as_json: AsJson = False) -> None:
    """The history of a job, failures with their reasons."""
    seen = observe(home, job)
    if as_json:
        print_json(checkpoint_list(seen, limit))
        return
    history = checkpoint_list(seen).checkpoints
    shown = history[: limit or _SHOWN]
    if not shown:
        say(f"job {job!r} has no checkpoint yet")
        return
    answer().print(_table(shown, seen.now))
    if len(shown) < len(history):
        say(f"{len(history) - len(shown)} older: --limit {len(history)} shows all")


def _table(history: Sequence[CheckpointDocument], now: datetime) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("id", justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("batch", justify="right", no_wrap=True)
    table.add_column("triggered", no_wrap=True)
    table.add_column("duration", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for heading in ("size", "new", "shards"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("reason", overflow="fold")
    longest = max((item.duration_ms or 0 for item in history), default=0)
    for item in history:
        table.add_row(*_row(item, longest, now))
    return table


def _row(item: CheckpointDocument, longest: int, now: datetime) -> list["Text"]:
    from rich.text import Text

    style = _STYLES[item.status]
    quiet = "dim" if item.status == "retired" else ""
    elapsed = item.duration_ms
    if item.status == "in_progress":
        elapsed = max(0, round((now - item.triggered_at).total_seconds() * 1000))
    return [
        Text("-" if item.id is None else str(item.id), style=quiet or "bold"),
        Text(item.status.replace("_", " "), style=style),
        Text(item.name or item.kind, style="cyan" if item.name else quiet),
        Text(_or_dash(item.barrier_batch_id), style=quiet),
        Text(figures.age(item.triggered_at, now), style=quiet),
        Text(figures.duration(elapsed), style=quiet),
        Text(figures.bar(item.duration_ms or 0, longest, _BAR), style=style),
        Text(figures.size(item.bytes_total), style=quiet),
        Text(figures.size(item.bytes_new), style=quiet),
        Text(_acknowledged(item), style=quiet),
        _reason(item),
    ]


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _acknowledged(item: CheckpointDocument) -> str:
    return f"{item.shards_acknowledged}/{item.shards}" if item.shards else "-"


def _reason(item: CheckpointDocument) -> "Text":
    from rich.text import Text

    if item.corrupt:
        return Text(f"damaged: {item.corrupt}", style="bold red")
    if item.failure is None:
        return Text("")
    not_counted = "" if item.failure.counted else " (not counted)"
    return Text.assemble((item.failure.reason + not_counted, "red"), f": {item.failure.message}")
