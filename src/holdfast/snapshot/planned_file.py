"""Reading a file of the work directory as exactly the file that was planned.

Spark replaces and deletes files by name at any time, but never changes one in place once it has its final name. So the
bytes behind an open handle are the planned file's if its identity is; a file that is deleted after it was opened is
still read whole, or on HDFS perhaps not at all.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from holdfast.checkpoint.layout import FileTrouble, WorkFile
from holdfast.storage.hdfs_path import HdfsPath
from holdfast.storage.work_path import WorkPath

_PIECE = 1 << 20


class Changed(Exception):
    """The file is not, or no longer, the one that was planned."""

    def __init__(self, reason: str, trouble: FileTrouble) -> None:
        super().__init__(reason, trouble)
        self.reason = reason
        self.trouble = trouble


class Handle(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def seek(self, position: int, /) -> int: ...


class Status(Protocol):
    @property
    def st_size(self) -> int: ...

    @property
    def st_mtime_ns(self) -> int: ...

    @property
    def st_ino(self) -> int: ...


def opened(path: WorkPath, file: WorkFile) -> AbstractContextManager[Handle]:
    """The planned file at `path`, proved to be that before and after it is used. Raises `Changed`."""
    return _opened_here(path, file) if isinstance(path, Path) else _opened_on_hdfs(path, file)


@contextmanager
def _opened_here(path: Path, file: WorkFile) -> Iterator[Handle]:
    with _opening():
        handle = path.open("rb", buffering=0)
    with handle:
        require_same(os.fstat(handle.fileno()), file)
        yield handle
        require_same(os.fstat(handle.fileno()), file)
        try:
            require_same(os.stat(path), file)
        except FileNotFoundError:
            return


@contextmanager
def _opened_on_hdfs(path: HdfsPath, file: WorkFile) -> Iterator[Handle]:
    """A handle does not tell which file it is of. But the planned file was there before it was opened; if it is there
    after that, it is what was opened."""
    with _opening():
        handle = path.open("rb")
        status = path.stat()
    require_same(status, file)
    yield handle
    try:
        require_same(path.stat(), file)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Changed(f"could not be looked at again: {error.strerror}", FileTrouble.UNREADABLE) from error


@contextmanager
def _opening() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise Changed("vanished before it was read", FileTrouble.VANISHED) from error
    except OSError as error:
        raise Changed(f"could not be opened: {error.strerror}", FileTrouble.UNREADABLE) from error


def whole(handle: Handle, file: WorkFile) -> bytes:
    """The file as one piece: read with one call, so that no byte is copied twice. Raises as `pieces` does."""
    read = list(pieces(handle, file, at_once=max(1, file.size)))
    return read[0] if len(read) == 1 else b"".join(read)


def pieces(handle: Handle, file: WorkFile, at_once: int = _PIECE) -> Iterator[bytes]:
    """The bytes of the file. A disk that fails is the file's trouble, not the store's, so it raises `Changed` too."""
    left = file.size
    while left:
        try:
            piece = handle.read(min(at_once, left))
        except OSError as error:
            raise Changed(f"could not be read: {error.strerror}", FileTrouble.UNREADABLE) from error
        if not piece:
            raise Changed("became shorter while it was read", FileTrouble.CHANGED)
        left -= len(piece)
        yield piece


def require_same(status: Status, file: WorkFile) -> None:
    """Raises `Changed` unless this is the planned file. A hard link to it is: it has all but the name in common."""
    if (status.st_size, status.st_mtime_ns, status.st_ino) != (file.size, file.mtime_ns, file.inode):
        raise Changed("was replaced after it was planned", FileTrouble.CHANGED)
