"""`holdfast restore`: writes a checkpoint as a directory that Spark can start from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.checkpoint.manifest import Manifest, decode_manifest, manifest_key
from holdfast.cli import figures
from holdfast.cli.choosing import to_restore
from holdfast.cli.continuing import (
    ContinuationDocument,
    continued,
    put_one_in_place,
    require_output,
    writes_itself,
)
from holdfast.cli.continuing_text import print_continuing
from holdfast.cli.observing import job_store, observe
from holdfast.cli.options import AsJson, CheckpointOption, Home, Job, PointArgument
from holdfast.cli.output import answer, print_json
from holdfast.cli.progress import byte_progress
from holdfast.cli.reference import referred
from holdfast.errors import Corrupt, InvalidSettings, NotFound, ObjectNotFound
from holdfast.identifiers import BatchId
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.lines import line_folder, plan_key
from holdfast.repository.names import is_plan
from holdfast.repository.state import JobState
from holdfast.repository.views import Observation
from holdfast.storage.interface import ObjectStore

if TYPE_CHECKING:
    from holdfast.workdir.interface import WorkDirectory


def _directory(text: str) -> Path:
    """An empty string, such as an unset variable of a script, does not mean the current directory."""
    if not text.strip():
        raise typer.BadParameter("it is empty, but must name a directory")
    return Path(text)


DirectoryArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="DIR", show_default=False, parser=_directory, help="The target directory; must be empty or not exist."
    ),
]
To = Annotated[
    Path | None,
    typer.Option(
        "--to",
        metavar="DIR",
        show_default=False,
        parser=_directory,
        help="The target directory, if no argument names it.",
    ),
]
SavepointOption = Annotated[
    str | None, typer.Option("--savepoint", metavar="NAME", show_default=False, help="This savepoint.")
]


SinkOption = Annotated[
    str | None,
    typer.Option(
        "--sink",
        metavar="PATH",
        show_default=False,
        help="The output of Spark's file sink or Delta sink, to see which batches it has.",
    ),
]
PlanOption = Annotated[
    int | None,
    typer.Option(
        "--plan",
        metavar="N",
        min=0,
        show_default=False,
        help="Restore nothing: put the plan of batch N in place in DIR, which has the batch before it.",
    ),
]


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    home: str
    checkpoint: int
    barrier_batch_id: int
    to: str
    files: int
    bytes: int
    plans: int = 0
    """Batches behind it that were planned."""
    continuing: ContinuationDocument | None = None
    """How plain Spark goes on; null where a sink of holdfast writes."""


def restore(
    home: Home,
    point: PointArgument = None,
    directory: DirectoryArgument = None,
    job: Job = None,
    to: To = None,
    checkpoint: CheckpointOption = None,
    savepoint: SavepointOption = None,
    sink: SinkOption = None,
    plan: PlanOption = None,
    as_json: AsJson = False,
) -> None:
    """Write a verified Spark checkpoint directory.

    Default: the newest checkpoint that can be restored. Where the query has a writer of its own, the plans of batches
    after it are put in place, and what plain Spark will repeat, skip or miss is printed, with the steps.
    """
    from holdfast.runtime.run.places import require_outside
    from holdfast.workdir.factory import work_directory
    from holdfast.workdir.restorer import restore as restore_checkpoint

    reference = referred(point, job).among(checkpoint, savepoint)
    job = reference.job
    target = work_directory(_target(point, directory, to))
    store = job_store(home, job)
    seen = observe(home, job, store)
    require_outside(target.location, home, seen.state.runs)
    if plan is not None:
        _put_plan_in_place(job, target, store, seen, plan, sink, as_json)
        return
    chosen = to_restore(seen, reference.checkpoint, reference.savepoint)
    try:
        manifest = _read_manifest(store, chosen)
        if sink is not None and writes_itself(seen.state):
            require_output(sink, manifest.spark.get("query", ""))
        with byte_progress(f"restoring checkpoint {chosen.id}", manifest.bytes_total) as advance:
            restore_checkpoint(store, manifest, target, progress=advance)
    except Corrupt:
        _require_not_retired(observe(home, job, store), chosen)
        raise
    state = observe(home, job, store).state
    continuing: ContinuationDocument | None = None
    if writes_itself(state):
        stateful = len(manifest.shards) > 1
        continuing = continued(job, target, store, state, chosen, sink, stateful=stateful)
    report = Restored(
        job=job,
        home=home,
        checkpoint=chosen.id,
        barrier_batch_id=chosen.barrier_batch_id,
        to=target.location,
        files=len(manifest.files()),
        bytes=manifest.bytes_total,
        plans=_planned_behind(store, state, chosen),
        continuing=continuing,
    )
    if as_json:
        print_json(report)
    else:
        _print_report(report)


def _target(point: str | None, directory: Path | None, to: Path | None) -> Path:
    if directory is not None and to is not None:
        raise InvalidSettings(f"two directories are named: {directory} and --to {to}", hint="give one of them")
    target = directory or to
    if target is None:
        raise InvalidSettings("no target directory is named", hint=f"holdfast restore {point or 'JOB'} DIR")
    return target


def _put_plan_in_place(
    job: str,
    target: "WorkDirectory",
    store: ObjectStore,
    seen: Observation,
    plan: int,
    sink: str | None,
    as_json: bool,
) -> None:
    put_one_in_place(job, target, store, seen.state, BatchId(plan), sink)
    if as_json:
        print_json({"job": job, "home": seen.home, "to": target.location, "plan": plan})
    else:
        answer().print(
            f"the plan of batch {plan} is in place in {target.location}: Spark runs this batch next", soft_wrap=True
        )


def _planned_behind(store: ObjectStore, state: JobState, chosen: CheckpointCompleted) -> int:
    """How many batches were planned behind it: a writer of the query's own may have them."""
    newest = state.newest_of_the_line()
    if newest is None or newest.id != chosen.id:
        return 0
    folder = line_folder(state)
    return sum(is_plan(item.key) for item in store.list(folder, plan_key(folder, chosen.barrier_batch_id)))


