"""Directories of this process that nobody needs once it has ended, also when it exits without unwinding."""

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_UNFINISHED: set[Path] = set()
_TRIES = 20
_REMOVING_S = 5.0
_LEFT_S = 86_400.0


@contextmanager
def removed_afterwards(directory: Path) -> Iterator[Path]:
    _UNFINISHED.add(directory)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        _UNFINISHED.discard(directory)


@contextmanager
def temporary_directory(prefix: str, within: Path | None = None) -> Iterator[Path]:
    with removed_afterwards(Path(tempfile.mkdtemp(prefix=prefix, dir=within))) as directory:
        yield directory


@contextmanager
def brief_directory(prefix: str) -> Iterator[Path]:
    """For what takes minutes at most: what killed processes left so is removed when it is a day old."""
    with temporary_directory(prefix) as directory:
        now = directory.stat()
        for other in directory.parent.glob(f"{prefix}*"):
            with suppress(OSError):
                left = other.lstat()
                if left.st_uid == now.st_uid and left.st_mtime < now.st_mtime - _LEFT_S:
                    shutil.rmtree(other)
        yield directory


def remove_unfinished() -> None:
    """For a process that must exit while its threads still write there. A disk that hangs is not awaited for long."""
    removing = threading.Thread(target=_remove, daemon=True)
    removing.start()
    removing.join(_REMOVING_S)


def _remove() -> None:
    for directory in tuple(_UNFINISHED):
        for _ in range(_TRIES):
            shutil.rmtree(directory, ignore_errors=True)
            if not directory.exists():
                break
