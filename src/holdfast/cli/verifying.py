"""Verification of one job for `holdfast verify`: what to read, reading it, and what is done about damage."""

import math
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from holdfast.checkpoint.manifest import Manifest
from holdfast.cli.choosing import named_checkpoint, to_verify
from holdfast.cli.observing import observe
from holdfast.cli.output import print_message
from holdfast.cli.owning import owning
from holdfast.cli.progress import byte_progress
from holdfast.errors import OwnedByAnotherRun, StorageError
from holdfast.identifiers import CheckpointId
from holdfast.plans.log import prove_plans
from holdfast.repository import verification
from holdfast.repository.damage import DamageHandled, handle_damage, readable_manifests
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.inventory import objects_of
from holdfast.repository.journal import survey_entries
from holdfast.repository.last_verified import note_verified
from holdfast.repository.lines import line_folder
from holdfast.repository.names import is_plan
from holdfast.repository.ownership import current_process
from holdfast.repository.repair import LocalFiles
from holdfast.repository.state import JobState
from holdfast.repository.verification import CorruptObject, UnreadableObject, Verified
from holdfast.repository.views import Observation
from holdfast.storage.interface import ObjectStore


@dataclass(frozen=True)
class Scope:
    """Which part of a job to read."""

    checkpoint: int | None = None
    everything: bool = False
    percent: float = 100.0
    seed: int = 0


@dataclass
class JobReport:
    job: str
    checkpoints: tuple[CheckpointId, ...] = ()
    entries: int = 0
    """Damage of the journal."""
    checked: int = 0
    objects: int = 0
    """Blobs and packs that the checkpoints name; with a sample, not all of them are checked."""
    bytes: int = 0
    corrupt: list[CorruptObject] = field(default_factory=list)
    unreadable: list[UnreadableObject] = field(default_factory=list)
    """Neither intact nor corrupt: unreadable now."""
    handled: DamageHandled = field(default_factory=lambda: DamageHandled({}, (), ()))
    suspected: bool = False
    """A checkpoint that was read is marked as damaged, and the mark may be cleared."""
    not_handled: str | None = None
    """Why nothing could be done about the damage."""

    @property
    def left(self) -> list[CorruptObject]:
        """Damage that is still there."""
        return [item for item in self.corrupt if item.key not in self.handled.repaired]


def verify_job(home: str, job: str, store: ObjectStore, scope: Scope) -> JobReport:
    """Only reads, except that it notes what was right."""
    begun = datetime.now(UTC)
    seen, report = _survey(home, job, store)
    if report.corrupt and not seen.state.retained():
        return report  # checkpoints may only be missing because the journal is damaged
    chosen = to_verify(seen, scope.checkpoint, scope.everything)
    manifests = _manifests(store, chosen)
    keys = sorted(objects_of(manifests))
    report.objects = len(keys)
    only = frozenset(_sample(keys, scope)) if scope.percent < 100 else None
    verified = Verified()
    right = set()
    for entry in chosen:
        with byte_progress(f"verifying {job} checkpoint {entry.id}", entry.bytes_total) as advance:
            result = verification.verify(
                store, entry.id, entry.manifest, advance, verified=verified, only=only, go_on=True
            )
        report.checked += result.checked
        report.bytes += result.bytes
        report.corrupt += result.corrupt
        report.unreadable += result.unreadable
        if result.sound:
            right.add(entry.id)
    report.checkpoints = tuple(entry.id for entry in chosen)
    state = seen.state
    if scope.checkpoint is None:
        _prove_plans(store, state, report)
    report.suspected = any(entry.id in state.corrupt and entry.id not in state.passed_over for entry in chosen)
    if report.corrupt:
        entries, _ = survey_entries(store)
        _forget_retired(report, observe(home, job, store, JobState.of(entries)), chosen)
    if only is None:
        _note(job, store, state, begun, right, {entry.id for entry in chosen} - right)
    return report


