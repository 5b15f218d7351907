"""Whether the input files that came behind a checkpoint still exist. Until when they will, nobody can be asked."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from holdfast.checkpoint.layout import WorkFile
from holdfast.checkpoint.source_logs import files_read, newest_entry
from holdfast.identifiers import CheckpointId
from holdfast.job_log import log
from holdfast.sources.restorable import Offsets, Restorable

_FILES = 500
"""Looked for in one look, those that were read first."""
_LOG_BYTES = 64 << 20
"""Spark's log of a source that has read more files than fit in this is not read here."""
_COMPACT = ".compact"


class Logs(Protocol):
    """What is needed of a checkpoint directory."""

    def names(self, folder: str = "") -> list[str]: ...

    def read(self, path: str) -> bytes: ...

    def stat(self, path: str) -> WorkFile: ...


class FilesKept:
    def __init__(
        self, name: str, logs: Callable[[], Logs | None], missing: Callable[[Sequence[str]], Collection[str]]
    ) -> None:
        """`name` of the source in Spark's offset log."""
        self._name = name
        self._logs = logs
        self._missing = missing
        self._read: dict[int, Sequence[str]] = {}
        """Files by entry of the source's log."""

    def look(self, offsets: Offsets, now: float) -> Mapping[CheckpointId, Restorable]:
        at = {id: entry for id, by in offsets.items() if (entry := newest_entry(by.get(self._name, ""))) is not None}
        logs = self._logs()
        if not at or logs is None:
            return {}
        if not self._learn(logs, min(at.values())):
            return {}
        read = [(number, path) for number, paths in sorted(self._read.items()) for path in paths]
        lost = set(self._missing([path for _, path in read[:_FILES]]))
        gone = {number: path for number, path in read if path in lost}
        return {id: _judged(id, entry, gone, now) for id, entry in at.items()}

    def _learn(self, logs: Logs, oldest: int) -> bool:
        """What came behind the oldest entry. Whether that can be told."""
        self._read = {number: paths for number, paths in self._read.items() if number > oldest}
        known = max(self._read, default=oldest)
        for path in _entries_behind(known, logs.names(f"sources/{self._name}")):
            path = f"sources/{self._name}/{path}"
            if logs.stat(path).size > _LOG_BYTES:
                log.debug("%s is too large to see which input files are still there", path)
                return False
            found: dict[int, list[str]] = {}
            for number, file in files_read(logs.read(path)):
                if number > known:
                    found.setdefault(number, []).append(file)
            self._read |= found
        return True


def _entries_behind(known: int, names: Collection[str]) -> Iterator[str]:
    """The newest compacted entry, which has all before it, and what came after that."""
    compacted = max(
        (int(number) for name in names if (number := name.removesuffix(_COMPACT)) != name and number.isdigit()),
        default=-1,
    )
    if compacted > known:
        yield f"{compacted}{_COMPACT}"
    plain = (int(name) for name in names if name.isdigit())
    yield from (str(number) for number in sorted(plain) if number > max(known, compacted))


def _judged(id: CheckpointId, entry: int, gone: Mapping[int, str], now: float) -> Restorable:
    lost = next((path for number, path in gone.items() if number > entry), None)
    if lost is None:
        return Restorable(id, None, source="files")
    return Restorable(id, now, gone=True, source="files", first=lost)
