"""`holdfast savepoint`: named checkpoints that are exempt from retention.

Only the owner writes. So the command sends a request to a running job through the mailbox in its home; it owns a job
that is not running while it writes.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli import figures
from holdfast.cli.grouped_help import GroupedCommand, GroupedCommands
from holdfast.cli.health import judged, require_well
from holdfast.cli.observing import examine, job_store, observe
from holdfast.cli.options import AsJson, Health, Home, Job, JobArgument, OnConflict
from holdfast.cli.output import answer, plain_table, print_json, print_message, print_table
from holdfast.cli.owning import owning
from holdfast.cli.reading import answering, watching
from holdfast.cli.reference import named, one_job
from holdfast.errors import CheckpointFailed, InvalidSettings
from holdfast.identifiers import CheckpointId
from holdfast.repository.documents import SavepointList
from holdfast.repository.savepoints import (
    delete_savepoint,
    name_checkpoint,
    name_taken,
    to_be_deleted,
    to_be_named,
)
from holdfast.repository.views import Observation, checkpoint_list, savepoint_list
from holdfast.settings import seconds
from holdfast.storage.interface import ObjectStore

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(
    name="savepoint",
    add_completion=False,
    cls=GroupedCommands,
    help="Named, pinned checkpoints.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[
    str,
    typer.Argument(metavar="[JOB@]NAME", show_default=False, help="The savepoint's name and, before an @, its job."),
]
From = Annotated[
    int | None,
    typer.Option("--from", metavar="ID", min=1, show_default=False, help="Name this existing checkpoint."),
]
Stop = Annotated[bool, typer.Option("--stop", help="Stop the job, with the savepoint as its last checkpoint.")]
Timeout = Annotated[str, typer.Option("--timeout", metavar="DURATION", help="How long to wait for a running job.")]


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    home: str
    name: str
    checkpoint: int


@app.callback()
def _savepoint() -> None:
    """Named, pinned checkpoints."""


@app.command("create", cls=GroupedCommand)
@answering
def create(
    name: Name,
    home: Home,
    job: Job = None,
    existing: From = None,
    stop: Stop = False,
    timeout: Timeout = "10m",
    on_conflict: OnConflict = "refuse",
    as_json: AsJson = False,
) -> None:
    """Request one from the running job, or name an existing checkpoint."""
    limit = seconds("timeout", timeout, least=0.1)
    job, name = named(name, job)
    if existing is not None and stop:
        raise InvalidSettings("--from and --stop exclude each other", hint="a stop takes its own checkpoint")
    store = job_store(home, job)
    seen = observe(home, job, store)
    if existing is not None:
        id = _name_existing(store, seen, CheckpointId(existing), name, limit, on_conflict)
    else:
        id = _make(store, seen, name, limit, stop)
    after = observe(home, job, store)
    (document,) = (item for item in checkpoint_list(after).checkpoints if item.id == id)
    if as_json:
        print_json(document)
    else:
        stopped = "; the job has stopped" if stop else ""
        answer().print(f"savepoint {name!r} is checkpoint {id} at batch {document.barrier_batch_id}{stopped}")


def _name_existing(
    store: ObjectStore, seen: Observation, id: CheckpointId, name: str, limit: float, on_conflict: str
) -> CheckpointId:
    to_be_named(seen.state, id, name)
    if seen.running:
        from holdfast.cli.asking_owner import ask_owner

        return ask_owner(store, seen, "savepoint", name, limit, f"make checkpoint {id} savepoint {name!r}", id)
    with owning(seen.job, seen.home, store, f"name checkpoint {id} {name!r} in", on_conflict) as journal:
        return name_checkpoint(journal, id, name).id


def _make(store: ObjectStore, seen: Observation, name: str, limit: float, stop: bool) -> CheckpointId:
    holder = seen.state.savepoint(name)
    if holder is not None:
        raise name_taken(name, holder)
    if not seen.running:
        raise CheckpointFailed(
            f"could not create savepoint {name!r}: job {seen.job!r} in {seen.home} is not running",
            hint="name an existing checkpoint with --from ID, or start the job",
        )
    from holdfast.cli.asking_owner import ask_owner

    return ask_owner(store, seen, "stop" if stop else "savepoint", name, limit, f"create savepoint {name!r}")


@app.command("delete", cls=GroupedCommand)
@answering
def delete(
    name: Name,
    home: Home,
    job: Job = None,
    timeout: Timeout = "10m",
    on_conflict: OnConflict = "refuse",
    as_json: AsJson = False,
) -> None:
    """Delete the name. Retention then applies to its checkpoint."""
    limit = seconds("timeout", timeout, least=0.1)
    job, name = named(name, job)
    store = job_store(home, job)
    seen = observe(home, job, store)
    id = to_be_deleted(seen.state, name).id
    if seen.running:
        from holdfast.cli.asking_owner import ask_owner

        ask_owner(store, seen, "delete-savepoint", name, limit, f"delete savepoint {name!r}")
    else:
        with owning(seen.job, seen.home, store, f"delete savepoint {name!r} of", on_conflict) as journal:
            delete_savepoint(journal, name)
    if as_json:
        print_json(Deleted(job=job, home=home, name=name, checkpoint=id))
    else:
        answer().print(
            f"savepoint {name!r} is deleted; from now on retention applies to checkpoint {id} as to any other"
        )


@app.command("list", cls=GroupedCommand)
@watching
def list_savepoints(
    home: Home, name: JobArgument = None, job: Job = None, health: Health = False, as_json: AsJson = False
) -> None:
    """List the savepoints of a job, newest first."""
    job = one_job(name, job)
    seen = examine(home, job)
    document = savepoint_list(seen)
    if as_json:
        print_json(document)
    elif document.savepoints:
        print_table(_table(document, seen.now))
    else:
        print_message(f"job {job!r} has no savepoint")
    if health:
        require_well(seen, judged(seen)[1])


def _table(document: SavepointList, now: datetime) -> "Table":
    from rich.text import Text

    table = plain_table("name", "id", "batch", "taken", "size")
    for item in document.savepoints:
        unusable = "" if item.usable else f"  {item.unusable_because}"
        table.add_row(
            Text(item.name or "-", style="bold cyan"),
            Text(str(item.id)),
            Text(str(item.barrier_batch_id)),
            Text(figures.age(item.triggered_at, now)),
            Text(figures.size(item.bytes_total) + unusable),
        )
    return table
