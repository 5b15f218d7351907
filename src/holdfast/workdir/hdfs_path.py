"""A file or directory of HDFS, with as much of `pathlib.Path` as `hdfs` needs, and under the same names.

Failures are `OSError`s, as with local files. Every call has a timeout (`hdfs_connection`).

A file has no inode number here: its identity is its size and the time when it was closed, in milliseconds. A handle
reads the blocks of the file that it opened. When that file is deleted, HDFS removes the blocks some time later, and
reading fails; it never continues with the bytes of another file under the same name.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeVar, overload

from holdfast.errors import StorageDenied, StorageFull, StorageUnreachable
from holdfast.storage.hdfs_errors import failure
from holdfast.storage.retrying import Patience, repeated
from holdfast.storage.unique import unique_name
from holdfast.storage.whole import not_whole

if TYPE_CHECKING:
    from hdfs_native import FileStatus
    from hdfs_native._internal import RawClient, RawFileReader, RawFileWriter

    from holdfast.storage.hdfs_connection import HdfsConnection

T = TypeVar("T")

_CHUNK = 4 << 20
"""Small enough that a slow DataNode does not count as dead."""
_DIRECTORY_MODE = 0o755
_TEMPORARY = ".tmp-"
"""Spark and holdfast ignore names that begin with a dot."""
_NAMED = (FileNotFoundError, FileExistsError, IsADirectoryError)


@dataclass(frozen=True, slots=True)
class HdfsStatus:
    st_size: int
    st_mtime_ns: int


class HdfsPath:
    def __init__(self, connection: HdfsConnection, path: str, listed: FileStatus | None = None) -> None:
        """`path` is absolute and not escaped. `listed` is its status from a listing."""
        self._connection = connection
        self._path = PurePosixPath(path)
        self._listed = listed

    def __str__(self) -> str:
        return f"{self._connection.address}{self._path}"

    def __repr__(self) -> str:
        return f"HdfsPath({str(self)!r})"

    def __truediv__(self, below: str) -> HdfsPath:
        return HdfsPath(self._connection, str(self._path / below))

    @property
    def name(self) -> str:
        return self._path.name

    def with_name(self, name: str) -> HdfsPath:
        return HdfsPath(self._connection, str(self._path.with_name(name)))

    # --- looking ---

    def stat(self) -> HdfsStatus:
        return _status(self._asked(lambda client, path: client.get_file_info(path)))

    def exists(self) -> bool:
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """For a path from a listing, as of that listing."""
        if self._listed is not None:
            return self._listed.isdir
        try:
            return self._asked(lambda client, path: client.get_file_info(path)).isdir
        except FileNotFoundError:
            return False

    def iterdir(self) -> Iterator[HdfsPath]:
        for status in self._asked(lambda client, path: [*client.list_status(path, False)]):
            yield HdfsPath(self._connection, str(self._path / status.path.rpartition("/")[2]), status)

    def files(self, skip: str | None = None) -> Iterator[tuple[str, HdfsStatus]]:
        """Every file below, by its relative path, without files below the subfolder `skip`.

        Files that are deleted meanwhile may or may not be included.
        """
        try:
            found = list(self.iterdir())
        except FileNotFoundError:
            return
        for path in found:
            assert path._listed is not None
            if path.name == skip:
                continue
            if path._listed.isdir:
                yield from ((f"{path.name}/{below}", status) for below, status in path.files())
            else:
                yield path.name, _status(path._listed)

    # --- bytes ---

    @overload
    def open(self, mode: Literal["rb"], buffering: int = ...) -> HdfsReader: ...
    @overload
    def open(self, mode: Literal["wb", "xb"], buffering: int = ...) -> HdfsWriter: ...
    def open(self, mode: Literal["rb", "wb", "xb"], buffering: int = 0) -> HdfsReader | HdfsWriter:
        if mode == "rb":
            return HdfsReader(self)
        from hdfs_native import WriteOptions

        options = WriteOptions(overwrite=mode == "wb")
        return HdfsWriter(self, self._asked(lambda client, path: client.create(path, options)))

    def read_bytes(self) -> bytes:
        with self.open("rb") as handle:
            return b"".join(handle.chunks())

    def write_bytes(self, data: bytes) -> int:
        with self.open("wb") as handle:
            return handle.write(data)

    def write_whole(self, data: bytes) -> None:
        """Readers find the old bytes or the new ones. The data is on its DataNodes when this returns."""
        temporary = self.with_name(f"{_TEMPORARY}{unique_name()}")
        try:
            temporary.write_bytes(data)
            temporary._rename(self, overwrite=True)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise

    # --- names ---

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        if not exist_ok and self.exists():
            raise FileExistsError(errno.EEXIST, "exists already", str(self))
        self._asked(lambda client, path: client.mkdirs(path, _DIRECTORY_MODE, parents))

    def rename(self, target: HdfsPath) -> None:
        """Raises `FileExistsError` when the target exists, even as an empty directory."""
        self._rename(target, overwrite=False)

    def unlink(self, missing_ok: bool = False) -> None:
        self._delete(missing_ok=missing_ok, recursive=False)

    def remove_tree(self) -> None:
        """Deletes recursively; harmless when it does not exist."""
        self._delete(missing_ok=True, recursive=True)

    def _delete(self, *, missing_ok: bool, recursive: bool) -> None:
        try:
            there = self._asked(lambda client, path: client.delete(path, recursive))
        except FileNotFoundError:
            there = False
        if not there and not missing_ok:
            raise FileNotFoundError(errno.ENOENT, "does not exist", str(self))

    def _rename(self, target: HdfsPath, *, overwrite: bool) -> None:
        to = str(target._path)
        self._asked(lambda client, path: client.rename(path, to, overwrite))

    def _asked(self, question: Callable[[RawClient, str], T]) -> T:
        """A call to the NameNode."""
        path = str(self._path)
        try:
            return self._connection.ask(lambda client: question(client, path))
        except (OSError, RuntimeError) as error:
            raise _os_error(self, error) from error

    @property
    def patience(self) -> float:
        """Seconds that an answer may take."""
        return self._connection.metadata_patience

    def reader(self) -> tuple[RawFileReader, HdfsStatus]:
        """A reader, and the file's status."""
        # Imported here: a local work directory does not need it.
        from holdfast.storage.hdfs_connection import open_reader

        reader, status = self._asked(open_reader)
        return reader, _status(status)

    def transferred(self, step: Callable[[], T], size: int) -> T:
        """A transfer to or from a DataNode."""
        try:
            return self._connection.transfer(step, size)
        except (OSError, RuntimeError) as error:
            raise _os_error(self, error) from error


