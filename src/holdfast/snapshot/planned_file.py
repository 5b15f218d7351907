"""Reading a file of the work directory as exactly the file that was planned.

Spark replaces and deletes files by name at any time, but never changes one in place once it has its final name. So the
bytes behind an open handle are the planned file's if its identity is; a file that is deleted after it was opened is
still read whole.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from holdfast.checkpoint.layout import WorkFile

_PIECE = 1 << 20


class Changed(Exception):
    """The file is not, or no longer, the one that was planned."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@contextmanager
def opened(path: Path, file: WorkFile) -> Iterator[BinaryIO]:
    """The planned file at `path`, proved to be that before and after it is used. Raises `Changed`."""
    try:
        handle = path.open("rb", buffering=0)
    except FileNotFoundError as error:
        raise Changed("vanished before it was read") from error
    except OSError as error:
        raise Changed(f"could not be opened: {error.strerror}") from error
    with handle:
        require_same(os.fstat(handle.fileno()), file)
        yield handle
        require_same(os.fstat(handle.fileno()), file)
        try:
            require_same(os.stat(path), file)
        except FileNotFoundError:
            return


def whole(handle: BinaryIO, file: WorkFile) -> bytes:
    """The file as one piece: read with one call, so that no byte is copied twice. Raises as `pieces` does."""
    read = list(pieces(handle, file, at_once=max(1, file.size)))
    return read[0] if len(read) == 1 else b"".join(read)


def pieces(handle: BinaryIO, file: WorkFile, at_once: int = _PIECE) -> Iterator[bytes]:
    """The bytes of the file. A disk that fails is the file's trouble, not the store's, so it raises `Changed` too."""
    left = file.size
    while left:
        try:
            piece = handle.read(min(at_once, left))
        except OSError as error:
            raise Changed(f"could not be read: {error.strerror}") from error
        if not piece:
            raise Changed("became shorter while it was read")
        left -= len(piece)
        yield piece


def require_same(status: os.stat_result, file: WorkFile) -> None:
    """Raises `Changed` unless this is the planned file. A hard link to it is: it has all but the name in common."""
    if (status.st_size, status.st_mtime_ns, status.st_ino) != (file.size, file.mtime_ns, file.inode):
        raise Changed("was replaced after it was planned")
