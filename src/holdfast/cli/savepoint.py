"""`holdfast savepoint`: named checkpoints that retention never touches."""

from datetime import datetime
from typing import TYPE_CHECKING

import typer

from holdfast.cli import figures
from holdfast.cli.observing import observe
from holdfast.cli.options import AsJson, Home, Job
from holdfast.cli.output import plain_table, print_json, print_table, say
from holdfast.repository.views import SavepointList, savepoint_list

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(help="Named, pinned checkpoints.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _savepoint() -> None:
    """Named, pinned checkpoints."""


@app.command("list")
def list_savepoints(home: Home, job: Job, as_json: AsJson = False) -> None:
    """The savepoints of a job, newest first."""
    seen = observe(home, job)
    document = savepoint_list(seen)
    if as_json:
        print_json(document)
    elif document.savepoints:
        print_table(_table(document, seen.now))
    else:
        say(f"job {job!r} has no savepoint")


def _table(document: SavepointList, now: datetime) -> "Table":
    from rich.text import Text

    table = plain_table("name", "id", "batch", "taken", "size")
    for item in document.savepoints:
        table.add_row(
            Text(item.name or "-", style="bold cyan"),
            Text(str(item.id)),
            Text(str(item.barrier_batch_id)),
            Text(figures.age(item.triggered_at, now)),
            Text(figures.size(item.bytes_total)),
        )
    return table
