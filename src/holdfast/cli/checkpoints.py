"""`holdfast checkpoints`: the history, including failures with their reasons."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holdfast.cli import figures
from holdfast.cli.health import judged, require_well
from holdfast.cli.observing import examine
from holdfast.cli.options import AsJson, Health, Home, Job, JobArgument
from holdfast.cli.output import answer, plain_table, print_json, print_message, print_table
from holdfast.cli.reference import one_job
from holdfast.repository.documents import CheckpointDocument, RestartDocument
from holdfast.repository.views import Observation, checkpoint_list, job_status

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_SHOWN = 25
_BAR = 8
_WIDE = 115
"""Width of a terminal that fits all columns; a narrower one shows the most important ones."""
_STYLES = {"completed": "green", "failed": "red", "in_progress": "yellow", "retired": "dim"}

Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", min=1, metavar="N", show_default=False, help=f"The newest N. Default: {_SHOWN}, with --json all."
    ),
]


def checkpoints(
    home: Home,
    name: JobArgument = None,
    job: Job = None,
    limit: Limit = None,
    health: Health = False,
    as_json: AsJson = False,
) -> None:
    """List the checkpoints of a job, failures with their reasons."""
    seen = examine(home, one_job(name, job))
    if as_json:
        print_json(checkpoint_list(seen, limit))
    else:
        _print(seen, limit)
    if health:
        require_well(seen, judged(seen)[1])


def _print(seen: Observation, limit: int | None) -> None:
    document = checkpoint_list(seen)
    history = document.checkpoints
    shown = history[: limit or _SHOWN]
    _print_unrecorded(seen)
    if shown:
        print_table(_table(shown, seen.now, wide=answer().width >= _WIDE))
    else:
        print_message(f"job {seen.job!r} has no checkpoint yet")
    if len(shown) < len(history):
        print_message(f"{len(history) - len(shown)} older: --limit {len(history)} shows all")
    since = shown[-1].triggered_at if len(shown) < len(history) else None
    if restarts := [item for item in document.restarts if since is None or item.at >= since][: limit or _SHOWN]:
        print_table(_restarts_table(restarts, seen.now))


def _print_unrecorded(seen: Observation) -> None:
    """Failures are in the history once the home can be written; until then the process reports them."""
    last = job_status(seen).last_failure
    unrecorded = last is not None and last.id is None and last not in checkpoint_list(seen).checkpoints
    if seen.report and unrecorded and last is not None and last.failure is not None:
        count = figures.counted(seen.report.consecutive_failures, "failure")
        why = f"{last.failure.reason}: {last.failure.message}"
        print_message(f"{count} in a row, not all of them recorded in the home; the last one: {why}")


@dataclass(frozen=True)
class _Column:
    heading: str
    justify: Literal["left", "right"]
    cell: "Callable[[CheckpointDocument], str | Text]"
    wide_only: bool = False


def _table(history: Sequence[CheckpointDocument], now: datetime, *, wide: bool) -> "Table":
    columns = [column for column in _columns(history, now, wide=wide) if wide or not column.wide_only]
    table = plain_table()
    for column in columns:
        table.add_column(
            column.heading, justify=column.justify, no_wrap=column.heading not in ("reason", "note"), overflow="fold"
        )
    for item in history:
        style = "dim" if item.status == "retired" else None
        table.add_row(*(_text(column.cell(item)) for column in columns), style=style)
    return table


def _restarts_table(restarts: Sequence[RestartDocument], now: datetime) -> "Table":
    """The query's failures in the same time: one of them may explain a failed checkpoint."""
    table = plain_table("query restarted", "run", "took", "cause")
    table.add_column("why", overflow="fold")
    for item in restarts:
        table.add_row(
            figures.age(item.at, now),
            str(item.fencing_epoch),
            "failed" if item.duration_ms is None else figures.duration(item.duration_ms),
            _styled(item.cause, "red"),
            _styled(item.message, ""),
        )
    return table


def _columns(history: Sequence[CheckpointDocument], now: datetime, *, wide: bool) -> tuple[_Column, ...]:
    longest = max((item.duration_ms or 0 for item in history), default=0)
    return (
        _Column("id", "right", lambda item: _styled(_or_dash(item.id), "bold")),
        _Column("status", "left", status_word),
        _Column("kind", "left", _kind, wide_only=True),
        _Column("batch", "right", lambda item: _or_dash(item.barrier_batch_id)),
        _Column("triggered", "left", lambda item: figures.age(item.triggered_at, now)),
        _Column("duration", "right", lambda item: figures.duration(_elapsed_ms(item, now))),
        _Column("", "left", lambda item: _duration_bar(item, longest), wide_only=True),
        _Column("size", "right", lambda item: figures.size(item.bytes_total)),
        _Column("new", "right", lambda item: figures.size(item.bytes_new)),
        _Column("shards", "right", _acknowledged, wide_only=True),
        _Column("reason", "left", _reason) if wide else _Column("note", "left", _note),
    )


def status_word(item: CheckpointDocument) -> "Text":
    """The status in one word: a completed checkpoint that cannot be resumed from is not shown as completed."""
    if item.status == "completed" and item.unusable_because:
        return _styled(item.unusable_because.partition(":")[0], "red")
    return _styled(item.status.replace("_", " "), _STYLES[item.status])


def _kind(item: CheckpointDocument) -> "Text":
    return _styled(item.name or item.kind, "cyan" if item.name else "")


def _elapsed_ms(item: CheckpointDocument, now: datetime) -> float | None:
    if item.status == "in_progress":
        return max(0.0, (now - item.triggered_at).total_seconds() * 1000)
    return item.duration_ms


def _duration_bar(item: CheckpointDocument, longest: int) -> "Text":
    return _styled(figures.bar(item.duration_ms or 0, longest, _BAR), _STYLES[item.status])


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _acknowledged(item: CheckpointDocument) -> str:
    return f"{item.shards_acknowledged}/{item.shards}" if item.shards else "-"


def _note(item: CheckpointDocument) -> "Text":
    """For narrow terminals: the reason as one word, or the savepoint's name."""
    problem = item.failure.reason if item.failure else ""
    return _styled(problem, "red") if problem else _styled(item.name or "", "cyan")


def _reason(item: CheckpointDocument) -> "Text":
    if item.unusable_because and item.status == "completed":
        return _styled(item.unusable_because.partition(": ")[2], "bold red")
    if item.failure is None:
        return _styled("", "")
    not_counted = "" if item.failure.counted else " (not counted)"
    return _styled(item.failure.reason + not_counted, "red").append(f": {item.failure.message}", style="default")


def _styled(words: str, style: str) -> "Text":
    from rich.text import Text

    return Text(words, style=style)


def _text(cell: "str | Text") -> "Text":
    return _styled(cell, "") if isinstance(cell, str) else cell
