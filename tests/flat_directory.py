"""A work directory as an object store would be one: names and bytes, no folders, no renames, no links; a file is known
by its etag, and reading asks for that etag. It shows that a kind of place can be added without touching the callers."""

from __future__ import annotations

import errno
import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from holdfast.checkpoint.layout import FileTrouble, WorkFile
from holdfast.identifiers import Ticket
from holdfast.storage.below import plain_parts
from holdfast.storage.interface import StoredAt
from holdfast.workdir.interface import Building, Changed, DirectoryAbilities, Handle

LAST = "metadata"


@dataclass(frozen=True)
class Stored:
    data: bytes
    etag: str
    at: float


@dataclass
class Bucket:
    """What the server holds."""

    name: str
    objects: dict[str, Stored] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    written: int = 0

    def put(self, key: str, data: bytes, *, if_absent: bool = False) -> Stored:
        with self.lock:
            if if_absent and key in self.objects:
                raise FileExistsError(errno.EEXIST, "412 Precondition Failed", f"flat://{self.name}/{key}")
            self.written += 1
            self.objects[key] = Stored(data, hashlib.md5(data + str(self.written).encode()).hexdigest(), time.time())
            return self.objects[key]

    def get(self, key: str, etag: str | None = None) -> Stored:
        found = self.objects.get(key)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "404 Not Found", f"flat://{self.name}/{key}")
        if etag is not None and found.etag != etag:
            raise OSError(errno.ESTALE, "412 Precondition Failed", f"flat://{self.name}/{key}")
        return found

    def keys(self, prefix: str) -> list[str]:
        with self.lock:
            return sorted(key for key in self.objects if key.startswith(prefix))

    def delete(self, key: str) -> None:
        with self.lock:
            self.objects.pop(key, None)


_BUCKETS: dict[str, Bucket] = {}


def flat_directory(bucket: str, prefix: str = "") -> FlatDirectory:
    return FlatDirectory(_BUCKETS.setdefault(bucket, Bucket(bucket)), prefix)


class FlatHandle:
    """Each read is a request for the same etag."""

    def __init__(self, bucket: Bucket, key: str, etag: str) -> None:
        self._bucket, self._key, self._etag = bucket, key, etag
        self._position = 0

    def read(self, size: int) -> bytes:
        data = self._bucket.get(self._key, self._etag).data[self._position : self._position + size]
        self._position += len(data)
        return data

    def seek(self, position: int) -> int:
        self._position = position
        return position


