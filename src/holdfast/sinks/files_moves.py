"""Moves the files of a `Files` sink: shows what is staged, hides what is taken back, deletes what nobody needs.

Before each step it asks whether a newer run has fenced this one: the rules in `files.py` say why that suffices.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.sinks.files_layout import FilesLayout
from holdfast.sinks.files_ownership import FilesOwnership
from holdfast.sinks.files_survey import lives
from holdfast.sinks.protocol import StagedBatch, StagedFile, Step
from holdfast.sinks.staging import lost, require_size, size_of
from holdfast.storage.durable import flush


class FilesMoves:
    """The moves of one run."""

    def __init__(self, owner: FilesOwnership, described: str, step: Step, unique: Callable[[], str]) -> None:
        self._owner = owner
        self._described = described
        self._step = step
        self._unique = unique

    def require_staged(self, batches: Iterable[StagedBatch]) -> None:
        """Refuse, before the first file becomes visible, if one is missing or is not what was staged."""
        attempt = f"publish to {self._described}"
        for file, source, size in self.found(batches):
            if size != file.size:
                self._owner.refuse_if_fenced("publish")
                if size is None:
                    raise lost(attempt, source)
                require_size(attempt, source, size, file)

    def found(self, batches: Iterable[StagedBatch]) -> Iterator[tuple[StagedFile, Path, int | None]]:
        """Where each file was staged, and its size there or, if a publish has made it visible since, at its visible
        name."""
        for batch in batches:
            for file, (source, target) in zip(batch.files, self._layout.moves(batch), strict=True):
                size = size_of(source)
                yield file, source, size_of(target) if size is None else size

    def show(self, source: Path, target: Path) -> None:
        self._owner.refuse_if_fenced("publish")
        self._step("publish: file next")
        try:
            os.rename(source, target)
        except FileNotFoundError as error:
            if not target.exists():
                self._owner.refuse_if_fenced("publish")
                raise lost(f"publish to {self._described}", source) from error

    def take_away_staged(self, unwanted: Callable[[Path, BatchId], bool], newest: FencingEpoch) -> None:
        """Move unwanted staged directories to the trash, each in one step, so that no run can publish from them."""
        for directory in self._layout.staged():
            if directory.fencing_epoch <= newest and unwanted(directory.path, directory.batch_id):
                self._owner.refuse_if_fenced("discard")
                self._step("staged directory next")
                with suppress(FileNotFoundError):
                    os.rename(directory.path, self._layout.trash / f"{directory.path.name}-{self._unique()}")

    def take_away_what_past_lives_staged(self) -> None:
        """They are fenced, so it can never become visible. Their visible files stay."""
        for layout in lives(self._layout.place, self._owner.context.job):
            for directory in layout.staged() if layout.life.name != self._layout.life.name else ():
                self._owner.refuse_if_fenced("discard")
                with suppress(FileNotFoundError):
                    os.rename(directory.path, self._layout.trash / f"{directory.path.name}-{self._unique()}")

    def hide_visible(self, after: BatchId | None, newest: FencingEpoch, wanted: dict[Path, Path]) -> None:
        """Remove visible files of batches later than `after`; those in `wanted` go back to where they were staged."""
        for file in list(self._layout.visible()):
            if file.fencing_epoch > newest or (after is not None and file.batch_id <= after):
                continue
            self._owner.refuse_if_fenced("discard")
            self._step("visible file next")
            with suppress(FileNotFoundError):
                if file.path in wanted:
                    os.rename(file.path, wanted[file.path])
                else:
                    os.unlink(file.path)
        flush(self._layout.place)
        self._step("visible files gone")

    def empty_trash(self) -> None:
        for path in self._layout.trash.iterdir():
            shutil.rmtree(path, ignore_errors=True)

    @property
    def _layout(self) -> FilesLayout:
        return self._owner.layout
