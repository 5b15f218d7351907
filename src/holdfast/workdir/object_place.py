"""A checkpoint directory on an object store.

Keys with a common beginning stand for a directory. There are no folders, so a folder without files does not exist.
Nothing is renamed or linked. A file is one PUT, whole when it appears; its identity is its ETag, and a planned file is
read under the condition that it still has it. So each run gets a prefix of its own, and what an older run still writes
is written where nobody reads.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.checkpoint.layout import FileTrouble, WorkFile
from holdfast.errors import ObjectNotFound, StorageDenied, StorageError, StorageFull, is_refusal
from holdfast.identifiers import Ticket
from holdfast.storage.below import plain_parts
from holdfast.storage.chunks import passed_through
from holdfast.storage.interface import Created, StoredAt, StoredObject
from holdfast.storage.location import parse_location
from holdfast.storage.retrying import DEADLINE
from holdfast.workdir.interface import Building, Changed, DirectoryAbilities, Handle

if TYPE_CHECKING:
    from holdfast.storage.object_files import ObjectFiles
    from holdfast.storage.object_store import Part

_ABILITIES = DirectoryAbilities(pins=False, takes_over_by_rename=False, verifies_reads=True, remote=True)
_READ_AT_ONCE = 8 << 20
_LAST = "metadata"


class ObjectPlace:
    """A bucket with a prefix. Nothing is loaded or connected before the first use."""

    def __init__(self, url: str, deadline: float = DEADLINE) -> None:
        parse_location(url)
        path, _, self.options = url.partition("?")
        self.url = path.rstrip("/")
        self._deadline = deadline

    def __reduce__(self) -> tuple[type[ObjectPlace], tuple[str, float]]:
        return ObjectPlace, (self.given, self._deadline)

    @property
    def given(self) -> str:
        return self.with_options(self.url)

    def within(self, seconds: float) -> ObjectPlace:
        return ObjectPlace(self.given, seconds)

    def with_options(self, url: str) -> str:
        return f"{url}?{self.options}" if self.options else url

    @cached_property
    def files(self) -> ObjectFiles:
        # Imported here: other places do not need it.
        from holdfast.storage.object_files import ObjectFiles

        return ObjectFiles(self.given, self._deadline)


class ObjectDirectory:
    abilities = _ABILITIES
    mounted_at = None

    def __init__(self, place: ObjectPlace, folder: str = "") -> None:
        """`folder` is the part below the place."""
        self._place = place
        self._folder = folder

    def __repr__(self) -> str:
        return f"ObjectDirectory({self.location!r})"

    @property
    def location(self) -> str:
        return f"{self._place.url}/{self._folder}" if self._folder else self._place.url

    @property
    def url(self) -> str:
        return self._place.with_options(self.location)

    @property
    def scheme(self) -> str:
        return self._place.url.partition("://")[0]

    @property
    def spark_root(self) -> str:
        return self.location

    def at(self, folder: str) -> ObjectDirectory:
        return ObjectDirectory(self._place, self._key(folder))

    def within(self, seconds: float) -> ObjectDirectory:
        return ObjectDirectory(self._place.within(seconds), self._folder)

    # --- looking ---

    def identity(self) -> str:
        return self.stat(_LAST).identity

    def exists(self, path: str = "") -> bool:
        if not path:
            return self._any()
        folder, _, name = path.rpartition("/")
        self._key(path)
        return name in self.names(folder)

    def _any(self) -> bool:
        with self._os_errors(""):
            return next(self._files.list(self._prefix("")), None) is not None

    def names(self, folder: str = "") -> list[str]:
        with self._os_errors(folder):
            objects, folders = self._files.folder(self._key(folder))
        return [*(item.key.rpartition("/")[2] for item in objects), *folders]

    def folders(self, folder: str = "") -> list[str]:
        with self._os_errors(folder):
            return list(self._files.folder(self._key(folder))[1])

    def stat(self, path: str) -> WorkFile:
        with self._os_errors(path):
            return _file(path, self._files.look(self._key(path)))

    def changed_at(self, path: str = "") -> float:
        """Of a folder, when the newest object in it was written."""
        key, below = self._key(path), self._prefix(path)
        with self._os_errors(path):
            found = [each for each in self._files.list(key) if each.key == key or each.key.startswith(below)]
        if not found:
            raise self._not_there(path)
        return max(each.modified_at for each in found)

    def scan(self, folder: str = "", skip: str | None = None) -> Iterator[WorkFile]:
        prefix, root = self._prefix(folder), self._prefix("")
        with self._os_errors(folder):
            for found in self._files.list(prefix):
                if skip is None or not found.key.startswith(f"{prefix}{skip}/"):
                    yield _file(found.key[len(root) :], found)

    # --- bytes ---

    @contextmanager
    def open(self, path: str) -> Iterator[Handle]:
        try:
            yield _Reader(self, path)
        except Changed as error:
            raise OSError(errno.ESTALE, "it was replaced while it was read", f"{self.location}/{path}") from error

    def read(self, path: str) -> bytes:
        with self._os_errors(path):
            return self._files.get(self._key(path))

    @contextmanager
    def open_planned(self, file: WorkFile) -> Iterator[Handle]:
        """Every part is asked for under the condition that it is of the planned version."""
        yield _Reader(self, file.path, file)

    def read_part(self, path: str, offset: int, length: int, version: str | None) -> Part | None:
        """None when the object is of another version."""
        with self._os_errors(path):
            return self._files.part(self._key(path), offset, length, version)

    def stored_at(self, file: WorkFile) -> StoredAt | None:
        return self._files.stored_at(self._key(file.path), file.identity)

    def write_atomic(self, path: str, data: bytes) -> None:
        with self._os_errors(path):
            self._files.put(self._key(path), data)

    def create(self, path: str, data: bytes) -> None:
        with self._os_errors(path):
            if self._files.create(self._key(path), data) is Created.WON:
                return
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), f"{self.location}/{path}")

    def remove(self, path: str) -> None:
        with self._os_errors(path):
            self._files.delete(self._key(path))

    # --- the directory itself ---

    def make(self) -> None:
        if self.exists():
            raise self._is_there()

    @contextmanager
    def build(self, taking_from: ObjectDirectory | None = None) -> Iterator[Building]:
        if self.exists():
            raise self._is_there()
        building = _ObjectBuilding(self, taking_from)
        try:
            yield building
            building.finish()
        except BaseException:
            with suppress(OSError, StorageError):
                self._delete(building.written)
            raise

    def move_to(self, to: ObjectDirectory) -> None:
        """Copied inside the store, then deleted."""
        files = list(self.scan())
        with to.build(self) as building:
            for file in files:
                building.take(file)
        self._delete(file.path for file in files)

    def remove_tree(self) -> str | None:
        try:
            self._delete([file.path for file in self.scan()])
        except OSError as error:
            return str(error)
        return None

    def remove_if_empty(self) -> None:
        """It does not exist then."""

    # --- pins ---

    def pin(self, ticket: Ticket, files: Sequence[WorkFile]) -> bool:
        return False

    def unpin(self, ticket: Ticket) -> None:
        return None

    # --- what a building does ---

    def send(self, path: str, chunks: Iterable[bytes]) -> None:
        """What the chunks raise passes through as it is: it may be an error of another store."""
        failure: list[Exception] = []

        def noted(pieces: Iterator[bytes]) -> Iterator[bytes]:
            try:
                yield from pieces
            except Exception as error:
                failure.append(error)
                raise

        try:
            with self._os_errors(path):
                self._files.upload(self._key(path), passed_through(chunks, noted))
        except OSError:
            if failure:
                raise failure[-1] from None
            raise

    def copy_inside(self, path: str, source: StoredAt) -> bool:
        with self._os_errors(path):
            return self._files.copy_inside(source, self._key(path))

    def is_beside(self, other: ObjectDirectory) -> bool:
        """Whether objects can be copied from there inside the store."""
        return self._place.given == other._place.given

    def _delete(self, paths: Iterable[str]) -> None:
        with self._os_errors(""):
            self._files.delete_all([self._key(path) for path in paths])

    @property
    def _files(self) -> ObjectFiles:
        return self._place.files

    def _key(self, path: str) -> str:
        parts = plain_parts(path) if path else ()
        return "/".join((self._folder, *parts) if self._folder else parts)

    def _prefix(self, folder: str) -> str:
        key = self._key(folder)
        return f"{key}/" if key else ""

    @contextmanager
    def _os_errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except ObjectNotFound as error:
            raise self._not_there(path) from error
        except StorageError as error:
            raise OSError(_number_of(error), error.message, f"{self.location}/{path}".rstrip("/")) from error

    def _not_there(self, path: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.location}/{path}")

    def _is_there(self) -> FileExistsError:
        return FileExistsError(errno.EEXIST, "is there, and not empty", self.location)


class _ObjectBuilding:
    """Files go to their final keys. `metadata` is the last: without it Spark finds no query there."""

    def __init__(self, directory: ObjectDirectory, taking_from: ObjectDirectory | None) -> None:
        self._directory = directory
        self._taking_from = taking_from
        self._last: bytes | None = None
        self._lock = threading.Lock()
        self.written: set[str] = set()

    def write(self, path: str, chunks: Iterable[bytes]) -> None:
        self._require_new(path)
        if path == _LAST:
            self._last = b"".join(chunks)
        else:
            self._directory.send(path, chunks)

    def take(self, file: WorkFile) -> None:
        source = self._taking_from
        assert source is not None
        if file.path == _LAST or not self._directory.is_beside(source):
            with source.open_planned(file) as handle:
                self.write(file.path, iter(lambda: handle.read(_READ_AT_ONCE), b""))
            return
        self._require_new(file.path)
        where = source.stored_at(file)
        assert where is not None
        try:
            if not self._directory.copy_inside(file.path, where):
                raise Changed("was replaced after it was planned", FileTrouble.CHANGED)
        except FileNotFoundError as error:
            raise Changed("vanished before it was read", FileTrouble.VANISHED) from error

    def copy_inside(self, path: str, source: StoredAt) -> bool:
        if path == _LAST:
            return False
        self._require_new(path)
        try:
            copied = self._directory.copy_inside(path, source)
        except OSError as error:
            if not isinstance(error, FileNotFoundError) and not is_refusal(error.__cause__):
                raise
            copied = False
        if not copied:
            with self._lock:
                self.written.discard(path)
        return copied

    def finish(self) -> None:
        if any(file.path not in self.written for file in self._directory.scan()):
            raise self._directory._is_there()
        if self._last is not None:
            try:
                self._directory.create(_LAST, self._last)
            except FileExistsError:
                self.written.discard(_LAST)  # somebody else's
                raise

    def _require_new(self, path: str) -> None:
        plain_parts(path)
        with self._lock:
            if path in self.written:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), f"{self._directory.location}/{path}")
            self.written.add(path)


class _Reader:
    """An object, read part by part, all of one version: the planned one, or that of the first part."""

    def __init__(self, directory: ObjectDirectory, path: str, planned: WorkFile | None = None) -> None:
        self._directory = directory
        self._path = path
        self._planned = planned is not None
        self._version = None if planned is None else planned.identity
        self._size = None if planned is None else planned.size
        self._at = 0
        self._ahead = b""
        """The bytes from `_at` on that were received already."""

    def read(self, size: int, /) -> bytes:
        if not self._ahead:
            self._ahead = self._part(max(size, _READ_AT_ONCE))
        found, self._ahead = self._ahead[:size], self._ahead[size:]
        self._at += len(found)
        return found

    def _part(self, length: int) -> bytes:
        if self._size is not None and self._at >= self._size:
            return b""
        try:
            part = self._directory.read_part(self._path, self._at, length, self._version)
        except FileNotFoundError as error:
            if self._planned:
                raise Changed("vanished before it was read", FileTrouble.VANISHED) from error
            raise
        if part is None:
            raise Changed("was replaced after it was planned", FileTrouble.CHANGED)
        self._size, self._version = part.size, part.version
        return part.data

    def seek(self, position: int, /) -> int:
        self._at, self._ahead = position, b""
        return position


def _file(path: str, found: StoredObject) -> WorkFile:
    return WorkFile(path, found.size, found.version)


def _number_of(error: StorageError) -> int:
    if isinstance(error, StorageFull):
        return errno.ENOSPC
    return errno.EACCES if isinstance(error, StorageDenied) else errno.EIO
