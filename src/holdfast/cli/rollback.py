"""`holdfast rollback`: takes a stopped job back to a checkpoint; its next start resumes there."""

from typing import Annotated

import msgspec
import typer

from holdfast.cli.observing import job_store, observe
from holdfast.cli.options import AsJson, Home, Job, OnConflict, PointArgument
from holdfast.cli.output import answer, print_json
from holdfast.cli.owning import owning
from holdfast.cli.reference import referred
from holdfast.errors import Conflict, InvalidSettings, OwnedByAnotherRun
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.going_back import Wanted, abandoned_by, reachable, request_rollback
from holdfast.repository.state import JobState
from holdfast.repository.views import Observation

To = Annotated[
    int | None,
    typer.Option("--to", metavar="ID", min=1, show_default=False, help="The checkpoint, if no argument names it."),
]
Cancel = Annotated[bool, typer.Option("--cancel", help="The next start goes on from the newest checkpoint after all.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be abandoned; change nothing.")]


class RolledBack(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    home: str
    checkpoint: int | None
    """None after `--cancel`."""
    barrier_batch_id: int | None
    abandons: tuple[int, ...]
    dry_run: bool


def rollback(
    home: Home,
    point: PointArgument = None,
    job: Job = None,
    to: To = None,
    cancel: Cancel = False,
    dry_run: DryRun = False,
    on_conflict: OnConflict = "refuse",
    as_json: AsJson = False,
) -> None:
    """Take a stopped job back to a checkpoint.

    Its next start resumes there and rewinds the sink, if query, sink and source allow it; else it is refused.
    """
    reference = referred(point, job).among(to)
    if cancel == (reference.checkpoint is not None or reference.savepoint is not None):
        raise InvalidSettings(
            "no checkpoint is named" if not cancel else "--cancel excludes a checkpoint",
            hint=f"holdfast rollback {reference.job}@ID",
        )
    store = job_store(home, reference.job)
    seen = observe(home, reference.job, store)
    _require_stopped(seen)
    wanted = Wanted(reference.savepoint, reference.checkpoint)
    if wanted:
        _require_run_by_holdfast(seen)
    state, target = seen.state, _target(seen.state, wanted)
    if not dry_run and (target is not None or state.rollback is not None):
        with owning(seen.job, home, store, "roll back", on_conflict) as journal:
            state, target = journal.state, _target(journal.state, wanted)  # a run may have come in between
            request_rollback(journal, None if target is None else target.id)
    document = RolledBack(
        job=seen.job,
        home=home,
        checkpoint=None if target is None else target.id,
        barrier_batch_id=None if target is None else target.barrier_batch_id,
        abandons=() if target is None else abandoned_by(state, target),
        dry_run=dry_run,
    )
    if as_json:
        print_json(document)
    else:
        answer().print(_sentence(document))


def _target(state: JobState, wanted: Wanted) -> CheckpointCompleted | None:
    """None for `--cancel`."""
    return reachable(state, wanted) if wanted else None


def _require_stopped(seen: Observation) -> None:
    if seen.running:
        raise OwnedByAnotherRun(
            f"could not roll back job {seen.job!r} in {seen.home}: it is running", hint=f"holdfast stop {seen.job}"
        )


def _require_run_by_holdfast(seen: Observation) -> None:
    """No start of holdfast would take the directory of a protected query back."""
    last = seen.state.pipeline
    if last is not None and last.protects:
        raise Conflict(
            f"could not roll back job {seen.job!r} in {seen.home}: holdfast does not run its query, and only reads "
            f"{last.protects}",
            hint=f"stop the query, put the checkpoint in its place (holdfast restore {seen.job}@ID DIR), "
            "and protect that with --accept-older-directory, once",
        )


def _sentence(document: RolledBack) -> str:
    if document.checkpoint is None:
        return f"job {document.job!r} goes on from its newest checkpoint"
    would = "would go" if document.dry_run else "goes"
    lost = ", ".join(map(str, document.abandons))
    abandons = f", and abandons checkpoints {lost} for good" if lost else ""
    return (
        f"the next start of job {document.job!r} {would} back to checkpoint {document.checkpoint} "
        f"at batch {document.barrier_batch_id}{abandons}"
    )
