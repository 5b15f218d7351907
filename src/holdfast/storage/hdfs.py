"""HDFS as object store.

An object is first written to a temporary file of the same directory and closed, so that its DataNodes have it; then it
is renamed to its key, and the NameNode decides under its lock whether the name is free. A reader never sees half an
object, and a writer that loses has changed nothing. Only the rename can have an unknown outcome: a failure before it
has no effect.

Temporary files of crashed writers stay behind; `temporaries` lists them, the collection deletes the old ones.
"""

import builtins
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from hdfs_native import FileStatus, WriteOptions

from holdfast.errors import InvalidSettings, ObjectNotFound, OutcomeUnknown
from holdfast.storage.hdfs_connection import (
    DATA_REQUESTS,
    METADATA_REQUESTS,
    SMALL_PATIENCE,
    HdfsConnection,
    NoAnswer,
    NotReached,
    TimedOut,
    open_reader,
)
from holdfast.storage.hdfs_errors import failure, reason
from holdfast.storage.hdfs_names import TEMPORARY, to_component, to_path
from holdfast.storage.interface import Created, ObjectStore, StoredAt, StoredObject
from holdfast.storage.keys import checked_key, checked_prefix
from holdfast.storage.retrying import REQUEST_TIMEOUT
from holdfast.storage.unique import unique_name
from holdfast.storage.whole import not_whole

if TYPE_CHECKING:
    from hdfs_native._internal import RawFileReader

T = TypeVar("T")

_CHUNK = 4 << 20
_NEW = WriteOptions()
_FAULTS = (OSError, RuntimeError)
"""What hdfs-native raises."""


def open_hdfs(home: str, request_timeout: float = REQUEST_TIMEOUT) -> "HdfsStore":
    """The store behind hdfs://host:port/path or hdfs://nameservice/path."""
    parts = urlsplit(home)
    if "@" in parts.netloc or parts.query or parts.fragment or not parts.hostname:
        raise InvalidSettings.of(
            "home",
            urlunsplit(("hdfs", parts.netloc.rpartition("@")[2], parts.path, "", "")),
            "an HDFS URL is hdfs://host:port/path or hdfs://nameservice/path, without user and options",
            hint="the user comes from HADOOP_USER_NAME or Kerberos, settings from HADOOP_CONF_DIR",
        )
    connection = HdfsConnection(
        f"hdfs://{parts.netloc}",
        metadata_patience=METADATA_REQUESTS * request_timeout,
        data_patience=DATA_REQUESTS * request_timeout,
        small_patience=min(request_timeout, SMALL_PATIENCE),
    )
    return HdfsStore(connection, unquote(parts.path))


