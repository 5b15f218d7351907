"""Decides by the ledger in a Delta table's log whether a run may open the table, and whether it still owns it. Reads
only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import Conflict, Fenced
from holdfast.identifiers import FencingEpoch, JobName
from holdfast.sinks.delta_ledger import DeltaLedger, read_ledger
from holdfast.sinks.delta_legacy import epoch_app, legacy_ledger, legacy_lineage
from holdfast.sinks.protocol import OtherName, SinkContext, fingerprint, require_still_last
from holdfast.sinks.published_record import HIDDEN


class Ownership:
    """What one run may do with the table at `place`."""

    def __init__(self, context: SinkContext, place: Path, described: str) -> None:
        self._context = context
        self._place = place
        self._described = described
        self._claim = fingerprint(context.claim) if context.claim else 0
        self.life = fingerprint(context.lineage)
        self._when_opened: Mapping[str, FencingEpoch] = {}
        """Runs under other names of this life of the job."""

    def claimed(self) -> DeltaLedger:
        """The ledger of this run before anything is published."""
        return DeltaLedger(self.life, self._context.fencing_epoch, self._claim)

    def ledger(self, table: Any) -> DeltaLedger | None:
        found = read_ledger(table, self._context.job)
        if found is None and (lineage := legacy_lineage(self._place, table, self._context)) is not None:
            return legacy_ledger(table, self._context.job, lineage)
        return found

    def own_ledger(self, operation: str, table: Any) -> DeltaLedger:
        found = self.ledger(table)
        own = self._context
        if found is not None:
            self._refuse_if_fenced(operation, found)
            if self._is_of_another_claim(found):
                raise Fenced(
                    f"could not {operation} {self._described}: another run with the number {own.fencing_epoch} has "
                    "opened it since; the home was put back from a backup",
                    hint="stop this run; the other one owns the job",
                )
        if found is None or found.fencing_epoch != own.fencing_epoch:
            raise Conflict(
                f"could not {operation} {self._described}: the table no longer knows run {own.fencing_epoch} of job "
                f"{own.job!r}; it was replaced",
                hint="bring the table back, or start again with --accept-sink to go on from what is there",
            )
        attempt = f"{operation} {self._described}"
        require_still_last(attempt, own.job, self._when_opened, self.other_names(table))
        return found

    def opens(self, table: Any) -> None:
        """From now on nobody may open the table under another name of this life of the job."""
        self._when_opened = {other.name: other.fencing_epoch for other in self.other_names(table)}

    def require_may_open(self, found: DeltaLedger | None) -> None:
        if found is None:
            return
        context = self._context
        if found.life != self.life:
            if not context.new_life:
                raise Conflict(
                    f"could not open {self._described} as job {context.job!r}: it holds the output of another life of "
                    f"that job, published up to batch {found.newest}; this home has never written to it",
                    hint="start with the home of that life, or begin a new one, which adds every row once more: "
                    "--new-life",
                )
            return
        self._refuse_if_fenced("open", found)
        if self._is_of_another_claim(found):
            raise Conflict(
                f"could not open {self._described} as run {context.fencing_epoch} of job {context.job!r}: another run "
                "with that number has opened it; the home was put back from a backup",
                hint="put the newest home back, or go on from this one: --accept-older-home",
            )

    def other_names(self, table: Any) -> Iterator[OtherName]:
        """Other job names under which this life of the job has written to the table."""
        for folder in sorted((self._place / HIDDEN).glob("*/")):
            other = None if folder.name == self._context.job else read_ledger(table, JobName(folder.name))
            if other is not None and other.life == self.life:
                yield OtherName(folder.name, other.fencing_epoch, other.newest)

    def legacy_epoch(self, table: Any) -> Mapping[str, int]:
        """Fences a run of version 0.1.0 that is still alive, too."""
        app = epoch_app(self._context.job, self._context.lineage)
        return {} if table.transaction_version(app) is None else {app: self._context.fencing_epoch}

    def _refuse_if_fenced(self, operation: str, found: DeltaLedger) -> None:
        own = self._context
        newer = found.fencing_epoch > own.fencing_epoch
        if newer or found.life != self.life:
            raise Fenced(
                f"could not {operation} {self._described} as run {own.fencing_epoch} of job {own.job!r}: "
                f"run {found.fencing_epoch}{'' if newer else ' of another life of the job'} has opened it since",
                hint="stop this run; the newer one owns the job",
            )

    def _is_of_another_claim(self, found: DeltaLedger) -> bool:
        """Whether another run with the same number opened the table, as far as both claims are known."""
        same_number = found.fencing_epoch == self._context.fencing_epoch
        return bool(same_number and found.claim and self._claim and found.claim != self._claim)
