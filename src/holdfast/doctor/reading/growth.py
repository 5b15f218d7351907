"""Files of a directory that grow, are rotated and truncated while they are read.

A file is identified by device and inode, so a rotated log continues under its new name. Bytes are read one poll after
they were first seen: a stack trace that is being written is then complete. Compressed files are skipped, because
rotation creates them from files that were read before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.doctor.reading.blocks import Piece, packing_of
from holdfast.doctor.reading.inputs import PIECE, below

Read = dict[str, int]
"""Identity of a file -> bytes of it that were read."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes of one file, by identity; its name may change before they are read."""

    identity: str
    start: int
    end: int


@dataclass
class Growth:
    directory: str
    _sizes: dict[str, int] = field(default_factory=dict)

    def look(self) -> Read:
        """How far each file may be read now."""
        before, self._sizes = self._sizes, {identity: size for identity, (_, size) in present(self.directory).items()}
        return {identity: min(size, before[identity]) for identity, size in self._sizes.items() if identity in before}


def present(directory: str) -> dict[str, tuple[str, int]]:
    """Identity -> path and size."""
    files = {}
    for path in sorted(below(directory)):
        try:
            status = os.stat(path)
            if packing_of(path) is None:
                files[f"{status.st_dev}-{status.st_ino}"] = (path, status.st_size)
        except OSError:
            continue  # gone, or not readable
    return files


def stretches(start: Mapping[str, int], end: Mapping[str, int]) -> Iterator[Stretch]:
    """A file that became shorter was truncated and is read from its beginning."""
    for identity, reached in end.items():
        begun = start.get(identity, 0)
        begun = begun if begun <= reached else 0
        for cut in range(begun, reached, PIECE):
            yield Stretch(identity, cut, min(cut + PIECE, reached))


def piece_of(stretch: Stretch, directory: str) -> Piece | None:
    """None when the file is gone."""
    found = present(directory).get(stretch.identity)
    return None if found is None else Piece(found[0], stretch.start, stretch.end)