class HdfsReader:
    """Returns every byte of the file, or fails.

    hdfs-native sees only blocks that DataNodes have reported. The last block of a file that was just closed may be
    missing; then a read ends early without an error, so the reader opens the file again for a while.
    """

    def __init__(self, path: HdfsPath) -> None:
        self._path = path
        self._reader, self._status = path.reader()
        self._position = 0

    def __enter__(self) -> HdfsReader:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def seek(self, position: int) -> int:
        self._position = position
        return position

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; empty only at the end of the file."""
        length = min(size, _CHUNK, self._status.st_size - self._position)
        if length <= 0:
            return b""
        try:
            data = repeated(lambda: self._part(length), Patience(self._path.patience))
        except StorageUnreachable as error:
            raise OSError(errno.EIO, error.message.partition(": ")[2], str(self._path)) from error
        except FileNotFoundError:
            raise
        except OSError as error:
            if not self._path.exists():
                raise self._vanished() from error
            raise
        self._position += len(data)
        return data

    def _part(self, length: int) -> bytes:
        start = self._position
        known = min(length, self._reader.file_length() - start)
        data = self._path.transferred(lambda: self._reader.read_range(start, known), known) if known > 0 else b""
        if len(data) != length:
            self._open_again()
            raise not_whole(str(self._path), len(data), length)
        return data

    def _open_again(self) -> None:
        """The same file, with the blocks that are reported by now."""
        reader, status = self._path.reader()
        if status != self._status:
            raise self._vanished()
        self._reader = reader

    def _vanished(self) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, "vanished while it was read", str(self._path))

    def chunks(self) -> Iterator[bytes]:
        while chunk := self.read(_CHUNK):
            yield chunk


class HdfsWriter:
    """A file that is complete when the block ends without an error. Otherwise it stays incomplete, and the caller
    removes it."""

    def __init__(self, path: HdfsPath, writer: RawFileWriter) -> None:
        self._path = path
        self._writer = writer
        self._written = 0

    def __enter__(self) -> HdfsWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self._path.transferred(self._writer.close, self._written)

    def write(self, data: bytes) -> int:
        view = memoryview(data)
        for start in range(0, len(view), _CHUNK):
            part = bytes(view[start : start + _CHUNK])
            self._path.transferred(partial(self._writer.write, part), len(part))
            self._written += len(part)
        return len(view)


def _status(status: FileStatus) -> HdfsStatus:
    return HdfsStatus(status.length, status.modification_time * 1_000_000)


def _os_error(path: HdfsPath, error: Exception) -> OSError:
    if isinstance(error, _NAMED):
        return type(error)(_CODES[type(error)], _WORDS[type(error)], str(path))
    meaning = failure(f"use {path}", error)
    code = errno.EIO
    if isinstance(meaning, StorageFull):
        code = errno.ENOSPC
    elif isinstance(meaning, StorageDenied):
        code = errno.EACCES
    return OSError(code, meaning.message.partition(": ")[2], str(path))


_CODES = {FileNotFoundError: errno.ENOENT, FileExistsError: errno.EEXIST, IsADirectoryError: errno.EISDIR}
_WORDS = {FileNotFoundError: "does not exist", FileExistsError: "exists already", IsADirectoryError: "is a directory"}
