"""Writes to directories that survive a power cut, and their failures as errors a user can act on."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import StorageDenied, StorageError, StorageFull, StorageUnreachable

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


def write_atomically(path: Path, data: bytes) -> None:
    """Readers find the old bytes or the new ones, also after a power cut; a hard link to the old ones keeps them. One
    writer at a time per path."""
    temporary = path.parent / f".{path.name}.tmp"
    temporary.write_bytes(data)
    flush(temporary)
    temporary.replace(path)
    flush(path.parent)


def flush(path: Path) -> None:
    """Force a file's bytes, or a directory's names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def storage_errors(attempt: str) -> Iterator[None]:
    """Turn the operating system's refusals into a `StorageError` that starts with "could not `attempt`"."""
    try:
        yield
    except OSError as error:
        raise storage_error(attempt, error) from error


def storage_error(attempt: str, error: OSError, hint: str | None = None) -> StorageError:
    return _kind(error.errno)(f"could not {attempt}: {error}", hint=hint)


def _kind(code: int | None) -> type[StorageError]:
    if code in _FULL:
        return StorageFull
    if code in _DENIED:
        return StorageDenied
    return StorageUnreachable