class HdfsStore:
    def __init__(self, connection: HdfsConnection, path: str) -> None:
        self._connection = connection
        self._base = path.rstrip("/")

    @property
    def url(self) -> str:
        return f"{self._connection.address}{self._base}"

    def scoped(self, name: str) -> ObjectStore:
        checked_key("use", name, self.url)
        return HdfsStore(self._connection, f"{self._base}/{to_path(name)}")

    # --- writing ---

    def create(self, key: str, data: bytes) -> Created:
        temporary = self._write_temporary("create", key, [data])
        try:
            self._rename(temporary, key, overwrite=False)
        except FileExistsError:
            return Created.LOST
        except NotReached as error:
            raise failure(f"create {self._shown(key)}", error) from error
        except _FAULTS as error:
            # Whatever the answer is: the client may have sent the request twice, and the first one may have succeeded.
            raise OutcomeUnknown(f"could not tell whether {self._shown(key)} was written: {reason(error)}") from error
        return Created.WON

    def put(self, key: str, data: bytes) -> None:
        self._replace("write", key, [data])

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        self._replace("upload", key, chunks)

    def delete(self, key: str) -> None:
        path = self._object("delete", key)
        try:
            self._connection.ask(lambda client: client.delete(path, False))
        except FileNotFoundError:
            return
        except _FAULTS as error:
            if isinstance(error, NotReached) or not isinstance(error, NoAnswer):
                raise failure(f"delete {self._shown(key)}", error) from error
            raise OutcomeUnknown(f"could not tell whether {self._shown(key)} was deleted: {reason(error)}") from error

    def _replace(self, operation: str, key: str, chunks: Iterable[bytes]) -> None:
        temporary = self._write_temporary(operation, key, chunks)
        self._doing(f"{operation} {self._shown(key)}", lambda: self._rename(temporary, key, overwrite=True))

    def _rename(self, temporary: str, key: str, *, overwrite: bool) -> None:
        path = self._path(key)
        try:
            self._connection.ask(lambda client: client.rename(temporary, path, overwrite))
        except _FAULTS:
            self._discard(temporary)
            raise

    def _write_temporary(self, operation: str, key: str, chunks: Iterable[bytes]) -> str:
        attempt = f"{operation} {self._shown(key)}"
        temporary = f"{self._object(operation, key).rpartition('/')[0]}/{TEMPORARY}{unique_name()}"
        writer = self._doing(attempt, lambda: self._connection.ask(lambda client: client.create(temporary, _NEW)))
        written = 0
        try:
            for part in (part for chunk in chunks for part in _parts(chunk)):
                written += len(part)
                self._doing(attempt, partial(self._connection.transfer, partial(writer.write, part), len(part)))
            self._doing(attempt, partial(self._connection.transfer, writer.close, written))
        except BaseException:
            self._discard(temporary)
            raise
        return temporary

    def _doing(self, attempt: str, step: Callable[[], T]) -> T:
        try:
            return step()
        except _FAULTS as error:
            raise failure(attempt, error) from error

    def _discard(self, temporary: str) -> None:
        """Best effort: `temporaries` lists what stays behind."""
        with suppress(*_FAULTS):
            try:
                self._connection.ask(lambda client: client.delete(temporary, False))
            except TimedOut:
                raise
            except NoAnswer:
                # The connection broke earlier, in the call that failed; this call only notices it.
                self._connection.ask(lambda client: client.delete(temporary, False))

    # --- reading ---

    def copy_inside(self, source: StoredAt, key: str, through: str) -> str | None:
        return None

    def stored_at(self, key: str, version: str) -> StoredAt | None:
        return None

    def get(self, key: str) -> bytes:
        return b"".join(self._pieces(key))

    def read(self, key: str, offset: int, length: int) -> bytes:
        reader, size = self._open(key)
        return self._part(key, reader, offset, min(length, size - offset))

    def stream(self, key: str) -> Iterator[bytes]:
        return self._pieces(key)

    def _pieces(self, key: str) -> Iterator[bytes]:
        reader, size = self._open(key)
        for offset in range(0, size, _CHUNK):
            yield self._part(key, reader, offset, min(_CHUNK, size - offset))

    def exists(self, key: str) -> bool:
        path = self._object("look for", key)
        try:
            return not self._connection.ask(lambda client: client.get_file_info(path)).isdir
        except FileNotFoundError:
            return False
        except _FAULTS as error:
            raise failure(f"look for {self._shown(key)}", error) from error

    def _open(self, key: str) -> "tuple[RawFileReader, int]":
        """A reader, and how long the file is."""
        path = self._object("read", key)
        reader, status = self._reading(key, lambda: self._connection.ask(lambda client: open_reader(client, path)))
        return reader, status.length

    def _part(self, key: str, reader: "RawFileReader", offset: int, length: int) -> bytes:
        if length <= 0:
            return b""
        known = min(length, reader.file_length() - offset)
        data = b""
        if known > 0:
            step = partial(reader.read_range, offset, known)
            data = self._reading(key, lambda: self._connection.transfer(step, known))
        if len(data) != length:
            raise not_whole(self._shown(key), len(data), length)
        return data

    def _reading(self, key: str, step: Callable[[], T]) -> T:
        try:
            return step()
        except (FileNotFoundError, IsADirectoryError) as error:
            raise ObjectNotFound(f"could not read {self._shown(key)}: there is no such object") from error
        except _FAULTS as error:
            raise failure(f"read {self._shown(key)}", error) from error

    # --- listing ---

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        folder, _, _ = checked_prefix(prefix, self.url).rpartition("/")
        for key, status in self._walk(folder, prefix, after):
            if not _is_temporary(key):
                yield _stored(key, status)

    def children(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, status in self._entries("") if status.isdir))

    def temporaries(self) -> Iterator[StoredObject]:
        for key, status in self._walk("", "", ""):
            if _is_temporary(key):
                yield _stored(key, status)

    def _walk(self, folder: str, prefix: str, after: str) -> Iterator[tuple[str, FileStatus]]:
        """Files whose key starts with `prefix` and is greater than `after`, in order of key."""
        below = f"{folder}/" if folder else ""
        # A folder sorts as "name/", so that keys come out in plain string order.
        found = {f"{below}{name}{'/' * status.isdir}": status for name, status in self._entries(folder)}
        for key in sorted(found):
            if not found[key].isdir:
                if key.startswith(prefix) and key > after:
                    yield key, found[key]
            elif (key.startswith(prefix) or prefix.startswith(key)) and _may_hold_greater(key, after):
                yield from self._walk(key.rstrip("/"), prefix, after)

    def _entries(self, folder: str) -> builtins.list[tuple[str, FileStatus]]:
        path = self._path(folder) or "/"
        try:
            statuses = self._connection.ask(lambda client: [*client.list_status(path, False)])
        except FileNotFoundError:
            return []
        except _FAULTS as error:
            raise failure(f"list {self._shown(folder)}", error) from error
        return [(to_component(status.path.rpartition("/")[2]), status) for status in statuses]

    def _object(self, operation: str, key: str) -> str:
        return self._path(checked_key(operation, key, self.url))

    def _path(self, key: str) -> str:
        return f"{self._base}/{to_path(key)}" if key else self._base

    def _shown(self, key: str) -> str:
        return f"{self._connection.address}{self._path(key)}"


def _parts(chunk: bytes) -> Iterator[bytes]:
    """Each is small enough that a slow DataNode does not time out."""
    if len(chunk) <= _CHUNK:
        yield chunk
        return
    view = memoryview(chunk)
    for start in range(0, len(view), _CHUNK):
        yield bytes(view[start : start + _CHUNK])


def _is_temporary(key: str) -> bool:
    return key.rpartition("/")[2].startswith(TEMPORARY)


def _may_hold_greater(folder: str, after: str) -> bool:
    return folder > after or after.startswith(folder)


def _stored(key: str, status: FileStatus) -> StoredObject:
    return StoredObject(key, status.length, status.modification_time / 1000)
