"""A directory of HDFS, which has no hard links: planned files can be read until Spark deletes them, and the directory
of the previous run is taken over by renaming it.

The rename also fences processes of that run that are still alive. Spark and holdfast write by path, and the old path
does not lead to the directory any more: a batch in progress was committed before the rename and is in the renamed
directory, or can never be committed there. A file that is open for writing moves with the directory, and no barrier
needs it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.checkpoint.layout import FileTrouble, WorkFile
from holdfast.errors import InvalidSettings
from holdfast.identifiers import Ticket
from holdfast.storage.below import plain_parts
from holdfast.storage.interface import StoredAt
from holdfast.storage.unique import unique_name
from holdfast.workdir.hdfs_path import HdfsPath, HdfsStatus
from holdfast.workdir.interface import BUILDING, Building, Changed, DirectoryAbilities, Handle
from holdfast.workdir.planned_file import opening, require_same

if TYPE_CHECKING:
    from holdfast.storage.hdfs_connection import HdfsConnection

_ABILITIES = DirectoryAbilities(pins=False, takes_over_by_rename=True, verifies_reads=True, remote=True)


class HdfsCluster:
    """Where a NameNode is. Nothing is loaded or connected before the first use."""

    def __init__(self, address: str, patience: float | None = None) -> None:
        """`address` is hdfs://host:port or hdfs://nameservice. `patience` is the timeout for an answer of the NameNode
        and for a few bytes; None for the defaults."""
        self.address = address
        self._patience = patience

    def __reduce__(self) -> tuple[type[HdfsCluster], tuple[str, float | None]]:
        return HdfsCluster, (self.address, self._patience)

    def within(self, seconds: float) -> HdfsCluster:
        return HdfsCluster(self.address, seconds)

    @cached_property
    def connection(self) -> HdfsConnection:
        try:
            # Imported here: other places do not need it.
            from holdfast.storage.hdfs_connection import HdfsConnection
        except ModuleNotFoundError as error:
            rule = f"HDFS needs the package {error.name}"
            raise InvalidSettings.of("work", self.address, rule, hint="pip install 'holdfast-spark[hdfs]'") from error
        if self._patience is None:
            return HdfsConnection(self.address)
        return HdfsConnection(self.address, metadata_patience=self._patience, small_patience=self._patience)


class HdfsDirectory:
    abilities = _ABILITIES
    scheme = "hdfs"
    mounted_at = None

    def __init__(self, cluster: HdfsCluster, path: str) -> None:
        """`path` is absolute and not escaped."""
        self._cluster = cluster
        self._path = path

    def __repr__(self) -> str:
        return f"HdfsDirectory({self.location!r})"

    @property
    def location(self) -> str:
        return f"{self._cluster.address}{self._path}"

    @property
    def url(self) -> str:
        return self.location

    @property
    def spark_root(self) -> str:
        return self.location

    def at(self, folder: str) -> HdfsDirectory:
        return HdfsDirectory(self._cluster, _joined(self._path, folder))

    def within(self, seconds: float) -> HdfsDirectory:
        return HdfsDirectory(self._cluster.within(seconds), self._path)

    # --- looking ---

    def identity(self) -> str:
        """HDFS exposes no inode numbers, so it is the time when the query's id was written."""
        return str(self._below("metadata").stat().st_mtime_ns)

    def exists(self, path: str = "") -> bool:
        return self._below(path).exists()

    def names(self, folder: str = "") -> list[str]:
        return [path.name for path in self._listed(folder)]

    def folders(self, folder: str = "") -> list[str]:
        return [path.name for path in self._listed(folder) if path.is_dir()]

    def _listed(self, folder: str) -> list[HdfsPath]:
        try:
            return [*self._below(folder).iterdir()]
        except FileNotFoundError:
            return []

    def stat(self, path: str) -> WorkFile:
        return _file(path, self._below(path).stat())

    def changed_at(self, path: str = "") -> float:
        return self._below(path).stat().st_mtime_ns / 1e9

    def scan(self, folder: str = "", skip: str | None = None) -> Iterator[WorkFile]:
        for path, status in self._below(folder).files(skip):
            yield _file(f"{folder}/{path}" if folder else path, status)

    # --- bytes ---

    @contextmanager
    def open(self, path: str) -> Iterator[Handle]:
        with self._below(path).open("rb") as handle:
            yield handle

    def read(self, path: str) -> bytes:
        return self._below(path).read_bytes()

    @contextmanager
    def open_planned(self, file: WorkFile) -> Iterator[Handle]:
        """A handle does not identify its file. But if the planned file exists before and after the open, it is the file
        that was opened. If it is deleted later, the read may fail before its end."""
        path = self._below(file.path)
        with opening():
            handle = path.open("rb")
            found = _file(file.path, path.stat())
        require_same(found, file)
        yield handle
        try:
            require_same(_file(file.path, path.stat()), file)
        except FileNotFoundError:
            return
        except OSError as error:
            raise Changed(f"could not be looked at again: {error.strerror}", FileTrouble.UNREADABLE) from error

    def stored_at(self, file: WorkFile) -> StoredAt | None:
        return None

    def write_atomic(self, path: str, data: bytes) -> None:
        self._below(path).write_whole(data)

    def create(self, path: str, data: bytes) -> None:
        target = self._below(path)
        beside = target.with_name(f".{target.name}-{unique_name()}")
        try:
            beside.write_bytes(data)
            beside.rename(target)
        finally:
            beside.unlink(missing_ok=True)

    def remove(self, path: str) -> None:
        self._below(path).unlink(missing_ok=True)

    # --- the directory itself ---

    def make(self) -> None:
        self._below("").mkdir(parents=True)

    @contextmanager
    def build(self, taking_from: HdfsDirectory | None = None) -> Iterator[Building]:
        to = self._below("")
        if to.exists() and (not to.is_dir() or next(to.iterdir(), None) is not None):
            raise FileExistsError(errno.EEXIST, "is there, and not empty", self.location)
        hidden = to.with_name(f".{to.name}{BUILDING}{unique_name()[:12]}")
        try:
            hidden.mkdir(parents=True)
            yield _HdfsBuilding(hidden, taking_from)
            if to.is_dir():
                self.remove_if_empty()  # a rename would not replace it
            hidden.rename(to)
        finally:
            with suppress(OSError):
                hidden.remove_tree()

    def move_to(self, to: HdfsDirectory) -> None:
        self._below("").rename(to._below(""))

    def remove_tree(self) -> str | None:
        try:
            self._below("").remove_tree()
        except OSError as error:
            return str(error)
        return None

    def remove_if_empty(self) -> None:
        with suppress(OSError):
            self._below("").unlink()

    # --- pins ---

    def pin(self, ticket: Ticket, files: Sequence[WorkFile]) -> bool:
        return False

    def unpin(self, ticket: Ticket) -> None:
        pass

    def _below(self, path: str) -> HdfsPath:
        return HdfsPath(self._cluster.connection, _joined(self._path, path) if path else self._path)


class _HdfsBuilding:
    def __init__(self, root: HdfsPath, taking_from: HdfsDirectory | None) -> None:
        self._root = root
        self._taking_from = taking_from

    def write(self, path: str, chunks: Iterable[bytes]) -> None:
        target = self._root / "/".join(plain_parts(path))
        with target.open("xb") as file:
            for chunk in chunks:
                file.write(chunk)

    def copy_inside(self, path: str, source: StoredAt) -> bool:
        return False

    def take(self, file: WorkFile) -> None:
        """Copies through this process: HDFS has neither hard links nor server-side copies."""
        assert self._taking_from is not None
        with self._taking_from.open_planned(file) as handle:
            self.write(file.path, iter(lambda: handle.read(1 << 20), b""))


def _joined(root: str, path: str) -> str:
    return f"{root.rstrip('/')}/{'/'.join(plain_parts(path))}"


def _file(path: str, status: HdfsStatus) -> WorkFile:
    return WorkFile(path, status.st_size, str(status.st_mtime_ns))
