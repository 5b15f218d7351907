"""holdfast's own record of the files of each published batch, at the sink's place. It does not expire with a table's
log.

    <place>/_holdfast/<job>/batches/<batch>-<number>.json   one page per publish or rewind
    <place>/_holdfast/<job>/place-<run>.json                what the place was like when that run last checked it

Readers and VACUUM ignore names that begin with "_". A page is written before the commit that makes it valid, and its
number, a digest of its bytes, is in that commit: the place names the newest valid page, and each page names the one
before it. So a page whose commit failed is in no chain, and a page whose bytes changed does not match its number. A
rewind is a page too: batches beyond it do not count any more.

A fenced run may write and delete here once more before it notices. So each run describes the place in a file with its
own number, of which the newest counts. A run deletes only pages that it listed before it confirmed that it owns the
place.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.errors import Corrupt, NewerFormat
from holdfast.identifiers import BatchId, FencingEpoch, JobName
from holdfast.sinks.protocol import StagedBatch, fingerprint
from holdfast.storage.durable import flush

HIDDEN = "_holdfast"
FORMAT = 1
NO_PAGE = 0
"""The number that stands for "no page"."""
_NAME = re.compile(r"(-1|\d{20})-(\d+)\.json")
_PLACE_NAME = re.compile(r"place-(\d{20})\.json")


class RecordedFile(msgspec.Struct, frozen=True):
    path: str
    """Relative to the place, as readers see it."""
    size: int
    rows: int


class RecordedBatch(msgspec.Struct, frozen=True):
    batch_id: BatchId
    files: tuple[RecordedFile, ...]
    made_by: FencingEpoch = FencingEpoch(0)
    """The run that staged it; 0 when that is not known."""


class Page(msgspec.Struct, frozen=True):
    upto: int
    """The newest published batch, -1 for none."""
    batches: tuple[RecordedBatch, ...] = ()
    """The batches that became visible with this page, oldest first; none for a rewind."""
    previous: int = NO_PAGE
    format: int = FORMAT


class PublishedPlace(msgspec.Struct, frozen=True):
    """The state of the place at the last check. The sink defines the values."""

    values: dict[str, str | int]
    format: int = FORMAT


class Recorded(msgspec.Struct, frozen=True):
    batches: tuple[RecordedBatch, ...]
    """Oldest first."""
    complete: bool
    """Whether these are all requested batches."""


def recorded(batch: StagedBatch, visible: Mapping[str, str] | None = None) -> RecordedBatch:
    """`visible` has the visible paths of files that are not published under their staged names."""
    names = visible or {}
    files = (RecordedFile(names.get(file.path, file.path), file.size, file.rows) for file in batch.files)
    return RecordedBatch(batch.batch_id, tuple(files), batch.fencing_epoch)


class PublishedRecord:
    """Reading leaves no trace; a missing record is empty."""

    def __init__(self, place: Path, job: JobName) -> None:
        self._root = place
        self._folder = place / HIDDEN / job
        self._pages = self._folder / "batches"

    def write(self, page: Page) -> int:
        """The number of the page, which is on the disk when this returns."""
        data = msgspec.json.encode(page)
        number = _number(data)
        self._write(self._pages / _page_name(page.upto, number), data)
        return number

    def read(self, head: int, after: int, published: int) -> Recorded:
        """The batches from `after` (exclusive) to `published`, by the chain of pages that begins with `head`."""
        wanted: dict[int, RecordedBatch] = {}
        ceiling = published
        for _, page in self._chain(head):
            ceiling = min(ceiling, page.upto)
            for batch in page.batches:
                if after < batch.batch_id <= ceiling:
                    wanted.setdefault(batch.batch_id, batch)
            if page.batches:
                ceiling = min(ceiling, page.batches[0].batch_id - 1)
            if ceiling <= after:
                break
        complete = all(batch in wanted for batch in range(after + 1, published + 1))
        return Recorded(tuple(wanted[batch] for batch in sorted(wanted)), complete)

    def forget(self, upto: BatchId) -> None:
        """Drop pages without a batch after `upto`."""
        self._drop(lambda newest, _: newest <= upto)

    def pages(self) -> frozenset[int]:
        """The numbers of all pages, valid or not."""
        return frozenset(number for _, number, _ in self._entries())

    def keep_only(self, head: int, of: frozenset[int]) -> None:
        """Drop those of the pages `of` that no commit made valid. They were listed before this run confirmed that
        `head` is its own, so pages of a newer run are not among them."""
        true = {number for number, _ in self._chain(head)}
        self._drop(lambda _, number: number in of and number not in true)

    def place(self) -> PublishedPlace | None:
        """The state of the place when the newest run last checked it, None when unknown."""
        for _, path in sorted(self._places(), reverse=True):
            try:
                return _decoded(path, path.read_bytes(), _PLACE)
            except FileNotFoundError:  # a newer run deletes those of older ones
                continue
        return None

    def remember_place(self, run: FencingEpoch, values: Mapping[str, str | int]) -> None:
        self._write(self.place_of(run), msgspec.json.encode(PublishedPlace(dict(values))))
        for older, path in self._places():
            if older < run:
                path.unlink(missing_ok=True)

    def place_of(self, run: FencingEpoch) -> Path:
        return self._folder / f"place-{run:020d}.json"

    def _places(self) -> list[tuple[int, Path]]:
        paths = self._folder.iterdir() if self._folder.is_dir() else ()
        return [(int(match[1]), path) for path in paths if (match := _PLACE_NAME.fullmatch(path.name))]

    def _chain(self, head: int) -> Iterator[tuple[int, Page]]:
        """Newest first, as far as the pages exist."""
        paths = {number: path for _, number, path in self._entries()}
        while head in paths:
            data = paths[head].read_bytes()
            if _number(data) != head:
                raise Corrupt(f"could not read what was published from {paths[head]}: its bytes have changed")
            page = _decoded(paths[head], data, _PAGE)
            yield head, page
            head = page.previous

    def _entries(self) -> Iterator[tuple[int, int, Path]]:
        for path in self._pages.iterdir() if self._pages.is_dir() else ():
            if match := _NAME.fullmatch(path.name):
                yield int(match[1]), int(match[2]), path

    def _drop(self, unwanted: Callable[[int, int], bool]) -> None:
        for newest, number, path in list(self._entries()):
            if unwanted(newest, number):
                path.unlink(missing_ok=True)

    def _write(self, path: Path, data: bytes) -> None:
        """Two runs may write at once, so each uses its own temporary name."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp"
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        for folder in (path.parent, self._folder, self._folder.parent, self._root):
            flush(folder)


def _page_name(upto: int, number: int) -> str:
    return f"{upto if upto < 0 else f'{upto:020d}'}-{number}.json"


def _number(data: bytes) -> int:
    return fingerprint(data.decode())


class _AnyFormat(msgspec.Struct):
    format: int


# Created at import: msgspec crashes the process when threads create the decoder of a type at the same time.
_PAGE = msgspec.json.Decoder(Page)
_PLACE = msgspec.json.Decoder(PublishedPlace)
_FORMAT = msgspec.json.Decoder(_AnyFormat)
_Document = TypeVar("_Document")


def _decoded(path: Path, data: bytes, decoder: msgspec.json.Decoder[_Document]) -> _Document:
    try:
        if (found := _FORMAT.decode(data).format) > FORMAT:
            raise NewerFormat.of_format(str(path), found, FORMAT)
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"could not read what was published from {path}: {error}") from error
