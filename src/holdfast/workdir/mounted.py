"""A directory of a file system that this machine has mounted: a disk, NFS, a volume."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from holdfast.checkpoint.layout import WorkFile
from holdfast.identifiers import Ticket
from holdfast.storage.below import plain_parts
from holdfast.storage.durable import flush, write_atomically
from holdfast.storage.interface import StoredAt
from holdfast.storage.unique import unique_name
from holdfast.workdir.interface import Building, DirectoryAbilities, Handle
from holdfast.workdir.mounted_building import built_whole
from holdfast.workdir.pins import Pins
from holdfast.workdir.planned_file import opening, require_same

_ABILITIES = DirectoryAbilities(pins=True, takes_over_by_rename=False, verifies_reads=False, remote=False)


class MountedDirectory:
    abilities = _ABILITIES
    scheme = "file"

    def __init__(self, path: Path, held: Iterable[Ticket] = ()) -> None:
        """`held` are the tickets under which another process has pinned files."""
        self._path = path.absolute()
        self._pins = Pins(self._path, _seen, held)

    def __reduce__(self) -> tuple[type[MountedDirectory], tuple[Path, tuple[Ticket, ...]]]:
        return MountedDirectory, (self._path, self._pins.held)

    def __repr__(self) -> str:
        return f"MountedDirectory({self.location!r})"

    @property
    def location(self) -> str:
        return str(self._path)

    @property
    def url(self) -> str:
        return self.location

    @property
    def spark_root(self) -> str:
        """Hadoop writes a local path with its scheme, one slash, and no escapes."""
        return f"file:{self._path}"

    @property
    def mounted_at(self) -> Path:
        return self._path

    def at(self, folder: str) -> MountedDirectory:
        return MountedDirectory(self._below(folder))

    def within(self, seconds: float) -> MountedDirectory:
        """The operating system has no timeouts for files."""
        return self

    # --- looking ---

    def identity(self) -> str:
        return str(self._path.stat().st_ino)

    def exists(self, path: str = "") -> bool:
        return self._below(path).exists()

    def names(self, folder: str = "") -> list[str]:
        try:
            return os.listdir(self._below(folder))
        except FileNotFoundError:
            return []

    def folders(self, folder: str = "") -> list[str]:
        try:
            with os.scandir(self._below(folder)) as entries:
                return [entry.name for entry in entries if entry.is_dir()]
        except FileNotFoundError:
            return []

    def stat(self, path: str) -> WorkFile:
        return _file(path, self._below(path).stat())

    def changed_at(self, path: str = "") -> float:
        """A rename changes the inode's time, not that of the contents."""
        status = self._below(path).stat()
        return max(status.st_mtime, status.st_ctime)

    def scan(self, folder: str = "", skip: str | None = None) -> Iterator[WorkFile]:
        try:
            entries = list(os.scandir(self._below(folder)))
        except FileNotFoundError:
            return
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name == skip:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self.scan(path)
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield _file(path, status)

    # --- bytes ---

    @contextmanager
    def open(self, path: str) -> Iterator[Handle]:
        with self._below(path).open("rb") as handle:
            yield handle

    def read(self, path: str) -> bytes:
        return self._below(path).read_bytes()

    @contextmanager
    def open_planned(self, file: WorkFile) -> Iterator[Handle]:
        """A file that is deleted after the open can still be read completely."""
        path = self._pins.path_of(file) or self._below(file.path)
        with opening():
            handle = path.open("rb", buffering=0)
        with handle:
            require_same(_file(file.path, os.fstat(handle.fileno())), file)
            yield handle
            require_same(_file(file.path, os.fstat(handle.fileno())), file)
            with suppress(FileNotFoundError):
                require_same(_seen(path), file)

    def stored_at(self, file: WorkFile) -> StoredAt | None:
        return None

    def write_atomic(self, path: str, data: bytes) -> None:
        target = self._below(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, data)
        for folder in target.relative_to(self._path).parent.parents:
            flush(self._path / folder)

    def create(self, path: str, data: bytes) -> None:
        target = self._below(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}-{unique_name()}")
        try:
            beside.write_bytes(data)
            _link_or_copy(beside, target)
        finally:
            beside.unlink(missing_ok=True)

    def remove(self, path: str) -> None:
        self._below(path).unlink(missing_ok=True)

    # --- the directory itself ---

    def make(self) -> None:
        self._path.mkdir(parents=True)

    def build(self, taking_from: MountedDirectory | None = None) -> AbstractContextManager[Building]:
        return built_whole(self._path, _seen, taking_from._path if taking_from is not None else None)

    def move_to(self, to: MountedDirectory) -> None:
        if to.exists():
            raise FileExistsError(errno.EEXIST, "exists already", to.location)
        self._path.rename(to._path)

    def remove_tree(self) -> str | None:
        problems: list[str] = []
        shutil.rmtree(self._path, onerror=lambda function, path, info: problems.append(f"{path}: {info[1]}"))
        return (problems or [f"{self._path} still exists"])[0] if self._path.exists() else None

    def remove_if_empty(self) -> None:
        with suppress(OSError):
            self._path.rmdir()

    # --- pins ---

    def pin(self, ticket: Ticket, files: Sequence[WorkFile]) -> bool:
        return self._pins.hold(ticket, files)

    def unpin(self, ticket: Ticket) -> None:
        self._pins.release(ticket)

    def _below(self, path: str) -> Path:
        return self._path.joinpath(*plain_parts(path)) if path else self._path


def _file(path: str, status: os.stat_result) -> WorkFile:
    """A hard link is the same file: only its name differs."""
    return WorkFile(path, status.st_size, f"{status.st_ino}-{status.st_mtime_ns}")


def _seen(path: Path) -> WorkFile:
    return _file(path.name, path.stat())


def _link_or_copy(beside: Path, target: Path) -> None:
    try:
        os.link(beside, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        with target.open("xb") as file:
            file.write(beside.read_bytes())
