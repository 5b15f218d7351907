"""Whether a run owns the directory of a `Files` sink, and whether what it has published there is as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from holdfast.errors import Conflict, Fenced
from holdfast.identifiers import FencingEpoch
from holdfast.sinks import files_columns, files_proof
from holdfast.sinks.files_layout import FilesLayout, Life, Marker, current_life
from holdfast.sinks.files_place import foreign_files
from holdfast.sinks.files_survey import columns_of_0_1_0, newest_published, other_names
from holdfast.sinks.protocol import OtherName, SinkContext, Step, fingerprint, require_still_last

LOOKING = "use"
"""The operation that changes nothing, so that it may go on while a newer run takes over."""


class FilesOwnership:
    """The directory as one run knows it. Rule 1 of `files.py`: every call asks it first."""

    def __init__(
        self, context: SinkContext, layout: FilesLayout, described: str, step: Step, unique: Callable[[], str]
    ) -> None:
        self.context = context
        self.layout = layout
        self.epoch: FencingEpoch = context.fencing_epoch
        self._described = described
        self._step = step
        self._unique = unique
        self._when_opened: Mapping[str, FencingEpoch] | None = None
        """Runs under other names of this life of the job; None: it has not opened the directory."""

    def own_marker(self, operation: str) -> Marker:
        """What is published, as this run knows it; refuses a directory that does not know this run."""
        self.layout.require_no_links(self.epoch)
        self.refuse_if_fenced(operation)
        marker = self.layout.own_marker(self.epoch)
        if marker is None or marker.claim:
            self.refuse_if_fenced(operation)  # a newer run deletes the markers of older ones
            raise Conflict(
                f"could not {operation} {self._described}: it does not know run {self.epoch} of job "
                f"{self.context.job!r} any more; the directory was replaced, emptied or put back from a copy meanwhile",
                hint="bring the directory back; or, when this is meant, start once with --accept-sink",
            )
        self.require_own_claim()
        return marker

    def take(self, life: Life | None) -> None:
        """Take ownership of the place: from now on neither an older run nor another life can publish."""
        context, before = self.context, self.layout
        layout = self.layout = before.carry_over()
        layout.make()
        if life is None or life.life != layout.life.life or before.own != layout.own:
            layout.write_life(self._unique())
        marker = layout.own_marker(self.epoch)
        if marker is not None and not marker.claim:
            if context.accept:
                self.write(files_proof.accepted(layout, marker))
            return
        self.write(Marker(claim=True))
        self._step("open: claimed")
        self.write(self._left_by_older_runs())
        self._step("open: carried over")

    def _left_by_older_runs(self) -> Marker:
        older = {epoch: marker for epoch, marker in self.layout.markers().items() if epoch < self.epoch}
        marker = newest_published(older)
        if not older and self.context.accept:
            shown = max((file.batch_id for file in self.layout.visible()), default=None)
            marker = Marker(shown)
        if not self.layout.columns() and (schemas := columns_of_0_1_0(self.layout)):
            self.layout.write_columns(self.epoch, files_columns.union(schemas))
        unproved = self.context.accept or marker.without_record
        return files_proof.accepted(self.layout, marker) if unproved else marker

    def obstacle(self, marker: Marker, after: int) -> str | None:
        """Why batches after `after` cannot be taken back: their rows may be in files that holdfast did not write."""
        found = files_proof.loss(self.layout, marker, after, accepted_too=True)
        if found is None:
            return None
        stranger = next(foreign_files(self.layout.place), None)
        if stranger is None and self.context.accept:
            return None
        beside = f"; {stranger.name} lies beside them, which holdfast did not write" if stranger else ""
        return f"{found}{beside}. Another writer has compacted, deleted or replaced them; their rows would appear twice"

    def require_published_files(self, operation: str, *, folded: bool) -> None:
        """Refuse to continue when published files are missing. A rewind of another run may be in progress."""
        before: Marker | None = None
        while before != (marker := newest_published(self.layout.markers())):
            found = files_proof.loss(self.layout, marker, folded=folded)
            if found is None:
                return
            if operation != LOOKING:
                self.refuse_if_fenced(operation)
            before = marker
        raise Conflict(
            f"could not {operation} {self._described}: job {self.context.job!r} has published batches up to "
            f"{marker.batch_id} there, but {found}",
            hint="bring the files back; or, when this is meant (rows deleted on request, an older copy put back), "
            "start once with --accept-sink",
        )

    def refuse_if_fenced(self, operation: str) -> None:
        context, layout = self.context, self.layout
        newest = layout.newest_run()
        if newest is not None and newest > self.epoch:
            raise Fenced(
                f"could not {operation} {self._described} as run {self.epoch}: run {newest} has opened it since",
                hint="stop this run; the newer one owns the job",
            )
        life = current_life(layout.place, context.job, context.lineage)
        if life is not None and life.life != layout.life.life and operation != "open":
            raise Fenced(
                f"could not {operation} {self._described} as run {self.epoch}: another life of job "
                f"{self.context.job!r} has taken it over",
                hint="stop this run; the new life owns the directory",
            )

        attempt = f"{operation} {self._described}"
        require_still_last(attempt, context.job, self._when_opened or {}, self._others())

    def opens(self) -> None:
        """From now on nobody may open it under another name of this life of the job."""
        self._when_opened = {other.name: other.fencing_epoch for other in other_names(self.layout.place, self.context)}

    def _others(self) -> Iterator[OtherName]:
        return iter(()) if self._when_opened is None else other_names(self.layout.place, self.context)

    def require_own_claim(self) -> None:
        marker, claim = self.layout.own_marker(self.epoch), self.context.claim
        if marker is not None and marker.run is not None and claim and marker.run != fingerprint(claim):
            raise Conflict(
                f"could not use {self._described} as run {self.epoch} of job {self.context.job!r}: another run "
                "with the same number has opened it, so the home was put back from a backup",
                hint="bring the newer home back, or claim above what the sink knows: --accept-older-home",
            )

    def write(self, marker: Marker) -> None:
        claim = self.context.claim
        run = fingerprint(claim) if claim else None
        self.layout.write_marker(self.epoch, msgspec.structs.replace(marker, run=run))
