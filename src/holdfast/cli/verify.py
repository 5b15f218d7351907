"""`holdfast verify`: reads and verifies every byte of one checkpoint, a job or a whole home."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli import figures
from holdfast.cli.choosing import named_savepoint
from holdfast.cli.observing import job_store, observe
from holdfast.cli.options import AsJson, CheckpointOption, Home, OnConflict, PointArgument, job_option, marked
from holdfast.cli.output import answer, print_json, print_message
from holdfast.cli.reference import Reference, referred
from holdfast.errors import Corrupt, HoldfastError, InvalidSettings, NotFound
from holdfast.repository.jobs import job_names
from holdfast.storage.urls import open_store

if TYPE_CHECKING:
    from holdfast.cli.verifying import JobReport, Scope
    from holdfast.storage.interface import ObjectStore

OptionalJob = Annotated[str | None, job_option("Default: every job of the home.", callback=marked)]
All = Annotated[bool, typer.Option("--all", help="Every retained checkpoint; the default without --job.")]
SampleOption = Annotated[
    str | None,
    typer.Option(
        "--sample",
        metavar="N%",
        show_default=False,
        help="Read only a random part of the blobs and packs; implies --all.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", metavar="N", show_default=False, help="The seed of an earlier sample, to draw the same again."
    ),
]
Mark = Annotated[bool, typer.Option("--mark", help="Mark damaged checkpoints in the journal. The job must not run.")]
RepairOption = Annotated[
    bool, typer.Option("--repair", help="Repair what can be repaired, mark the rest. The job must not run.")
]
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%?")


@dataclass(frozen=True)
class OnDamage:
    """What to do about damage."""

    mark: bool
    repair: bool
    on_conflict: str


class CorruptDocument(msgspec.Struct, frozen=True):
    job: str
    checkpoint: int | None
    path: str
    expected: str
    found: str


class UnreadableDocument(msgspec.Struct, frozen=True):
    job: str
    checkpoint: int
    path: str
    why: str


class RepairedDocument(msgspec.Struct, frozen=True, rename={"source": "from"}):
    job: str
    path: str
    source: str


class CheckpointOf(msgspec.Struct, frozen=True):
    job: str
    checkpoint: int


class SampleDocument(msgspec.Struct, frozen=True):
    percent: float
    seed: int


class VerificationDocument(msgspec.Struct, frozen=True, kw_only=True):
    home: str
    jobs: tuple[str, ...]
    checked: int
    bytes: int
    journal_entries: int
    objects: int
    corrupt: tuple[CorruptDocument, ...]
    unreadable: tuple[UnreadableDocument, ...]
    sample: SampleDocument | None
    repaired: tuple[RepairedDocument, ...]
    marked: tuple[CheckpointOf, ...]
    cleared: tuple[CheckpointOf, ...]


def verify(
    home: Home,
    point: PointArgument = None,
    job: OptionalJob = None,
    checkpoint: CheckpointOption = None,
    everything: All = False,
    sample: SampleOption = None,
    seed: Seed = None,
    mark: Mark = False,
    repair: RepairOption = False,
    on_conflict: OnConflict = "refuse",
    as_json: AsJson = False,
) -> None:
    """Re-read stored data and compare checksums. Default: the newest checkpoint of --job, else the whole home.

    Verifies the journal, too. Changes nothing without --mark or --repair, but notes when it found a checkpoint right.
    """
    from holdfast.cli.verifying import Scope

    if point is not None or job is not None:
        job, checkpoint = _job_and_checkpoint(home, referred(point, job).among(checkpoint))
    if job is None and checkpoint is not None:
        raise InvalidSettings("--checkpoint needs a job", hint="--job NAME")
    if checkpoint is not None and everything:
        raise InvalidSettings("--checkpoint and --all exclude each other", hint="give one of them")
    percent = _percent(sample)
    drawn = seed if seed is not None else random.SystemRandom().randrange(1 << 31)
    whole = everything or job is None or (sample is not None and checkpoint is None)
    scope = Scope(checkpoint, whole, percent, drawn)
    on_damage = OnDamage(mark, repair, on_conflict)
    reports = [*_reports(home, job, scope, on_damage)]
    if as_json:
        print_json(_document(home, reports, scope))
    else:
        _print(reports, scope)
    if any(report.left for report in reports):
        raise typer.Exit(Corrupt.exit_code)
    unread = {item.why.exit_code for report in reports for item in report.unreadable}
    if unread:
        raise typer.Exit(max(unread))


def _job_and_checkpoint(home: str, reference: Reference) -> tuple[str, int | None]:
    if reference.savepoint is None:
        return reference.job, reference.checkpoint
    return reference.job, named_savepoint(observe(home, reference.job), reference.savepoint).id


def _percent(sample: str | None) -> float:
    if sample is None:
        return 100.0
    match = _PERCENT.fullmatch(sample.strip())
    if match is None or not 0 < float(match[1]) <= 100:
        raise InvalidSettings.of("sample", sample, "must be a part such as 5% or 0.1%", hint="--sample 5%")
    return float(match[1])


def _reports(home: str, job: str | None, scope: "Scope", on_damage: OnDamage) -> Iterator["JobReport"]:
    if job is not None:
        yield _report(home, job, job_store(home, job), scope, on_damage)
        return
    root = open_store(home)
    names = [*job_names(root)]
    if not names:
        raise NotFound(f"could not find a job in {home}", hint=f"holdfast run FILE --home {home}")
    unreadable: HoldfastError | None = None
    for name in names:
        try:
            yield _report(home, name, root.scoped(name), scope, on_damage)
        except NotFound:
            print_message(f"job {name!r} has no checkpoint to verify")
        except HoldfastError as error:
            # The other jobs are still verified; the one that could not be read decides the exit code.
            print_message(f"holdfast: job {name!r}: {error.message}")
            unreadable = error
    if unreadable is not None:
        raise unreadable


def _report(home: str, job: str, store: "ObjectStore", scope: "Scope", on_damage: OnDamage) -> "JobReport":
    from holdfast.cli.verifying import handle_job, verify_job

    report = verify_job(home, job, store, scope)
    if (on_damage.mark or on_damage.repair) and (report.corrupt or report.suspected):
        handle_job(home, store, report, repair=on_damage.repair, on_conflict=on_damage.on_conflict)
    return report


def _document(home: str, reports: Sequence["JobReport"], scope: "Scope") -> VerificationDocument:
    return VerificationDocument(
        home=home,
        jobs=tuple(report.job for report in reports),
        checked=sum(report.checked for report in reports),
        bytes=sum(report.bytes for report in reports),
        journal_entries=sum(report.entries for report in reports),
        objects=sum(report.objects for report in reports),
        corrupt=tuple(
            CorruptDocument(report.job, item.checkpoint, item.path, item.expected, item.found)
            for report in reports
            for item in report.corrupt
        ),
        unreadable=tuple(
            UnreadableDocument(report.job, item.checkpoint, item.path, item.why.message)
            for report in reports
            for item in report.unreadable
        ),
        sample=SampleDocument(scope.percent, scope.seed) if scope.percent < 100 else None,
        repaired=tuple(
            RepairedDocument(report.job, key, where)
            for report in reports
            for key, where in report.handled.repaired.items()
        ),
        marked=tuple(CheckpointOf(report.job, id) for report in reports for id in report.handled.marked),
        cleared=tuple(CheckpointOf(report.job, id) for report in reports for id in report.handled.cleared),
    )


def _print(reports: Sequence["JobReport"], scope: "Scope") -> None:
    console = answer()
    for report in reports:
        subject = f"{report.job}: {_subject(report)}" if len(reports) > 1 else _subject(report)
        read = f"{figures.counted(report.checked, 'object')}, {figures.size(report.bytes)} read back"
        if scope.percent < 100:
            read += f" ({scope.percent:g}% of {figures.counted(report.objects, 'object')}, --seed {scope.seed})"
        if report.corrupt:
            console.print(f"{subject}: {read}, {len(report.corrupt)} corrupt", style="bold red")
        elif report.unreadable:
            console.print(f"{subject}: {read}, {len(report.unreadable)} could not be read", style="bold red")
        else:
            console.print(f"{subject}: {read}, every byte as written", style="green")
        _print_damage(report)


def _subject(report: "JobReport") -> str:
    ids = report.checkpoints
    if not ids:
        return "the journal"
    return f"checkpoint {ids[0]}" if len(ids) == 1 else f"checkpoints {min(ids)} to {max(ids)}"


def _print_damage(report: "JobReport") -> None:
    for item in report.corrupt:
        subject = f"checkpoint {item.checkpoint}: " if item.checkpoint is not None else ""
        print_message(f"corrupt: {subject}{item.path}: expected {item.expected}, found {item.found}")
    for unread in report.unreadable:
        print_message(f"unreadable: checkpoint {unread.checkpoint}: {unread.path}: {unread.why.message}")
    for key, where in report.handled.repaired.items():
        print_message(f"repaired: {key}: the same bytes were found in {where}")
    for id in report.handled.marked:
        print_message(f"marked: checkpoint {id} is no longer used for recovery")
    for id in report.handled.cleared:
        print_message(f"cleared: checkpoint {id} is intact again and may be used for recovery")
    if report.not_handled:
        print_message(f"nothing of job {report.job!r} was marked or repaired: {report.not_handled}")
    if report.left:
        print_message(f"Try: {_advice(report)}")
    elif report.unreadable:
        print_message(f"Try: {report.unreadable[0].why.hint or 'again, when the home is reachable'}")


def _advice(report: "JobReport") -> str:
    from holdfast.repository.names import is_plan

    if report.left and all(is_plan(item.key) for item in report.left):
        return "nothing, unless the query has its own writer: the next checkpoint replaces these plans"
    if any(item.checkpoint is None and not is_plan(item.key) for item in report.left):
        return "restore the journal entry from a copy of the home; no command can reconstruct it"
    if report.handled.marked or report.not_handled:
        return "nothing: recovery uses an older checkpoint; the next checkpoint of the job is complete"
    return "holdfast verify --repair when the job does not run; recovery passes over damaged checkpoints"
