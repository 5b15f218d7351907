"""A directory that appears whole or not at all: built under a hidden name beside its place, flushed, then renamed."""

import errno
import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.errors import HoldfastError, InvalidSettings
from holdfast.storage.hdfs_path import HdfsPath
from holdfast.storage.unique import unique_name
from holdfast.storage.work_path import WorkPath

BUILDING = ".restoring-"
_UNFINISHED: set[Path] = set()
"""What is being built on this machine."""
_TRIES = 20
_DEAD_AFTER_S = 86_400.0
_FREE_RULE = "must be an empty directory, or not exist"


@contextmanager
def built_whole(to: Path, durable: bool = True) -> Iterator[Path]:
    """A new directory to fill, which becomes `to` when the block ends well and is removed when it does not.

    `durable` forces the names in it to the disk before it gets its own.
    Raises `InvalidSettings` when `to` holds something, before and after the block.
    """
    to = to.absolute()
    try:
        require_free(to)
        building = _new_sibling(to)
    except OSError as error:
        raise _failed(to, error) from error
    _UNFINISHED.add(building)
    try:
        yield building
        if durable:
            flush_directories(building)
        _rename(building, to)
    except OSError as error:
        raise _failed(to, error) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
        _UNFINISHED.discard(building)


def remove_unfinished() -> None:
    """For a process that has to leave while threads of it still write there."""
    for building in tuple(_UNFINISHED):
        for _ in range(_TRIES):
            shutil.rmtree(building, ignore_errors=True)
            if not building.exists():
                break


@contextmanager
def built_whole_on_hdfs(to: HdfsPath) -> Iterator[HdfsPath]:
    """The same on HDFS, where what is written is durable. `to` must not exist."""
    building = to.with_name(f".{to.name}{BUILDING}{unique_name()[:12]}")
    try:
        require_free(to)
        building.mkdir(parents=True)
        yield building
        building.rename(to)
    except FileExistsError as error:
        raise InvalidSettings.of("to", str(to), _FREE_RULE) from error
    except OSError as error:
        raise _failed(to, error) from error
    finally:
        with suppress(OSError):
            building.remove_tree()


def require_free(to: WorkPath) -> None:
    """Raises `InvalidSettings` unless a directory can be renamed to `to`."""
    if not to.exists() or (to.is_dir() and next(to.iterdir(), None) is None):
        return
    raise InvalidSettings.of("to", str(to), _FREE_RULE, hint="name a directory that does not exist yet")


def flush_directories(root: Path) -> None:
    """Make the names below `root` durable; the files themselves are flushed by whoever writes them."""
    for folder, _, _ in os.walk(root, topdown=False):
        flush_directory(Path(folder))


def flush_directory(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _new_sibling(to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    for number in itertools.count():
        sibling = to.parent / f".{to.name}{BUILDING}{os.getpid()}-{number}"
        with suppress(FileExistsError):
            sibling.mkdir()
            _remove_dead_siblings(to, sibling.stat().st_mtime)
            return sibling
    raise AssertionError("counting never ends")


def _remove_dead_siblings(to: Path, now: float) -> None:
    """What a process was building in the same place when it was killed, a day ago or longer. `now` by the clock of the
    file system, like the ages of what is there."""
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
            raise InvalidSettings.of("to", str(to), _FREE_RULE) from error
        if error.errno in (errno.EBUSY, errno.EXDEV):
            raise InvalidSettings.of("to", str(to), "must not be a mount point", hint=f"use {to}/work") from error
        raise
    flush_directory(to.parent)


def _failed(to: WorkPath, error: OSError) -> HoldfastError:
    return HoldfastError(
        f"could not write {error.filename or to}: {error.strerror or error}",
        hint=f"check the space and the permissions of {to.parent}",
    )
