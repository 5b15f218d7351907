"""A local or NFS directory as object store. create-if-absent is link(2), which is atomic on both.

A write goes to a temporary name first, is flushed to the disk, then gets its real name; a reader never sees half an
object. The root directory is never created here: a missing root is an unmounted disk until a person says otherwise.
"""

import errno
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, TypeVar

from holdfast.errors import (
    ObjectNotFound,
    OutcomeUnknown,
    StorageDenied,
    StorageError,
    StorageFull,
    StorageUnreachable,
)
from holdfast.storage.interface import Created, ObjectStore, StoredObject

T = TypeVar("T")

_CHUNK = 1 << 20
_TEMPORARY = ".tmp-"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


class LocalStore:
    def __init__(self, root: Path, *, within: str = "") -> None:
        self._root = root
        self._within = within
        self._identity = _identity(root)

    @property
    def url(self) -> str:
        return f"file://{self._base}"

    @property
    def _base(self) -> Path:
        return self._root / self._within if self._within else self._root

    def scoped(self, name: str) -> ObjectStore:
        return LocalStore(self._root, within=f"{self._within}/{name}" if self._within else name)

    def create(self, key: str, data: bytes) -> Created:
        target = self._base / key
        temporary = self._write_temporary("create", target, [data])
        try:
            os.link(temporary, target)
        except FileExistsError:
            return Created.LOST
        except OSError as error:
            if error.errno in _DENIED | _FULL | {errno.ENOENT}:
                _fail("create", target, error)
            raise OutcomeUnknown(f"could not tell whether {target} was created: {error.strerror}") from error
        finally:
            with suppress(OSError):
                os.unlink(temporary)
        self._flush_directory(target)
        return Created.WON

    def put(self, key: str, data: bytes) -> None:
        self._replace("write", self._base / key, [data])

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        target = self._base / key
        self._replace("upload", target, chunks)
        self._flush_directory(target)

    def get(self, key: str) -> bytes:
        return self._reading(key, lambda path: path.read_bytes())

    def read(self, key: str, offset: int, length: int) -> bytes:
        def part(path: Path) -> bytes:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(length)

        return self._reading(key, part)

    def stream(self, key: str) -> Iterator[bytes]:
        file = self._reading(key, lambda path: path.open("rb"))
        with file:
            while chunk := self._reading(key, lambda _: file.read(_CHUNK)):
                yield chunk

    def exists(self, key: str) -> bool:
        self._require_root("look for", self._base / key)
        return (self._base / key).exists()

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        self._require_root("list", self._base)
        folder, _, _ = prefix.rpartition("/")
        try:
            yield from self._walk(folder, prefix, after)
        except OSError as error:
            _fail("list", self._base / folder, error)

    def children(self) -> tuple[str, ...]:
        self._require_root("list", self._base)
        try:
            return tuple(sorted(entry.name for entry in os.scandir(self._base) if entry.is_dir()))
        except FileNotFoundError:
            return ()
        except OSError as error:
            _fail("list", self._base, error)

    def delete(self, key: str) -> None:
        self._require_root("delete", self._base / key)
        try:
            os.unlink(self._base / key)
        except FileNotFoundError:
            return
        except OSError as error:
            _fail("delete", self._base / key, error)

    def temporaries(self) -> Iterator[StoredObject]:
        self._require_root("list", self._base)
        try:
            for folder, _, names in os.walk(self._base):
                for name in sorted(names):
                    if name.startswith(_TEMPORARY):
                        path = Path(folder, name)
                        with suppress(FileNotFoundError):
                            status = path.stat()
                            key = path.relative_to(self._base).as_posix()
                            yield StoredObject(key, status.st_size, status.st_mtime)
        except OSError as error:
            _fail("list", self._base, error)

    def _walk(self, folder: str, prefix: str, after: str) -> Iterator[StoredObject]:
        try:
            # A folder sorts as "name/", so that keys come out in plain string order.
            entries = sorted(os.scandir(self._base / folder), key=lambda e: e.name + "/" if e.is_dir() else e.name)
        except FileNotFoundError:
            return
        for entry in entries:
            key = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir():
                if prefix.startswith(key + "/") or (key + "/").startswith(prefix):
                    yield from self._walk(key, prefix, after)
            elif key.startswith(prefix) and key > after and not entry.name.startswith(_TEMPORARY):
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    yield StoredObject(key, status.st_size, status.st_mtime)

    def _reading(self, key: str, read: Callable[[Path], T]) -> T:
        path = self._base / key
        try:
            return read(path)
        except FileNotFoundError as error:
            self._require_root("read", path)
            raise ObjectNotFound(f"could not read {path}: there is no such object") from error
        except OSError as error:
            _fail("read", path, error)

    def _replace(self, operation: str, target: Path, chunks: Iterable[bytes]) -> None:
        temporary = self._write_temporary(operation, target, chunks)
        try:
            os.replace(temporary, target)
        except OSError as error:
            with suppress(OSError):
                os.unlink(temporary)
            _fail(operation, target, error)

    def _write_temporary(self, operation: str, target: Path, chunks: Iterable[bytes]) -> Path:
        self._require_root(operation, target)
        temporary = target.parent / f"{_TEMPORARY}{uuid.uuid4().hex}"
        try:
            self._make_folders(target.parent)
            with temporary.open("xb") as file:
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
        except BaseException as error:
            with suppress(OSError):
                temporary.unlink()
            if isinstance(error, OSError):
                _fail(operation, target, error)
            raise
        return temporary

    def _make_folders(self, folder: Path) -> None:
        """Like makedirs, but never creates the root: a root that vanished must stay an error."""
        path = self._root
        for part in folder.relative_to(self._root).parts:
            path = path / part
            with suppress(FileExistsError):
                os.mkdir(path)

    def _flush_directory(self, target: Path) -> None:
        try:
            handle = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise OutcomeUnknown(
                f"{target} was written, but its directory could not be flushed: {error.strerror}"
            ) from error

    def _require_root(self, operation: str, subject: Path) -> None:
        """The root must be the directory that was opened; an unmounted disk leaves an empty one behind."""
        if _identity(self._root) != self._identity:
            raise StorageUnreachable(
                f"could not {operation} {subject}: {self._root} is no longer the directory that was opened",
                hint=f"mount {self._root} again",
            )


def _identity(root: Path) -> tuple[int, int]:
    try:
        status = root.stat()
    except OSError as error:
        if error.errno in _DENIED:
            _fail("open", root, error)
        raise StorageUnreachable(
            f"could not open {root}: {error.strerror}", hint=f"mount it, or create it: mkdir -p {root}"
        ) from error
    if not root.is_dir():
        raise StorageUnreachable(f"could not open {root}: it is not a directory", hint="name a directory")
    return status.st_dev, status.st_ino


def _fail(operation: str, path: Path, error: OSError) -> NoReturn:
    raise _classified(error.errno)(f"could not {operation} {path}: {error.strerror}") from error


def _classified(code: int | None) -> type[StorageError]:
    if code in _FULL:
        return StorageFull
    if code in _DENIED:
        return StorageDenied
    return StorageUnreachable