class FlatDirectory:
    abilities = DirectoryAbilities(pins=False, takes_over_by_rename=False, verifies_reads=True, remote=True)
    scheme = "flat"
    mounted_at = None

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = prefix

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return flat_directory, (self._bucket.name, self._prefix)

    @property
    def location(self) -> str:
        return f"flat://{self._bucket.name}/{self._prefix}".rstrip("/")

    @property
    def url(self) -> str:
        return self.location

    @property
    def spark_root(self) -> str:
        return self.location

    def at(self, folder: str) -> FlatDirectory:
        return FlatDirectory(self._bucket, self._key(folder))

    def within(self, seconds: float) -> FlatDirectory:
        return self

    def identity(self) -> str:
        return self._bucket.get(self._key(LAST)).etag

    def exists(self, path: str = "") -> bool:
        return self._key(path) in self._bucket.objects or bool(self._bucket.keys(self._folder(path)))

    def names(self, folder: str = "") -> list[str]:
        return sorted({name.partition("/")[0] for name in self._below(folder)})

    def folders(self, folder: str = "") -> list[str]:
        return sorted({name.partition("/")[0] for name in self._below(folder) if "/" in name})

    def stat(self, path: str) -> WorkFile:
        found = self._bucket.get(self._key(path))
        return WorkFile(path, len(found.data), found.etag)

    def changed_at(self, path: str = "") -> float:
        names = [path] if self._key(path) in self._bucket.objects else [file.path for file in self.scan(path)]
        if not names:
            raise FileNotFoundError(errno.ENOENT, "404 Not Found", path)
        return max(self._bucket.get(self._key(name)).at for name in names)

    def scan(self, folder: str = "", skip: str | None = None) -> Iterator[WorkFile]:
        for name in self._below(folder):
            if name.partition("/")[0] != skip:
                yield self.stat(f"{folder}/{name}" if folder else name)

    @contextmanager
    def open(self, path: str) -> Iterator[Handle]:
        yield FlatHandle(self._bucket, self._key(path), self.stat(path).identity)

    def read(self, path: str) -> bytes:
        return self._bucket.get(self._key(path)).data

    @contextmanager
    def open_planned(self, file: WorkFile) -> Iterator[Handle]:
        key = self._key(file.path)
        try:
            self._bucket.get(key, file.identity)
        except FileNotFoundError as error:
            raise Changed("vanished before it was read", FileTrouble.VANISHED) from error
        except OSError as error:
            raise Changed("was replaced after it was planned", FileTrouble.CHANGED) from error
        yield FlatHandle(self._bucket, key, file.identity)

    def stored_at(self, file: WorkFile) -> StoredAt | None:
        return None

    def write_atomic(self, path: str, data: bytes) -> None:
        self._bucket.put(self._key(path), data)

    def create(self, path: str, data: bytes) -> None:
        self._bucket.put(self._key(path), data, if_absent=True)

    def remove(self, path: str) -> None:
        self._bucket.delete(self._key(path))

    def make(self) -> None:
        pass

    @contextmanager
    def _built(self, taking_from: FlatDirectory | None) -> Iterator[Building]:
        building = FlatBuilding(self, taking_from)
        self._require_only(building)
        try:
            yield building
            self._require_only(building)
            building.finish()
        except BaseException:
            for path in building.written:
                self.remove(path)
            raise

    def build(self, taking_from: FlatDirectory | None = None) -> AbstractContextManager[Building]:
        return self._built(taking_from)

    def _require_only(self, building: FlatBuilding) -> None:
        if {*self._below("")} - building.written:
            raise FileExistsError(errno.EEXIST, "is there, and not empty", self.location)

    def move_to(self, to: FlatDirectory) -> None:
        if to.exists():
            raise FileExistsError(errno.EEXIST, "exists already", to.location)
        for name in sorted(self._below(""), key=lambda name: name == LAST):
            to.write_atomic(name, self.read(name))
        self.remove_tree()

    def remove_tree(self) -> str | None:
        for name in self._below(""):
            self.remove(name)
        return None

    def remove_if_empty(self) -> None:
        pass

    def pin(self, ticket: Ticket, files: Sequence[WorkFile]) -> bool:
        return False

    def unpin(self, ticket: Ticket) -> None:
        pass

    def _below(self, folder: str) -> list[str]:
        prefix = self._folder(folder)
        return [key.removeprefix(prefix) for key in self._bucket.keys(prefix)]

    def _folder(self, path: str) -> str:
        key = self._key(path)
        return f"{key}/" if key else ""

    def _key(self, path: str) -> str:
        parts = plain_parts(path) if path else ()
        return "/".join(part for part in (self._prefix, *parts) if part)


class FlatBuilding:
    """Files are put where they belong; the one that makes them a checkpoint directory comes last."""

    def __init__(self, directory: FlatDirectory, taking_from: FlatDirectory | None) -> None:
        self._directory = directory
        self._taking_from = taking_from
        self._last: bytes | None = None
        self.written: set[str] = set()

    def write(self, path: str, chunks: Iterable[bytes]) -> None:
        plain_parts(path)
        data = b"".join(chunks)
        if path == LAST and self._last is None:
            self._last = data
        elif path == LAST:
            raise FileExistsError(errno.EEXIST, "was written before", path)
        else:
            self._directory.create(path, data)
            self.written.add(path)

    def copy_inside(self, path: str, source: StoredAt) -> bool:
        return False

    def take(self, file: WorkFile) -> None:
        """A copy inside of the store."""
        assert self._taking_from is not None
        with self._taking_from.open_planned(file) as handle:
            self.write(file.path, [handle.read(file.size)])

    def finish(self) -> None:
        if self._last is not None:
            self._directory.create(LAST, self._last)
            self.written.add(LAST)
