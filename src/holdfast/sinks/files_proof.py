"""Checks the published files of a `Files` sink against its own record. Reads only.

Plain files have no log that could explain a change by another writer. So a missing or changed file counts as a loss
until an operator accepts it.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.identifiers import BatchId
from holdfast.sinks.files_layout import FilesLayout, Folded, Marker
from holdfast.sinks.place import require
from holdfast.sinks.published_record import Page, Recorded, RecordedBatch, RecordedFile
from holdfast.storage.below import plain_name

GONE = -1
"""Recorded as the size of a missing file that an operator has accepted."""


@dataclass(frozen=True)
class Loss:
    """Published files that are missing or changed. Files of which only the number is kept add no rows."""

    files: int
    of: int
    rows: int
    example: str

    def __str__(self) -> str:
        rows = f" ({self.rows} rows)" if self.rows else ""
        return f"{self.files} of {self.of} published files{rows} are not there as they were: {self.example}"


def recorded(layout: FilesLayout, marker: Marker, after: int = -1) -> Recorded:
    """The recorded files of the published batches after `after`."""
    if marker.batch_id is None or marker.without_record:
        return Recorded((), complete=True)
    return layout.record.read(marker.record, max(after, marker.folded.upto), marker.batch_id)


def loss(
    layout: FilesLayout, marker: Marker, after: int = -1, *, folded: bool = True, accepted_too: bool = False
) -> Loss | None:
    """What of the published batches after `after` is missing, None when nothing is.

    `folded` also counts the files of batches of which only number and size are kept; that lists the directory.
    """
    known = recorded(layout, marker, after)
    files = [file for batch in known.batches for file in batch.files]
    wrong = list(_wrong(layout, [file for file in files if accepted_too or file.size != GONE]))
    count, of, example = len(wrong), len(files), wrong[0][1] if wrong else ""
    if folded and after < marker.folded.upto:
        found = fold(layout, marker.folded.upto)
        of += marker.folded.files
        if found != marker.folded:
            count += max(1, marker.folded.files - found.files)
            example = example or (
                f"{marker.folded.files} files with {marker.folded.size} bytes of batches up to {marker.folded.upto} "
                f"were published, {found.files} with {found.size} are there"
            )
    if not known.complete:
        example = example or f"the record {layout.record_folder} does not tell of all batches any more"
    return Loss(count, of, sum(file.rows for file, _ in wrong), example) if example else None


def fold(layout: FilesLayout, upto: int) -> Folded:
    """The visible files of the batches up to `upto`."""
    sizes = [file.path.stat().st_size for file in layout.visible() if file.batch_id <= upto]
    return Folded(upto, len(sizes), sum(sizes))


def folded_further(marker: Marker, batches: Iterable[RecordedBatch], upto: int) -> Folded:
    sizes = [file.size for batch in batches if batch.batch_id <= upto for file in batch.files if file.size != GONE]
    return Folded(max(upto, marker.folded.upto), marker.folded.files + len(sizes), marker.folded.size + sum(sizes))


def accepted(layout: FilesLayout, marker: Marker) -> Marker:
    """The marker for a directory that an operator has accepted as it is."""
    if marker.batch_id is None:
        return marker
    batches = tuple(_as_found(layout, batch) for batch in recorded(layout, marker).batches)
    first = batches[0].batch_id if batches else BatchId(marker.batch_id + 1)
    page = Page(marker.batch_id, batches, marker.record) if batches else None
    return Marker(
        marker.batch_id,
        taken_back_by=marker.taken_back_by,
        run=marker.run,
        record=layout.record.write(page) if page else marker.record,
        folded=fold(layout, first - 1),
    )


def rows_in(paths: Iterable[Path]) -> int:
    parquet = require("pyarrow.parquet", "files")
    return sum(parquet.read_metadata(path).num_rows for path in paths)


def _as_found(layout: FilesLayout, batch: RecordedBatch) -> RecordedBatch:
    wrong = {file.path for file, _ in _wrong(layout, batch.files)}
    files = (RecordedFile(f.path, GONE, f.rows) if f.path in wrong else f for f in batch.files)
    return RecordedBatch(batch.batch_id, tuple(files), batch.made_by)


def _wrong(layout: FilesLayout, files: Iterable[RecordedFile]) -> Iterator[tuple[RecordedFile, str]]:
    for file in files:
        path = layout.place / plain_name(file.path)
        try:
            found = path.lstat()
        except FileNotFoundError:
            yield file, f"{file.path} is gone"
            continue
        if file.size == GONE:
            yield file, f"{file.path} was gone, which was accepted"
        elif not stat.S_ISREG(found.st_mode):
            yield file, f"{file.path} is not a plain file any more"
        elif found.st_size != file.size:
            yield file, f"{file.path} has {found.st_size} bytes instead of {file.size}"
