"""How long a Delta table keeps what checkpoints need of it.

A stream reads commit after commit of the table's log, and the data files that they add. Delta deletes entries of the
log that are older than `delta.logRetentionDuration`. A data file that a later commit removed, OPTIMIZE for example, is
deleted by the next VACUUM that comes more than `delta.deletedFileRetentionDuration` after that.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from holdfast.identifiers import CheckpointId
from holdfast.sources.restorable import Offsets, Restorable

LOG_RETENTION, FILE_RETENTION = "delta.logRetentionDuration", "delta.deletedFileRetentionDuration"
_DAY = 86_400.0
_USUAL = {LOG_RETENTION: 30 * _DAY, FILE_RETENTION: 7 * _DAY}
_UNITS = {"week": 7 * _DAY, "day": _DAY, "hour": 3600.0, "minute": 60.0, "second": 1.0, "millisecond": 0.001}
_PART = re.compile(r"(\d+) +(week|day|hour|minute|second|millisecond)s?", re.IGNORECASE)
_COMMITS = 1000
"""Read in one look; the next one goes on from there."""
_FILES = 500
"""Looked for in one look, those that were removed first."""


class TableFiles(Protocol):
    """The files below the table. Paths are relative to it, encoded as in a URL; whatever the file system raises."""

    name: str

    def properties(self) -> Mapping[str, str]: ...

    def modified(self, path: str) -> float | None:
        """None when there is no such file."""

    def text(self, path: str) -> str: ...

    def missing(self, paths: Sequence[str]) -> Sequence[str]: ...


class _Add(msgspec.Struct):
    path: str
    dataChange: bool = True  # Delta's names


class _Remove(msgspec.Struct):
    path: str
    deletionTimestamp: int | None = None


class _Action(msgspec.Struct):
    add: _Add | None = None
    remove: _Remove | None = None


class _Offset(msgspec.Struct):
    reservoirVersion: int
    isStartingVersion: bool = False


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_ACTION_DECODER = msgspec.json.Decoder(_Action)
_OFFSET_DECODER = msgspec.json.Decoder(_Offset)


@dataclass(frozen=True)
class _Version:
    added: frozenset[str]
    """Files that a stream reads."""
    removed: Mapping[str, float]
    """When, by file."""


class DeltaKept:
    def __init__(self, name: str, table: TableFiles) -> None:
        """`name` of the source in Spark's offset log."""
        self._name = name
        self._table = table
        self._commits: dict[int, _Version] = {}

    def look(self, offsets: Offsets, now: float) -> Mapping[CheckpointId, Restorable]:
        needs = {id: need for id, by in offsets.items() if (need := _offset(by.get(self._name))) is not None}
        if not needs:
            return {}
        newest = max(need.reservoirVersion for need in needs.values())
        versions = {need.reservoirVersion for need in needs.values()}
        written = {version: self._table.modified(_entry(version)) for version in versions}
        self._read_on(min((version for version, at in written.items() if at is not None), default=newest))
        properties = self._table.properties()
        keeps = {name: duration(properties.get(name), usual) for name, usual in _USUAL.items()}
        lost = frozenset(self._lost(now - keeps[FILE_RETENTION]))
        found = {}
        for id, need in needs.items():
            at = written[need.reservoirVersion]
            removed = dict(self._removed(need))
            gone = None
            if at is None and need.reservoirVersion < newest:
                gone = f"version {need.reservoirVersion} of {self._table.name}"
            elif not lost.isdisjoint(removed):
                gone = f"{min(lost & removed.keys())} of {self._table.name}"
            ends = [] if at is None else [(at + keeps[LOG_RETENTION], keeps[LOG_RETENTION])]
            ends += [(removed_at + keeps[FILE_RETENTION], keeps[FILE_RETENTION]) for removed_at in removed.values()]
            found[id] = _judged(id, gone, ends, self._table.name, now)
        return found

    def _read_on(self, first: int) -> None:
        """Commits do not change. Those that no checkpoint needs are forgotten."""
        self._commits = {version: commit for version, commit in self._commits.items() if version >= first}
        if first not in self._commits:  # a job that went back needs older ones
            self._commits = {}
        following = max(self._commits, default=first - 1) + 1
        for version in range(following, following + _COMMITS):
            path = _entry(version)
            if self._table.modified(path) is None:
                return
            self._commits[version] = _commit(self._table.text(path))

    def _removed(self, need: _Offset) -> Iterator[tuple[str, float]]:
        """Files that a job would read after it went back to `need`, and that a later commit has removed. A job that is
        still reading the table's first snapshot also reads older files."""
        behind = [commit for version, commit in sorted(self._commits.items()) if version >= need.reservoirVersion]
        added: set[str] = set()
        for number, commit in enumerate(behind):
            later = number > 0
            yield from (
                (path, at) for path, at in commit.removed.items() if path in added or (need.isStartingVersion and later)
            )
            added |= commit.added

    def _lost(self, before: float) -> Sequence[str]:
        """Of what was removed so long ago that a VACUUM may have deleted it."""
        removed = sorted((at, path) for commit in self._commits.values() for path, at in commit.removed.items())
        return self._table.missing([path for at, path in removed if at < before][:_FILES])


def _judged(
    id: CheckpointId, gone: str | None, ends: Sequence[tuple[float, float]], table: str, now: float
) -> Restorable:
    """`ends`: until when something is kept, and for how long things of its kind are."""
    if gone is not None:
        return Restorable(id, now, gone=True, source="delta", first=gone)
    until, retention = min(ends, default=(None, None))
    return Restorable(id, until, source="delta", first=table, retention_s=retention)


def _offset(text: str | None) -> _Offset | None:
    try:
        return None if text is None else _OFFSET_DECODER.decode(text)
    except msgspec.DecodeError:  # "-" before the first batch
        return None


def _entry(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


def _commit(text: str) -> _Version:
    actions = [_ACTION_DECODER.decode(line) for line in text.splitlines() if line.strip()]
    added = frozenset(action.add.path for action in actions if action.add is not None and action.add.dataChange)
    removed = {each.path: (each.deletionTimestamp or 0) / 1000 for each in _removes(actions)}
    return _Version(added, removed)


def _removes(actions: Iterable[_Action]) -> Iterator[_Remove]:
    return (action.remove for action in actions if action.remove is not None and action.remove.deletionTimestamp)


def duration(text: str | None, usual: float) -> float:
    """Delta writes `interval 30 days`. What is not understood is taken for the usual."""
    parts = _PART.findall(text or "")
    return sum(int(number) * _UNITS[unit.lower()] for number, unit in parts) if parts else usual