def _require_not_retired(seen: Observation, chosen: CheckpointCompleted) -> None:
    """Objects that are missing because the checkpoint was retired meanwhile are not damage."""
    if chosen.id in seen.state.retired or chosen.id not in seen.state.completed:
        raise NotFound(
            f"could not restore checkpoint {chosen.id} of job {seen.job!r} in {seen.home}: "
            "it was retired while it was being restored, and its grace is over",
            hint="restore a newer one; to keep one longer: a savepoint, a longer --grace, a higher --retained",
        )


def _read_manifest(store: ObjectStore, chosen: CheckpointCompleted) -> Manifest:
    try:
        return decode_manifest(store.get(manifest_key(chosen.manifest)), chosen.manifest)
    except ObjectNotFound as error:
        raise Corrupt(
            f"could not restore checkpoint {chosen.id}: its manifest {chosen.manifest} is missing from the home",
            hint="an older one: --checkpoint ID",
        ) from error
    except Corrupt as error:
        raise Corrupt(
            f"could not restore checkpoint {chosen.id}: {error.message}", hint="an older one: --checkpoint ID"
        ) from error


def _print_report(report: Restored) -> None:
    console = answer()
    console.print(
        f"restored checkpoint {report.checkpoint} of job {report.job!r}: "
        f"{figures.counted(report.files, 'file')}, {figures.size(report.bytes)}, every byte verified"
    )
    # A line to copy is never wrapped.
    console.print(f'use it:  .option("checkpointLocation", "{report.to}")', soft_wrap=True)
    console.print(
        f"         the query continues after batch {report.barrier_batch_id} and changes the directory: "
        "keep a copy if you may need this state again"
    )
    if report.continuing is not None:
        print_continuing(report.continuing, report.barrier_batch_id)
