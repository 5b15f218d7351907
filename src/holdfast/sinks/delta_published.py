"""What a job has published in a Delta table, by its record beside the log, and the proof that it is still there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.sinks.delta_commits import foreign_since_own
from holdfast.sinks.delta_fit import APPEND_ONLY, has_deletion_vectors, is_append_only
from holdfast.sinks.delta_ledger import NOTHING, DeltaLedger, read_ledger, replace
from holdfast.sinks.delta_legacy import legacy_batches, legacy_lineage, made_as
from holdfast.sinks.delta_log import DeltaLog, LiveFile
from holdfast.sinks.delta_proof import Checked, checked_anew, judged, last_checked, require_descendant, require_live
from holdfast.sinks.protocol import RewindPlan, SinkContext, fingerprint
from holdfast.sinks.published_record import HIDDEN, Page, PublishedRecord, Recorded, RecordedBatch, RecordedFile
from holdfast.storage.durable import storage_errors


class DeltaPublished:
    """What the job of `context` has published in the table at `place`; `own` begins the paths of its files."""

    def __init__(self, context: SinkContext, place: Path, described: str, log: DeltaLog, own: str) -> None:
        self._context = context
        self._place = place
        self._described = described
        self._log = log
        self._own = own
        self._life = fingerprint(context.lineage)
        self._checked: Checked | None = None
        self.record = PublishedRecord(place, context.job)

    def require_never_there(self, table: Any = None) -> None:
        """Refuse to create a ledger where this lineage of the job had a table, and the present table does not have its
        ledger."""
        last = last_checked(self.record.place(), self._life)
        if last is not None and last.published != NOTHING and not self._context.accept:
            if table is not None:
                require_descendant(self._described, table, None, last)
            raise Conflict(
                f"could not use {self._described}: there is no table any more; it was table {last.id} at version "
                f"{last.version} with batches up to {last.published}",
                hint="bring the table back, or go on with a new one, without the rows of these batches: --accept-sink",
            )

    def proved(self, table: Any, ledger: DeltaLedger, *, live: bool = False) -> Checked:
        """Proves that the published rows of this lineage are there. Reads only."""
        if ledger.life != self._life:
            return checked_anew(table, ledger, NOTHING)
        last = self._checked or last_checked(self.record.place(), self._life)
        if self._context.accept and self._checked is None:
            return checked_anew(table, ledger, ledger.published)
        commits: Sequence[Mapping[str, Any]]
        if last is None:
            commits = foreign_since_own(self._log.history(table), self._context.job)
        else:
            require_descendant(self._described, table, ledger, last)
            commits = self._log.commits_since(table, last.version)
        rewrote = judged(self._described, commits, ledger)
        rewritten = ledger.published if rewrote or last is None else last.rewritten
        if live and rewritten < ledger.published:
            self._require_live(table, ledger, rewritten)
        return checked_anew(table, ledger, rewritten)

    def remember(self, checked: Checked) -> None:
        """Called before the commit: a commit after the checked version is our own, or is checked the next time."""
        with storage_errors(f"record what was checked of {self._described}"):
            if checked != self._checked:
                self.record.remember_place(self._context.fencing_epoch, checked.values())
        self._checked = checked

    def carried_over(self, table: Any, before: DeltaLedger | None, own: DeltaLedger) -> DeltaLedger:
        """The ledger with which a run opens the table, after the proof that what `before` says is there."""
        if before is None or before.life != own.life:
            nothing = DeltaLedger(own.life, FencingEpoch(0), 0)
            self.remember(checked_anew(table, nothing, NOTHING))
            return own
        checked, page = self.proved(table, before), before.page
        if before.published != NOTHING and read_ledger(table, self._context.job) is None:
            page = self.record.write(Page(before.published, self._legacy_batches(table, before)))
        self.remember(checked)
        return replace(own, before.published, page)

    def first_made_after(self, run: FencingEpoch, table: Any, ledger: DeltaLedger) -> BatchId | None:
        made = [(batch.batch_id, batch.made_by) for batch in self._recorded(table, ledger, NOTHING).batches]
        # For batches that the record no longer holds, the file names tell, unless another writer rewrote the files.
        made += [made_as(file.path) for file in self._log.live_files(table) if file.path.startswith(self._own)]
        return min((batch for batch, epoch in made if epoch > run and batch <= ledger.published), default=None)

    def rewinding(self, table: Any, ledger: DeltaLedger, target: int) -> tuple[RewindPlan, list[LiveFile]]:
        """The plan of a rewind, and its files. With `accept`, missing files are ignored, and files that the record no
        longer holds are recognized by their names."""
        known = self._recorded(table, ledger, target)
        live = {file.path: file for file in self._log.live_files(table)}
        files = [file for batch in known.batches for file in batch.files]
        named = self._named_after(target, live) if self._context.accept else []
        unwanted = list(dict.fromkeys([*(file.path for file in files if file.path in live), *named]))
        return self._plan_without(table, ledger, target, known, [live[path] for path in unwanted])

    def _named_after(self, target: int, live: Mapping[str, LiveFile]) -> list[str]:
        return [path for path in live if path.startswith(self._own) and made_as(path)[0] > target]

    def _plan_without(
        self, table: Any, ledger: DeltaLedger, target: int, known: Recorded, unwanted: list[LiveFile]
    ) -> tuple[RewindPlan, list[LiveFile]]:
        files = [file for batch in known.batches for file in batch.files]
        there = {file.path for file in unwanted}
        obstacle = None
        if is_append_only(table):
            obstacle = f"the table takes no deletions ({APPEND_ONLY}=true)"
        elif has_deletion_vectors(table) and (marked := self._log.with_deletion_vectors(table) & there):
            obstacle = f"another writer has deleted rows of later batches (deletion vectors of {len(marked)} files)"
        elif not known.complete and not self._context.accept:
            obstacle = f"what all batches after {target} consist of is not recorded in {self._place}/{HIDDEN}"
        elif len(there) < len(files) and not self._context.accept:
            obstacle = (
                f"another writer (OPTIMIZE, DELETE, UPDATE) has rewritten {len(files) - len(there)} of the "
                f"{len(files)} files of later batches, so their rows cannot be told apart any more"
            )
        gone = sum(file.rows for file in files if file.path not in there)
        plan = RewindPlan(
            max(0, ledger.published - target), len(unwanted), sum(file.rows for file in unwanted), obstacle, gone
        )
        return plan, unwanted

    def rewound(self, checked: Checked, target: int) -> None:
        self.remember(msgspec.structs.replace(checked, published=target, rewritten=min(checked.rewritten, target)))

    def _recorded(self, table: Any, ledger: DeltaLedger, after: int) -> Recorded:
        with storage_errors(f"read what is published in {self._described}"):
            if read_ledger(table, self._context.job) is None:
                batches = tuple(batch for batch in self._legacy_batches(table, ledger) if batch.batch_id > after)
                return Recorded(batches, len(batches) == ledger.published - after)
            return self.record.read(ledger.page, after, ledger.published)

    def _require_live(self, table: Any, ledger: DeltaLedger, after: int) -> None:
        known = self.record.read(ledger.page, after, ledger.published)
        files = [file for batch in known.batches for file in batch.files]
        require_live(self._described, self._place, files, {file.path: file for file in self._log.live_files(table)})

    def _legacy_batches(self, table: Any, ledger: DeltaLedger) -> tuple[RecordedBatch, ...]:
        lineage = legacy_lineage(self._place, table, self._context)
        files = [RecordedFile(file.path, file.size, file.rows) for file in self._log.live_files(table)]
        history = self._log.history(table)
        return legacy_batches(history, files, self._context.job, lineage or "", ledger.published)
