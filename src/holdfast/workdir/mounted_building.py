"""A mounted directory that appears whole or not at all: built under a hidden name beside it, flushed, renamed."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.checkpoint.layout import FileTrouble, WorkFile
from holdfast.errors import InvalidSettings
from holdfast.storage.below import below
from holdfast.storage.durable import flush
from holdfast.storage.interface import StoredAt
from holdfast.workdir.hadoop_checksum import checksum_name
from holdfast.workdir.interface import BUILDING, Changed
from holdfast.workdir.planned_file import require_same
from holdfast.workdir.unfinished import removed_afterwards

_DEAD_AFTER_S = 86_400.0
_FLUSHED_AT_ONCE = 16
_LARGE = 1 << 20
_CHUNK = 1 << 20


@contextmanager
def built_whole(
    to: Path, look: Callable[[Path], WorkFile], taking_from: Path | None = None
) -> Iterator[MountedBuilding]:
    """`look` returns the identity of a file."""
    _require_free(to)
    with removed_afterwards(_new_sibling(to)) as hidden:
        with ThreadPoolExecutor(_FLUSHED_AT_ONCE, "flush") as flushing:
            building = MountedBuilding(hidden, look, taking_from, flushing)
            yield building
            building.flush_files()
        if taking_from is None:
            _flush_directories(hidden)
        _rename(hidden, to)


class MountedBuilding:
    def __init__(
        self, root: Path, look: Callable[[Path], WorkFile], taking_from: Path | None, flushing: Executor
    ) -> None:
        self._root = root
        self._look = look
        self._taking_from = taking_from
        self._flushing = flushing
        self._folders: set[Path] = set()
        self._begun: list[Future[None]] = []
        self._small: list[Path] = []

    def write(self, path: str, chunks: Iterable[bytes]) -> None:
        """Large files are flushed while others are written. Small ones are flushed together, which takes little longer
        than a few."""
        target = self._place_of(path)
        with target.open("xb") as file:
            for chunk in chunks:
                file.write(chunk)
            size = file.tell()
        if size >= _LARGE:
            self._begun.append(self._flushing.submit(flush, target))
        else:
            self._small.append(target)

    def copy_inside(self, path: str, source: StoredAt) -> bool:
        return False

    def take(self, file: WorkFile) -> None:
        """By a hard link where possible. That is safe because Spark replaces files by renaming new ones over them and
        writes SSTs under names that are never used twice: it changes no file in place, so the query of one directory
        cannot change the other directory. Hadoop's checksum is linked too, because Spark compares what it reads with
        it. The names are not flushed. After a power loss the directory may lack some, which is detected before it is
        used again."""
        assert self._taking_from is not None
        path, target = self._taking_from / file.path, self._place_of(file.path)
        try:
            if _linked(path, target):
                require_same(self._look(target), file)
                with suppress(FileNotFoundError):
                    checksum = checksum_name(target.name)
                    _linked(path.with_name(checksum), target.with_name(checksum))
                return
            require_same(self._look(path), file)
            with path.open("rb") as read:
                self.write(file.path, iter(lambda: read.read(_CHUNK), b""))
        except FileNotFoundError as error:
            raise Changed("does not exist any more", FileTrouble.VANISHED) from error
        except Changed:
            target.unlink(missing_ok=True)
            raise

    def flush_files(self) -> None:
        self._begun += [self._flushing.submit(flush, path) for path in self._small]
        for flushed in self._begun:
            flushed.result()

    def _place_of(self, path: str) -> Path:
        target = below(self._root, path)
        if target.parent not in self._folders:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(target.parent)
        return target


def _linked(path: Path, target: Path) -> bool:
    try:
        os.link(path, target)
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError:
        return False  # another file system, or one without links
    return True


def _require_free(to: Path) -> None:
    if not to.exists() or (to.is_dir() and next(to.iterdir(), None) is None):
        return
    raise FileExistsError(errno.EEXIST, "is there, and not empty", str(to))


def _flush_directories(root: Path) -> None:
    """Make the names below `root` durable."""
    for folder, _, _ in os.walk(root, topdown=False):
        flush(Path(folder))


def _new_sibling(to: Path) -> Path:
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, "is not a directory", str(to.parent)) from error
    for number in itertools.count():
        sibling = to.parent / f".{to.name}{BUILDING}{os.getpid()}-{number}"
        with suppress(FileExistsError):
            sibling.mkdir()
            _remove_dead_siblings(to, sibling.stat().st_mtime)
            return sibling
    raise AssertionError("counting never ends")


def _remove_dead_siblings(to: Path, now: float) -> None:
    """Remove directories that a killed process was building in the same place, at least a day ago. `now` is by the
    clock of the file system, like the modification times."""
    prefix = f".{to.name}{BUILDING}"
    for name in os.listdir(to.parent):
        sibling = to.parent / name
        pid = name.removeprefix(prefix).partition("-")[0]
        if (
            name.startswith(prefix)
            and pid.isdecimal()
            and _is_older(sibling, now - _DEAD_AFTER_S)
            and not Path(f"/proc/{pid}").exists()
        ):
            shutil.rmtree(sibling, ignore_errors=True)


def _is_older(path: Path, than: float) -> bool:
    try:
        return path.lstat().st_mtime < than
    except OSError:
        return False


def _rename(building: Path, to: Path) -> None:
    try:
        os.rename(building, to)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise FileExistsError(errno.EEXIST, "is there, and not empty", str(to)) from error
        if error.errno in (errno.EBUSY, errno.EXDEV):
            raise InvalidSettings.of("to", str(to), "must not be a mount point", hint=f"use {to}/work") from error
        raise
    flush(to.parent)
