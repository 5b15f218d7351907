"""Reading a file of the work directory as exactly the file that was planned.

Spark replaces and deletes files by name at any time, but never changes one in place once it has its final name. So the
bytes behind an open handle are the planned file's if its identity is.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.checkpoint.layout import FileTrouble, WorkFile
from holdfast.workdir.interface import Changed, Handle, WorkDirectory

_PIECE = 1 << 20


@contextmanager
def opening() -> Iterator[None]:
    """Turns errors of opening a planned file into `Changed`."""
    try:
        yield
    except FileNotFoundError as error:
        raise Changed("vanished before it was read", FileTrouble.VANISHED) from error
    except OSError as error:
        raise Changed(f"could not be opened: {error.strerror}", FileTrouble.UNREADABLE) from error


def require_same(found: WorkFile, planned: WorkFile) -> None:
    """Raises `Changed` unless this is the planned file, under any name."""
    if (found.size, found.identity) != (planned.size, planned.identity):
        raise Changed("was replaced after it was planned", FileTrouble.CHANGED)


def whole(handle: Handle, file: WorkFile) -> bytes:
    """The file as one piece: read with one call, so that no byte is copied twice. Raises as `pieces` does."""
    read = list(pieces(handle, file, at_once=max(1, file.size)))
    return read[0] if len(read) == 1 else b"".join(read)


def pieces(handle: Handle, file: WorkFile, at_once: int = _PIECE) -> Iterator[bytes]:
    """The bytes of the file. A disk error concerns the file, not the store, so it raises `Changed` too."""
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


def pieces_of(directory: WorkDirectory, path: str) -> Iterator[bytes]:
    """The bytes of the file that has this name now; `OSError` when it cannot be read."""
    with directory.open(path) as handle:
        while piece := handle.read(_PIECE):
            yield piece
