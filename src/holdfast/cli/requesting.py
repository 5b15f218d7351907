"""`holdfast checkpoint` and `holdfast stop`: requests to a running job, through the mailbox in its home."""

from typing import Annotated

import msgspec
import typer

from holdfast.cli.observing import job_store, observe
from holdfast.cli.options import AsJson, Home, Job, JobArgument
from holdfast.cli.output import answer, print_json
from holdfast.cli.reference import one_job
from holdfast.errors import CheckpointFailed
from holdfast.identifiers import savepoint_name
from holdfast.repository.savepoints import name_taken
from holdfast.repository.views import Observation, checkpoint_list
from holdfast.settings import seconds
from holdfast.storage.interface import ObjectStore

Timeout = Annotated[str, typer.Option("--timeout", metavar="DURATION", help="How long to wait for the job.")]
Savepoint = Annotated[
    str | None,
    typer.Option("--savepoint", metavar="NAME", show_default=False, help="Name the last checkpoint, to keep it."),
]


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    home: str
    stopped: bool
    """False when it was not running."""
    checkpoint: int | None
    """The newest that is completed."""


def checkpoint(
    home: Home, name: JobArgument = None, job: Job = None, timeout: Timeout = "10m", as_json: AsJson = False
) -> None:
    """Request a checkpoint from the running job, and wait for it."""
    from holdfast.cli.asking_owner import ask_for_checkpoint

    limit = seconds("timeout", timeout, least=0.1)
    job = one_job(name, job)
    store = job_store(home, job)
    seen = observe(home, job, store)
    if not seen.running:
        raise _not_running(seen, "take a checkpoint")
    id = ask_for_checkpoint(store, seen, limit)
    (document,) = (item for item in checkpoint_list(observe(home, job, store)).checkpoints if item.id == id)
    if as_json:
        print_json(document)
    else:
        answer().print(f"checkpoint {id} of job {job!r} is completed at batch {document.barrier_batch_id}")


def stop(
    home: Home,
    name: JobArgument = None,
    job: Job = None,
    savepoint: Savepoint = None,
    timeout: Timeout = "10m",
    as_json: AsJson = False,
) -> None:
    """Stop the running job cleanly, with a last checkpoint.

    Returns when it has ended.
    """
    limit = seconds("timeout", timeout, least=0.1)
    job = one_job(name, job)
    if savepoint is not None:
        savepoint_name(savepoint)
    store = job_store(home, job)
    seen = observe(home, job, store)
    if seen.running:
        _stop(store, seen, savepoint, limit)
    elif savepoint is not None:
        raise _not_running(seen, f"take savepoint {savepoint!r}")
    newest = observe(home, job, store).state.restorable()
    document = Stopped(job=job, home=home, stopped=seen.running, checkpoint=newest[0].id if newest else None)
    if as_json:
        print_json(document)
    else:
        how = "has stopped" if document.stopped else "was not running"
        kept = "" if document.checkpoint is None else f"; the next start resumes from checkpoint {document.checkpoint}"
        answer().print(f"job {job!r} {how}{kept}")


def _stop(store: ObjectStore, seen: Observation, savepoint: str | None, limit: float) -> None:
    from holdfast.cli.asking_owner import ask_owner, ask_to_stop

    if savepoint is None:
        ask_to_stop(store, seen, limit)
        return
    holder = seen.state.savepoint(savepoint)
    if holder is not None:
        raise name_taken(savepoint, holder)
    ask_owner(store, seen, "stop", savepoint, limit, f"stop with savepoint {savepoint!r}")


def _not_running(seen: Observation, doing: str) -> CheckpointFailed:
    return CheckpointFailed(
        f"could not {doing}: job {seen.job!r} in {seen.home} is not running", hint="holdfast status shows since when"
    )
