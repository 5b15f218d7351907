"""`holdfast copy`: copies a checkpoint, or a whole job, to another home."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli import figures
from holdfast.cli.choosing import to_restore
from holdfast.cli.observing import job_store, observe
from holdfast.cli.options import AsJson, CheckpointOption, Home, Job, PointArgument
from holdfast.cli.output import answer, print_json, print_message
from holdfast.cli.owning import reporting_environment
from holdfast.cli.progress import byte_progress
from holdfast.cli.reference import referred
from holdfast.errors import Corrupt, InvalidSettings, NotFound
from holdfast.identifiers import job_name
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.views import Observation
from holdfast.storage.urls import open_store, require_create_if_absent

if TYPE_CHECKING:
    from holdfast.repository.transfer import Load, Progress
    from holdfast.runtime.commands.copying import Copied, JobHome

_TRIES = 3
"""How often the newest checkpoint may be retired during its copy before that is an error."""

To = Annotated[str, typer.Option("--to", metavar="URL", show_default=False, help="The home to copy to.")]
As = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", show_default=False, help="The job's name there. Default: the same."),
]
SavepointOption = Annotated[
    str | None, typer.Option("--savepoint", metavar="NAME", show_default=False, help="This savepoint.")
]
All = Annotated[
    bool,
    typer.Option("--all", help="The whole job: every retained checkpoint that is intact, savepoints, the history."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be copied; write nothing.")]


class CopyDocument(msgspec.Struct, frozen=True, kw_only=True, rename={"home_to": "to", "job_as": "as"}):
    job: str
    home: str
    home_to: str
    job_as: str
    dry_run: bool
    checkpoints: tuple[int, ...]
    present: tuple[int, ...]
    repaired: tuple[int, ...]
    objects: int
    bytes: int
    retired: tuple[int, ...]
    decisions: tuple[str, ...]
    vanished: tuple[int, ...]
    damaged: dict[int, str]


def copy(
    home: Home,
    to: To,
    point: PointArgument = None,
    job: Job = None,
    as_job: As = None,
    checkpoint: CheckpointOption = None,
    savepoint: SavepointOption = None,
    everything: All = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Copy a checkpoint, or a whole job, to another home. Default: the newest checkpoint.

    Every byte is verified. A repeated copy sends only what is missing at the target.
    """
    from holdfast.runtime.commands.copying import JobHome

    reference = referred(point, job).among(checkpoint, savepoint)
    job, checkpoint, savepoint = reference.job, reference.checkpoint, reference.savepoint
    if everything and (checkpoint is not None or savepoint is not None):
        raise InvalidSettings("--all excludes --checkpoint and --savepoint", hint="give one of them")
    source = JobHome(job_name(job), home, job_store(home, job))
    root = open_store(to)
    target = JobHome(job_name(as_job or job), to, root.scoped(job_name(as_job or job)))
    if not dry_run:
        require_create_if_absent(root)
    for remaining in reversed(range(_TRIES)):
        entries = _chosen(observe(home, job, source.store), checkpoint, savepoint, everything)
        copied = _copied(source, target, entries, everything, dry_run)
        if not copied.vanished or everything or checkpoint is not None or savepoint is not None or not remaining:
            break
    document = _document(source, target, copied, dry_run)
    if as_json:
        print_json(document)
    else:
        _print(document)
    _finish(document, everything)


def _chosen(
    seen: Observation, checkpoint: int | None, savepoint: str | None, everything: bool
) -> list[CheckpointCompleted]:
    chosen = to_restore(seen, None if everything else checkpoint, None if everything else savepoint)
    if not everything and (damage := seen.state.corrupt.get(chosen.id)):
        raise Corrupt(
            f"could not copy checkpoint {chosen.id} of job {seen.job!r}: it is damaged: {damage.detail}",
            hint="copy another one: --checkpoint ID; or run holdfast verify --repair first",
        )
    if not everything and chosen.id in seen.state.abandoned:
        # The sink may show batches with other rows since then: a run from here would mix two histories.
        raise InvalidSettings(
            f"could not copy checkpoint {chosen.id} of job {seen.job!r}: it belongs to an abandoned history",
            hint="write it to a directory: holdfast restore",
        )
    return sorted(seen.state.restorable(), key=lambda entry: entry.id) if everything else [chosen]


def _copied(
    source: "JobHome", target: "JobHome", entries: list[CheckpointCompleted], everything: bool, dry_run: bool
) -> "Copied":
    from holdfast.runtime.commands.copying import Copy, planned

    if dry_run:
        return planned(source, target, entries, whole=everything)
    return Copy(source, target, _progress, reporting_environment()).run(entries, whole=everything)


@contextmanager
def _progress(load: "Load") -> Iterator["Progress"]:
    with byte_progress(f"copying checkpoint {load.entry.id}", load.bytes) as advance:
        yield advance


def _document(source: "JobHome", target: "JobHome", copied: "Copied", dry_run: bool) -> CopyDocument:
    return CopyDocument(
        job=source.job,
        home=source.home,
        home_to=target.home,
        job_as=target.job,
        dry_run=dry_run,
        checkpoints=tuple(copied.checkpoints),
        present=tuple(copied.present),
        repaired=tuple(copied.repaired),
        objects=copied.objects,
        bytes=copied.bytes,
        retired=tuple(copied.retired),
        decisions=tuple(copied.decisions),
        vanished=tuple(copied.vanished),
        damaged={int(id): why for id, why in copied.damaged.items()},
    )


def _print(document: CopyDocument) -> None:
    console = answer()
    sent = f"{figures.counted(document.objects, 'object')}, {figures.size(document.bytes)}"
    there = f"{document.home_to} job {document.job_as!r}"
    if document.checkpoints:
        verb = "would copy" if document.dry_run else "copied"
        proved = "" if document.dry_run else ", every byte verified"
        console.print(f"{verb} {_ids(document.checkpoints)} of job {document.job!r} to {there}: {sent}{proved}")
    elif document.present and not document.damaged:
        console.print(f"{there} has {_ids(document.present)} already")
    if document.repaired:
        console.print(f"repaired there: {_ids(document.repaired)}")
    if document.retired:
        console.print(
            f"retired there, as in the source: {_ids(document.retired)}; holdfast collect deletes their objects"
        )
    for decision in document.decisions:
        console.print(f"as in the source: {decision}")
    for id in document.vanished:
        print_message(f"checkpoint {id} was retired while it was being copied")
    for id, why in document.damaged.items():
        print_message(f"not copied: checkpoint {id} is damaged: {why}")


def _ids(ids: tuple[int, ...]) -> str:
    return f"checkpoint {ids[0]}" if len(ids) == 1 else f"checkpoints {', '.join(str(id) for id in sorted(ids))}"


def _finish(document: CopyDocument, everything: bool) -> None:
    if document.damaged:
        raise Corrupt(
            f"could not copy {_ids(tuple(document.damaged))} of job {document.job!r}: damaged in {document.home}",
            hint=f"holdfast verify --home {document.home} --job {document.job} --all --repair",
        )
    if document.vanished and not everything:
        raise NotFound(
            f"could not copy {_ids(document.vanished)} of job {document.job!r}: retired while being copied",
            hint="copy a newer one, or create a savepoint first: retention does not apply to savepoints",
        )
