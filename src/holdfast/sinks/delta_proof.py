"""Proves that the published rows of a job are in a Delta table, or that other writers changed them in a permitted way.

The job's record at the sink holds the table's state at the last check: its id, its version, the newest published batch,
and up to which batch other writers may have rewritten rows. Each later commit is classified by the operation that it
records. If its log entry has expired, the files decide: those of batches that no other writer may have rewritten must
be live.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import Conflict
from holdfast.sinks.delta_commits import CommitEffect, effect_of, shown
from holdfast.sinks.delta_ledger import NOTHING, DeltaLedger
from holdfast.sinks.published_record import PublishedPlace, RecordedFile

_WAYS_OUT = "bring the table back to what the last run left, or go on from what is there: --accept-sink"


class Checked(msgspec.Struct, frozen=True):
    """The state of the table at the last check."""

    id: str
    version: int
    life: int
    fencing_epoch: int = 0
    published: int = NOTHING
    rewritten: int = NOTHING
    """Other writers may have moved, changed or deleted rows of batches up to this one."""

    def values(self) -> dict[str, str | int]:
        return msgspec.structs.asdict(self)


def last_checked(place: PublishedPlace | None, life: int) -> Checked | None:
    """None when the record has nothing about this lineage of the job."""
    if place is None or place.values.get("life") != life:
        return None
    return msgspec.convert(place.values, Checked)


def checked_anew(table: Any, ledger: DeltaLedger, rewritten: int) -> Checked:
    return Checked(table.metadata().id, table.version(), ledger.life, ledger.fencing_epoch, ledger.published, rewritten)


def require_descendant(describe: str, table: Any, ledger: DeltaLedger | None, last: Checked) -> None:
    """Refuse a table that is not the one that was checked, or not a later state of it."""
    id, version = table.metadata().id, table.version()
    was = f"it was table {last.id} at version {last.version} with batches up to {_batch(last.published)}"
    if id != last.id:
        raise Conflict(
            f"could not use {describe}: the table was replaced: {was}, now it is table {id} at version {version}",
            hint=_WAYS_OUT,
        )
    if version < last.version:
        raise Conflict(
            f"could not use {describe}: the table was put back from an older copy: {was}, now it is at version "
            f"{version}",
            hint=_WAYS_OUT,
        )
    published, epoch = (NOTHING, 0) if ledger is None else (ledger.published, ledger.fencing_epoch)
    if published < last.published or epoch < last.fencing_epoch:
        raise Conflict(
            f"could not use {describe}: the table was put back from an older copy: {was}, opened by run "
            f"{last.fencing_epoch}; now it says that batches up to {_batch(published)} are published, by run {epoch}",
            hint=_WAYS_OUT,
        )


def judged(describe: str, commits: Sequence[Mapping[str, Any]], ledger: DeltaLedger) -> bool:
    """Whether other writers may have rewritten rows. Refuses commits that removed published rows as a whole."""
    for commit in commits:
        if effect_of(commit) is CommitEffect.TAKES_AWAY:
            raise Conflict(
                f"could not use {describe}: this job published batches up to {_batch(ledger.published)}, and another "
                f"writer has taken published rows away as a whole ({shown(commit)})",
                hint=_WAYS_OUT,
            )
    return any(effect_of(commit) is CommitEffect.REWRITES for commit in commits)


def require_live(describe: str, root: Path, files: Sequence[RecordedFile], live: Mapping[str, object]) -> None:
    """Refuse when a published file is not in the table any more, or not on the disk, and nothing explains it."""
    gone = [file for file in files if file.path not in live]
    lost = [file for file in files if file.path in live and not (root / file.path).exists()]
    if gone or lost:
        what = "are not in the table" if gone else "are in the table and not on the disk"
        raise Conflict(
            f"could not use {describe}: {len(gone or lost)} of {len(files)} files that this job published {what} any "
            f"more, such as {(gone or lost)[0].path} with {(gone or lost)[0].rows} rows, and no commit of another "
            "writer in the table's history explains it",
            hint=_WAYS_OUT,
        )


def _batch(published: int) -> str:
    return "none" if published == NOTHING else str(published)
