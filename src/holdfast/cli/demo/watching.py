"""Observes the pipeline from outside, without changing or slowing it: its work directory, the journal in its home, its
table, its log."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.cli.demo.places import JOB, Places
from holdfast.errors import StorageError
from holdfast.repository.entries import AnyEntry
from holdfast.repository.journal import PREFIX, read_entries
from holdfast.storage.interface import ObjectStore
from holdfast.storage.urls import open_store

_LOG_LINE = re.compile(rf"\d{{4}}-\d\d-\d\dT\S+Z (INFO|WARNING|ERROR|CRITICAL) +(?:{JOB}: )?(.*)")
"""A line of holdfast's own; Spark's look different."""
_WATERMARK = re.compile(r'"batchWatermarkMs":(\d+)')


@dataclass(frozen=True)
class BatchCommitted:
    id: int
    seconds: float
    watermark_ms: int


@dataclass(frozen=True)
class EntryAppended:
    entry: AnyEntry


@dataclass(frozen=True)
class LogLine:
    level: str
    text: str


@dataclass(frozen=True)
class TableChanged:
    rows: int


@dataclass(frozen=True)
class HomeReachable:
    reachable: bool


Sight = BatchCommitted | EntryAppended | LogLine | TableChanged | HomeReachable


class Watch:
    def __init__(self, places: Places) -> None:
        self._work = places.work / JOB
        self._table = places.table
        self._log = places.log
        self._store: ObjectStore = open_store(places.home_url).scoped(JOB)
        self._directory: Path | None = None
        self._newest_batch = -1
        self._newest_entry = -1
        self._reachable = True
        self._log_read = 0
        self._table_version = ""

    def poll(self) -> list[Sight]:
        """What is new since the last call.

        The table is read before the journal: the entry that caused a change of the table exists before the change.
        """
        return [*self._batches(), *self._table_changes(), *self._entries(), *self._log_lines()]

    def _log_lines(self) -> Iterator[LogLine]:
        with self._log.open("rb") as file:
            file.seek(self._log_read)
            new = file.read()
        whole, newline, _ = new.rpartition(b"\n")
        self._log_read += len(whole) + len(newline)
        for line in whole.decode(errors="replace").splitlines():
            if match := _LOG_LINE.fullmatch(line):
                yield LogLine(match[1], match[2])

    def _batches(self) -> Iterator[BatchCommitted]:
        directory = self._newest_directory()
        if directory is None:
            return
        committed = _numbers(directory / "commits")
        if directory != self._directory:
            # Batches that a directory has when it appears were restored, not run there.
            self._directory, self._newest_batch = directory, max(committed, default=-1)
            return
        for id in sorted(committed):
            if id > self._newest_batch:
                self._newest_batch = id
                with suppress(OSError):
                    yield _batch(directory, id)

    def _newest_directory(self) -> Path | None:
        """Work directories are named <fencing_epoch>-<number>."""
        names = [path for path in _children(self._work) if re.fullmatch(r"\d+-\d+", path.name)]
        return max(names, key=lambda path: tuple(map(int, path.name.split("-"))), default=None)

    def _entries(self) -> Iterator[Sight]:
        try:
            new = [item.key for item in self._store.list(PREFIX)][-1:]
            entries = list(read_entries(self._store)) if new != [self._newest_key] else []
        except StorageError:
            if self._reachable:
                self._reachable = False
                yield HomeReachable(False)
            return
        if not self._reachable:
            self._reachable = True
            yield HomeReachable(True)
        for entry in entries:
            if entry.sequence > self._newest_entry:
                self._newest_entry = entry.sequence
                yield EntryAppended(entry)

    @property
    def _newest_key(self) -> str:
        return f"{PREFIX}{self._newest_entry:020d}.json"

    def _table_changes(self) -> Iterator[TableChanged]:
        version = max((path.name for path in _children(self._table / "_delta_log")), default="")
        if version == self._table_version:
            return
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        with suppress(DeltaError, OSError):
            rows = DeltaTable(str(self._table)).count()
            self._table_version = version
            yield TableChanged(rows)


def _batch(directory: Path, id: int) -> BatchCommitted:
    """Spark writes offsets/N when it plans a batch and commits/N when it is done."""
    planned, committed = directory / "offsets" / str(id), directory / "commits" / str(id)
    seconds = committed.stat().st_mtime - planned.stat().st_mtime
    watermark = _WATERMARK.search(planned.read_text())
    return BatchCommitted(id, seconds, int(watermark[1]) if watermark else 0)


def _numbers(directory: Path) -> list[int]:
    return [int(path.name) for path in _children(directory) if path.name.isdigit()]


def _children(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []
