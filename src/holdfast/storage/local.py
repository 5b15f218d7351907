"""A local or NFS directory as object store. create-if-absent is link(2), which is atomic on both.

A write goes to a temporary name first, is flushed to the disk, then gets its real name; a reader never sees half an
object. The root directory is never created here: a missing root may be an unmounted disk.
Links below the root are neither followed nor listed.
"""

import builtins
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NoReturn

from holdfast.errors import (
    ObjectNotFound,
    OutcomeUnknown,
    StorageDenied,
    StorageError,
    StorageFull,
    StorageUnreachable,
)
from holdfast.storage.chunks import ChunkSource
from holdfast.storage.interface import Created, ObjectStore, StoredAt, StoredObject
from holdfast.storage.keys import checked_key, checked_prefix
from holdfast.storage.local_root import DENIED, LinkInTheWay, LocalRoot
from holdfast.storage.unique import unique_name
from holdfast.storage.whole import not_whole

_CHUNK = 1 << 20
_TEMPORARY = ".tmp-"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = DENIED | _FULL | {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EBUSY}
"""Errors of the file system itself: nothing was changed. After any other error a deciding write is unknown."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class LocalStore:
    def __init__(self, root: Path | LocalRoot, *, within: str = "") -> None:
        self._root = root if isinstance(root, LocalRoot) else LocalRoot(root)
        self._within = within

    @property
    def url(self) -> str:
        return f"file://{self._base}"

    @property
    def _base(self) -> Path:
        return self._root.path / self._within if self._within else self._root.path

    def scoped(self, name: str) -> ObjectStore:
        return LocalStore(self._root, within=self._below(checked_key("use", name, self.url)))

    def create(self, key: str, data: bytes) -> Created:
        with self._parent("create", key, make=True) as (folder, name):
            temporary = _write_temporary(folder, [data])
            try:
                os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError:
                return Created.LOST
            except OSError as error:
                if error.errno in _REFUSED:
                    raise
                why = f"could not tell whether {self._base / key} was created: {error.strerror}"
                raise OutcomeUnknown(why) from error
            finally:
                _discard(folder, temporary)
            self._flush(folder, key)
        return Created.WON

    def put(self, key: str, data: bytes) -> None:
        with self._parent("write", key, make=True) as (folder, name):
            _replace(folder, name, [data])

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        source = ChunkSource(chunks)
        try:
            with self._parent("upload", key, make=True) as (folder, name):
                _replace(folder, name, source)
                self._flush(folder, key)
        except StorageError:
            # An `OSError` of the source is not an error of this store.
            if source.failure is not None:
                raise source.failure from None
            raise

    def copy_inside(self, source: StoredAt, key: str, through: str) -> str | None:
        return None

    def stored_at(self, key: str, version: str) -> StoredAt | None:
        return None

    def get(self, key: str) -> bytes:
        return b"".join(self._pieces(key))

    def read(self, key: str, offset: int, length: int) -> bytes:
        with self._opened(key) as (file, size):
            file.seek(offset)
            expected = min(length, max(0, size - offset))
            data = file.read(expected) if expected > 0 else b""
        if len(data) < expected:
            raise not_whole(str(self._base / key), len(data), expected)
        return data

    def stream(self, key: str) -> Iterator[bytes]:
        return self._pieces(key)

    def _pieces(self, key: str) -> Iterator[bytes]:
        with self._opened(key) as (file, size):
            given = 0
            while given < size and (chunk := file.read(min(_CHUNK, size - given))):
                given += len(chunk)
                yield chunk
        if given < size:
            raise not_whole(str(self._base / key), given, size)

    def exists(self, key: str) -> bool:
        try:
            with self._parent("look for", key) as (folder, name):
                return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except ObjectNotFound:
            return False

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        folder, _, _ = checked_prefix(prefix, self.url).rpartition("/")
        for item in self._walk(folder, prefix, after):
            if not _is_temporary(item.key):
                yield item

    def children(self) -> tuple[str, ...]:
        return tuple(name.rstrip("/") for name, status in self._entries("") if status is None)

    def delete(self, key: str) -> None:
        try:
            with self._parent("delete", key) as (folder, name):
                self._unlink(folder, name, key)
        except ObjectNotFound:
            return

    def _unlink(self, folder: int, name: str, key: str) -> None:
        try:
            os.unlink(name, dir_fd=folder)
        except OSError as error:
            if error.errno in _REFUSED:
                raise
            why = f"could not tell whether {self._base / key} was deleted: {error.strerror}"
            raise OutcomeUnknown(why) from error

    def temporaries(self) -> Iterator[StoredObject]:
        return (item for item in self._walk("", "", "") if _is_temporary(item.key))

    def _walk(self, folder: str, prefix: str, after: str) -> Iterator[StoredObject]:
        """Files whose key starts with `prefix` and is greater than `after`, in order of key."""
        below = f"{folder}/" if folder else ""

        def is_wanted(name: str) -> bool:
            key = f"{below}{name}"
            return key.startswith(prefix) and key > after

        for name, status in self._entries(folder, is_wanted):
            key = f"{below}{name}"
            if status is not None:
                yield StoredObject(key, status.st_size, status.st_mtime)
            elif prefix.startswith(key) or key.startswith(prefix):
                yield from self._walk(key.rstrip("/"), prefix, after)

    def _entries(
        self, folder: str, is_wanted: Callable[[str], bool] = lambda name: True
    ) -> builtins.list[tuple[str, os.stat_result | None]]:
        """The entries of a folder, in the order of keys: a folder as "name/" without a status, a wanted file with one.

        Anything else, such as links, does not belong to the home and is left out.
        """
        try:
            with self._within_root("list", folder) as handle:
                return _listed(handle, is_wanted)
        except ObjectNotFound:
            return []

    @contextmanager
    def _opened(self, key: str) -> Iterator[tuple[BinaryIO, int]]:
        """The object's file, and how long it is."""
        with self._parent("read", key) as (folder, name):
            # A directory cannot be opened as a file object, so the type is checked first.
            handle = os.open(name, _READ, dir_fd=folder)
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                os.close(handle)
                raise FileNotFoundError(errno.ENOENT, "no file has that name")
        with os.fdopen(handle, "rb") as file, self._translated("read", key):
            yield file, status.st_size

    @contextmanager
    def _parent(self, operation: str, key: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """A handle on the folder that the object is in, and its name there."""
        parent, _, name = checked_key(operation, key, self.url).rpartition("/")
        with self._translated(operation, key), self._root.folder(self._below(parent), make=make) as folder:
            yield folder, name

    @contextmanager
    def _within_root(self, operation: str, folder: str) -> Iterator[int]:
        with self._translated(operation, folder), self._root.folder(self._below(folder)) as handle:
            yield handle

    @contextmanager
    def _translated(self, operation: str, key: str) -> Iterator[None]:
        """Turns errors of the file system into errors of a store."""
        try:
            yield
        except FileNotFoundError as error:
            if operation in _WRITES:
                _fail(operation, self._base / key, error)
            raise ObjectNotFound(f"could not {operation} {self._base / key}: there is no such object") from error
        except OSError as error:
            _fail(operation, self._base / key, error)
        except StorageUnreachable as error:
            raise type(error)(f"could not {operation} {self._base / key}: {error.message}", hint=error.hint) from error

    def _flush(self, folder: int, key: str) -> None:
        try:
            handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            why = f"{self._base / key} was written, but its directory could not be flushed: {error.strerror}"
            raise OutcomeUnknown(why) from error

    def _below(self, name: str) -> str:
        return f"{self._within}/{name}" if self._within and name else self._within or name


_WRITES = ("create", "write", "upload")


def _listed(handle: int, is_wanted: Callable[[str], bool]) -> list[tuple[str, os.stat_result | None]]:
    """Asks for the status of wanted files only: most of a long folder is behind a reader that follows its end."""
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=handle)
    found: list[tuple[str, os.stat_result | None]] = []
    try:
        with os.scandir(readable) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    # With the slash, keys are in plain string order.
                    found.append((f"{entry.name}/", None))
                elif is_wanted(entry.name) and entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        found.append((entry.name, entry.stat(follow_symlinks=False)))
    finally:
        os.close(readable)
    return sorted(found, key=lambda item: item[0])


def _replace(folder: int, name: str, chunks: Iterable[bytes]) -> None:
    temporary = _write_temporary(folder, chunks)
    try:
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        _discard(folder, temporary)
        raise


def _write_temporary(folder: int, chunks: Iterable[bytes]) -> str:
    temporary = f"{_TEMPORARY}{unique_name()}"
    handle = os.open(temporary, _NEW, 0o666, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        _discard(folder, temporary)
        raise
    return temporary


def _discard(folder: int, temporary: str) -> None:
    with suppress(OSError):
        os.unlink(temporary, dir_fd=folder)


def _is_temporary(key: str) -> bool:
    return key.rpartition("/")[2].startswith(_TEMPORARY)


_NO_LINK = "put what the link leads to in its place, or name that directory as the home"


def _fail(operation: str, path: Path, error: OSError) -> NoReturn:
    linked = error.errno == errno.ELOOP
    strerror = LinkInTheWay().strerror if linked else error.strerror
    kind, hint = (StorageError, _NO_LINK) if linked else _classified(error.errno)
    raise kind(f"could not {operation} {path}: {strerror}", hint=hint) from error


def _classified(code: int | None) -> tuple[type[StorageError], str | None]:
    """With what to try."""
    if code in _FULL:
        return StorageFull, "free space on its disk: `holdfast collect` deletes what no checkpoint needs"
    if code in DENIED:
        return StorageDenied, "is it mounted read-only? Else give this user permission to read and write there"
    return StorageUnreachable, None
