"""Reading a Spark work directory: its files, and what a barrier consists of."""

import io
import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.checkpoint import layout
from holdfast.checkpoint.layout import FileTrouble, NotPlannable, SnapshotPlan, WorkFile
from holdfast.errors import Corrupt
from holdfast.identifiers import BatchId
from holdfast.storage.below import plain_name
from holdfast.storage.hdfs_path import HdfsPath
from holdfast.storage.work_path import WorkPath, names_in

_SETTLING_SCANS = 20
_LEAST_LINES = 2


def newest_barrier(directory: WorkPath) -> BatchId | None:
    """The newest batch that Spark has committed in this directory."""
    try:
        return layout.newest_barrier(names_in(directory / "commits"))
    except FileNotFoundError:
        return None


def has_planned(directory: WorkPath, barrier: BatchId) -> bool:
    """Whether the batch behind the barrier was planned, and a power cut has left its offsets whole: a version, the
    batch's own line, and one line for each source."""
    try:
        data = (directory / f"offsets/{barrier + 1}").read_bytes()
    except FileNotFoundError:
        return False
    return data.startswith(b"v") and data.count(b"\n") >= _LEAST_LINES and b"\0" not in data


def plan(directory: WorkPath, barrier: BatchId, *, planned: bool = False) -> SnapshotPlan:
    """What to copy for `barrier`, which must have been seen as committed. Raises `NotPlannable`.

    With `planned` also the offsets of a batch that was planned behind it.
    """
    return layout.plan_snapshot(
        barrier,
        scan(directory),
        read=lambda path: (directory / path).read_bytes(),
        sst_files=lambda path: tuple(referenced_files(directory / path)),
        planned=planned,
    )


def scan(directory: WorkPath) -> tuple[WorkFile, ...]:
    """Every regular file, hidden ones included. Files that vanish meanwhile may or may not be in the answer."""
    return (*_walk(directory, "", skip="sources"), *_settled(directory, "sources"))


def _walk(directory: WorkPath, folder: str, skip: str | None = None) -> Iterator[WorkFile]:
    return _walk_here(directory, folder, skip) if isinstance(directory, Path) else _walk_hdfs(directory, folder, skip)


def _walk_hdfs(directory: HdfsPath, folder: str, skip: str | None) -> Iterator[WorkFile]:
    for path, status in (directory / folder).files(skip):
        yield WorkFile(f"{folder}/{path}" if folder else path, status.st_size, status.st_mtime_ns, status.st_ino)


def _walk_here(directory: Path, folder: str, skip: str | None = None) -> Iterator[WorkFile]:
    try:
        entries = list(os.scandir(directory / folder))
    except FileNotFoundError:
        return
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if path == skip:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk_here(directory, path)
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISREG(status.st_mode):
            yield WorkFile(path, status.st_size, status.st_mtime_ns, status.st_ino)


def _settled(directory: WorkPath, folder: str) -> tuple[WorkFile, ...]:
    """The files of a log that grows while it is read, without holes.

    One listing may miss entry k and show k+1. A source restored so would skip the input that k names. Two equal
    listings in a row cannot: whatever existed when the first one ended is in the second.
    """
    newest = tuple(_walk(directory, folder))
    for _ in range(_SETTLING_SCANS):
        previous, newest = newest, tuple(_walk(directory, folder))
        if set(previous) == set(newest):
            return newest
    raise NotPlannable(f"{folder} changed during each of {_SETTLING_SCANS} scans", FileTrouble.CHANGED)


# --- RocksDB archives ---


class _SstFile(msgspec.Struct):
    dfsSstFileName: str
    sizeBytes: int = -1


class _LogFile(msgspec.Struct):
    dfsLogFileName: str
    sizeBytes: int = -1


class _ArchiveMetadata(msgspec.Struct):
    sstFiles: list[_SstFile] = []
    logFiles: list[_LogFile] = []


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_ARCHIVE_DECODER = msgspec.json.Decoder(_ArchiveMetadata)


def referenced_files(archive: WorkPath) -> dict[str, int]:
    """The files that a RocksDB archive refers to, with their sizes (-1: not said)."""
    try:
        with zipfile.ZipFile(archive if isinstance(archive, Path) else io.BytesIO(archive.read_bytes())) as opened:
            text = opened.read("metadata")
        # The first line is the version of the format; the rest is JSON.
        metadata = _ARCHIVE_DECODER.decode(text[text.index(b"{") :])
    except (zipfile.BadZipFile, EOFError, KeyError, ValueError, msgspec.DecodeError) as error:
        raise NotPlannable(f"{archive} could not be understood: {error}", FileTrouble.UNREADABLE) from error
    named = {file.dfsSstFileName: file.sizeBytes for file in metadata.sstFiles} | {
        file.dfsLogFileName: file.sizeBytes for file in metadata.logFiles
    }
    try:
        return {plain_name(name): size for name, size in named.items()}
    except Corrupt as error:
        raise NotPlannable(f"{archive} could not be understood: {error.message}", FileTrouble.UNREADABLE) from error