def _note(
    job: str, store: ObjectStore, state: JobState, begun: datetime, right: set[CheckpointId], wrong: set[CheckpointId]
) -> None:
    """With permission to read only, there is no note."""
    try:
        note_verified(store, state.retained(), begun, right, wrong)
    except StorageError as error:
        print_message(f"when job {job!r} was verified is not noted in its home: {error.message}")


def _prove_plans(store: ObjectStore, state: JobState, report: JobReport) -> None:
    proved = prove_plans(store, line_folder(state))
    report.checked += proved.checked
    report.bytes += proved.bytes
    report.corrupt += [
        CorruptObject(None, key, "a plan that matches its checksum", found) for key, found in proved.damaged.items()
    ]


def _manifests(store: ObjectStore, entries: Sequence[CheckpointCompleted]) -> dict[CheckpointId, Manifest]:
    """Those that can be read; the others are reported when their checkpoint is verified."""
    manifests: dict[CheckpointId, Manifest] = {}
    for entry in entries:
        with suppress(StorageError):
            manifests |= readable_manifests(store, [entry])
    return manifests


def _survey(home: str, job: str, store: ObjectStore) -> tuple[Observation, JobReport]:
    entries, damaged = survey_entries(store)
    report = JobReport(job, entries=len(entries) + len(damaged), checked=len(entries) + len(damaged))
    report.corrupt = [
        CorruptObject(None, key, "an entry that matches its checksum", error.message) for key, error in damaged.items()
    ]
    return observe(home, job, store, JobState.of(entries)), report


def _sample(keys: Sequence[str], scope: Scope) -> list[str]:
    """At least one; the same for the same seed and the same objects."""
    count = min(len(keys), math.ceil(len(keys) * scope.percent / 100))
    return random.Random(scope.seed).sample(list(keys), count)


def _forget_retired(report: JobReport, now: Observation, chosen: Sequence[CheckpointCompleted]) -> None:
    """The owner may retire a checkpoint while it is being read; objects that are missing then are not damage."""
    retired = now.state.retired & {entry.id for entry in chosen}
    if len(chosen) == 1 and retired:
        named_checkpoint(now, chosen[0].id)  # raises that it was retired
    for id in sorted(retired):
        print_message(f"checkpoint {id} was retired while it was being verified")
    report.corrupt = [item for item in report.corrupt if item.checkpoint not in retired]


def handle_job(home: str, store: ObjectStore, report: JobReport, *, repair: bool, on_conflict: str = "refuse") -> None:
    """Own the job briefly and repair or mark the damage. A running job is left to its owner."""
    if any(item.checkpoint is None and not is_plan(item.key) for item in report.corrupt):
        report.not_handled = "its journal is damaged, and nothing may be written on top of that"
        return
    try:
        with owning(report.job, home, store, "repair", on_conflict) as journal:
            report.handled = handle_damage(store, journal, report.corrupt, _directories(journal.state), repair=repair)
    except OwnedByAnotherRun as error:
        report.not_handled = (
            f"it is not free ({error.message.partition(': ')[2]}); its owner passes over damaged checkpoints"
        )


def _directories(state: JobState) -> list[LocalFiles]:
    """The work directories on this machine, newest first. Which run left them does not matter: bytes are verified."""
    run = state.pipeline
    if run is None or run.process.host != current_process().host:
        return []
    if run.protects:
        return [local_files(Path(run.protects))] if Path(run.protects).is_dir() else []
    if not run.work or not Path(run.work).is_dir():
        return []
    folders = sorted((path for path in Path(run.work).iterdir() if path.is_dir()), reverse=True)
    return [local_files(folder) for folder in folders]


def local_files(folder: Path) -> LocalFiles:
    from holdfast.workdir.factory import work_directory
    from holdfast.workdir.planned_file import pieces_of

    directory = work_directory(folder)
    return LocalFiles(directory.location, lambda path: pieces_of(directory, path))
