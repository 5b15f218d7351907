"""A checkpoint directory that plain Spark keeps on an object store. It is only read.

Keys with a common beginning stand for a directory. There are no folders, so a folder without files does not exist.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NoReturn

from holdfast.checkpoint.layout import WorkFile
from holdfast.errors import ObjectNotFound
from holdfast.identifiers import Ticket
from holdfast.storage.below import plain_parts
from holdfast.storage.interface import StoredObject
from holdfast.storage.urls import open_store
from holdfast.workdir.interface import Building, DirectoryAbilities
from holdfast.workdir.planned_file import opening, require_same

_ABILITIES = DirectoryAbilities(pins=False, takes_over_by_rename=False, verifies_reads=True, remote=True)


class ObjectDirectory:
    abilities = _ABILITIES
    mounted_at = None

    def __init__(self, url: str, folder: str = "") -> None:
        """`folder` is the part below `url`."""
        self._url = url
        self._folder = folder
        self._store = open_store(url)

    def __repr__(self) -> str:
        return f"ObjectDirectory({self.location!r})"

    def __reduce__(self) -> tuple[type[ObjectDirectory], tuple[str, str]]:
        return ObjectDirectory, (self._url, self._folder)

    @property
    def location(self) -> str:
        path, mark, options = self._url.partition("?")
        return f"{path}/{self._folder}{mark}{options}" if self._folder else self._url

    @property
    def scheme(self) -> str:
        return self._url.partition("://")[0]

    @property
    def spark_root(self) -> str:
        return self.location

    def at(self, folder: str) -> ObjectDirectory:
        return ObjectDirectory(self._url, self._key(folder))

    def within(self, seconds: float) -> ObjectDirectory:
        """The store has timeouts of its own."""
        return self

    # --- looking ---

    def identity(self) -> str:
        return self.stat("metadata").identity

    def exists(self, path: str = "") -> bool:
        key, prefix = self._key(path), self._prefix(path)
        return any(found.key == key or found.key.startswith(prefix) for found in self._below(key))

    def names(self, folder: str = "") -> list[str]:
        prefix = self._prefix(folder)
        return sorted({found.key[len(prefix) :].partition("/")[0] for found in self._below(prefix)})

    def folders(self, folder: str = "") -> list[str]:
        prefix = self._prefix(folder)
        below = (found.key[len(prefix) :] for found in self._below(prefix))
        return sorted({name.partition("/")[0] for name in below if "/" in name})

    def stat(self, path: str) -> WorkFile:
        found = next(self._below(self._key(path)), None)
        if found is None or found.key != self._key(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.location}/{path}")
        return _file(path, found)

    def scan(self, folder: str = "", skip: str | None = None) -> Iterator[WorkFile]:
        prefix, root = self._prefix(folder), self._prefix("")
        for found in self._below(prefix):
            if skip is None or not found.key.startswith(f"{prefix}{skip}/"):
                yield _file(found.key[len(root) :], found)

    # --- bytes ---

    @contextmanager
    def open(self, path: str) -> Iterator[_Reader]:
        yield _Reader(self, path)

    def read(self, path: str) -> bytes:
        with self._missing(path):
            return self._store.get(self._key(path))

    @contextmanager
    def open_planned(self, file: WorkFile) -> Iterator[_Reader]:
        with opening():
            found = self.stat(file.path)
        require_same(found, file)
        yield _Reader(self, file.path)
        with opening():
            found = self.stat(file.path)
        require_same(found, file)

    def read_part(self, path: str, offset: int, length: int) -> bytes:
        with self._missing(path):
            return self._store.read(self._key(path), offset, length)

    def write_atomic(self, path: str, data: bytes) -> None:
        self._refuse(path)

    def create(self, path: str, data: bytes) -> None:
        self._refuse(path)

    def remove(self, path: str) -> None:
        self._refuse(path)

    # --- the directory itself ---

    def make(self) -> None:
        self._refuse("")

    def build(self, taking_from: ObjectDirectory | None = None) -> AbstractContextManager[Building]:
        self._refuse("")

    def move_to(self, to: ObjectDirectory) -> None:
        self._refuse("")

    def remove_tree(self) -> None:
        self._refuse("")

    def remove_if_empty(self) -> None:
        self._refuse("")

    # --- pins ---

    def pin(self, ticket: Ticket, files: Sequence[WorkFile]) -> bool:
        return False

    def unpin(self, ticket: Ticket) -> None:
        return None

    def _below(self, prefix: str) -> Iterator[StoredObject]:
        """Without the empty objects by which some clients mark folders."""
        return (found for found in self._store.list(prefix) if not found.key.endswith("/"))

    def _key(self, path: str) -> str:
        parts = plain_parts(path) if path else ()
        return "/".join((self._folder, *parts) if self._folder else parts)

    def _prefix(self, folder: str) -> str:
        key = self._key(folder)
        return f"{key}/" if key else ""

    @contextmanager
    def _missing(self, path: str) -> Iterator[None]:
        try:
            yield
        except ObjectNotFound as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.location}/{path}") from error

    def _refuse(self, path: str) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), f"{self.location}/{path}".rstrip("/"))


class _Reader:
    """An object, read part by part."""

    def __init__(self, directory: ObjectDirectory, path: str) -> None:
        self._directory = directory
        self._path = path
        self._at = 0

    def read(self, size: int, /) -> bytes:
        found = self._directory.read_part(self._path, self._at, size)
        self._at += len(found)
        return found

    def seek(self, position: int, /) -> int:
        self._at = position
        return position


def _file(path: str, found: StoredObject) -> WorkFile:
    return WorkFile(path, found.size, f"{found.modified_at}")
