"""`holdfast verify`: reads back and proves every byte."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import figures
from holdfast.cli.choosing import named_checkpoint, to_verify
from holdfast.cli.observing import job_store, observe
from holdfast.cli.options import AsJson, CheckpointOption, Home, Job
from holdfast.cli.output import answer, print_json, say
from holdfast.cli.progress import byte_progress
from holdfast.errors import Corrupt
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.views import Observation
from holdfast.storage.interface import ObjectStore

if TYPE_CHECKING:
    from holdfast.repository.verification import CorruptObject, VerificationReport

All = Annotated[bool, typer.Option("--all", help="Every checkpoint that is kept.")]


def verify(
    home: Home, job: Job, checkpoint: CheckpointOption = None, everything: All = False, as_json: AsJson = False
) -> None:
    """Prove every byte of a checkpoint. Default: the newest."""
    store = job_store(home, job)
    chosen = to_verify(observe(home, job, store), checkpoint, everything)
    report = _verify_each(store, chosen)
    if report.corrupt:
        report = _without_retired(report, observe(home, job, store), chosen)
    if as_json:
        print_json(report)
    else:
        _print_report(report, chosen)
    if report.corrupt:
        raise typer.Exit(Corrupt.exit_code)


def _verify_each(store: ObjectStore, chosen: Sequence[CheckpointCompleted]) -> "VerificationReport":
    """Objects that checkpoints share are read once."""
    from holdfast.repository.verification import VerificationReport, Verified
    from holdfast.repository.verification import verify as verify_checkpoint

    verified = Verified()
    checked, read = 0, 0
    corrupt: list[CorruptObject] = []
    for entry in chosen:
        with byte_progress(f"verifying checkpoint {entry.id}", entry.bytes_total) as advance:
            report = verify_checkpoint(store, entry.id, entry.manifest, advance, verified=verified)
        checked, read = checked + report.checked, read + report.bytes
        corrupt.extend(report.corrupt)
    return VerificationReport(checked, read, tuple(corrupt))


def _without_retired(
    report: "VerificationReport", seen: Observation, chosen: Sequence[CheckpointCompleted]
) -> "VerificationReport":
    """The owner may retire a checkpoint while it is being read; what is missing of it then is no damage."""
    from holdfast.repository.verification import VerificationReport

    retired = seen.state.retired.intersection(entry.id for entry in chosen)
    if len(chosen) == 1 and retired:
        named_checkpoint(seen, chosen[0].id)  # says that it was retired
    for id in sorted(retired):
        say(f"checkpoint {id} was retired while it was being verified")
    return VerificationReport(
        report.checked, report.bytes, tuple(item for item in report.corrupt if item.checkpoint not in retired)
    )


def _print_report(report: "VerificationReport", chosen: Sequence[CheckpointCompleted]) -> None:
    ids = [entry.id for entry in chosen]
    subject = f"checkpoint {ids[0]}" if len(ids) == 1 else f"checkpoints {min(ids)} to {max(ids)}"
    read = f"{figures.counted(report.checked, 'object')}, {figures.size(report.bytes)} read back"
    console = answer()
    if not report.corrupt:
        console.print(f"{subject}: {read}, every byte as written", style="green")
        return
    console.print(f"{subject}: {read}, {len(report.corrupt)} corrupt", style="bold red")
    for item in report.corrupt:
        say(f"corrupt: checkpoint {item.checkpoint}: {item.path}: expected {item.expected}, found {item.found}")
    say("Try: holdfast verify --all shows which checkpoints are sound; recovery passes over damaged ones by itself")
