"""What Spark has committed in a work directory, and which files a barrier consists of."""

import io
import zipfile
from collections.abc import Collection

import msgspec

from holdfast.checkpoint import layout
from holdfast.checkpoint.layout import FileTrouble, NotPlannable, SnapshotPlan, WorkFile
from holdfast.errors import Corrupt
from holdfast.identifiers import BatchId
from holdfast.storage.below import plain_name
from holdfast.workdir.interface import WorkDirectory

_SOURCES = "sources"
_SETTLING_SCANS = 20
_LEAST_LINES = 2


def newest_barrier(directory: WorkDirectory) -> BatchId | None:
    """The newest batch that Spark has committed in this directory."""
    return layout.newest_barrier(directory.names("commits"))


def has_planned(directory: WorkDirectory, barrier: BatchId) -> bool:
    """Whether the batch after the barrier was planned and its offsets file is complete (after a power loss it may not
    be): a version, the batch's own line, and one line for each source."""
    try:
        data = directory.read(f"offsets/{barrier + 1}")
    except FileNotFoundError:
        return False
    return data.startswith(b"v") and data.count(b"\n") >= _LEAST_LINES and b"\0" not in data


def planned_batches(directory: WorkDirectory, barrier: BatchId) -> tuple[BatchId, ...]:
    """The batches up to the one after the barrier whose offsets are there."""
    numbers = sorted(int(name) for name in directory.names("offsets") if name.isascii() and name.isdigit())
    newest = barrier + 1 if has_planned(directory, barrier) else barrier
    return tuple(BatchId(number) for number in numbers if number <= newest)


def plan(directory: WorkDirectory, barrier: BatchId, *, planned: Collection[BatchId] = ()) -> SnapshotPlan:
    """What to copy for `barrier`, which must have been seen as committed. Raises `NotPlannable`.

    With `planned` also the offsets of these batches.
    """
    return layout.plan_snapshot(
        barrier,
        files_of(directory),
        read=directory.read,
        sst_files=lambda path: tuple(referenced_files(directory.read(path), path)),
        planned=planned,
    )


def files_of(directory: WorkDirectory) -> tuple[WorkFile, ...]:
    """Every regular file, hidden ones included. Files that are deleted meanwhile may or may not be included."""
    return (*directory.scan(skip=_SOURCES), *_settled(directory, _SOURCES))


def _settled(directory: WorkDirectory, folder: str) -> tuple[WorkFile, ...]:
    """The files of a log that grows while it is read, without gaps.

    One listing may miss entry k and show k+1. A source restored from it would skip the input that k names. Two equal
    listings in a row cannot: every file that existed when the first one ended is in the second.
    """
    newest = tuple(directory.scan(folder))
    for _ in range(_SETTLING_SCANS):
        previous, newest = newest, tuple(directory.scan(folder))
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


# Created at import: msgspec crashes the process when threads create the decoder of a type at the same time.
_ARCHIVE_DECODER = msgspec.json.Decoder(_ArchiveMetadata)


def referenced_files(archive: bytes, shown: str) -> dict[str, int]:
    """The files that a RocksDB archive refers to, with their sizes (-1: unknown)."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            text = opened.read("metadata")
        # The first line is the version of the format; the rest is JSON.
        metadata = _ARCHIVE_DECODER.decode(text[text.index(b"{") :])
    except (zipfile.BadZipFile, EOFError, KeyError, ValueError, msgspec.DecodeError) as error:
        raise NotPlannable(f"{shown} could not be understood: {error}", FileTrouble.UNREADABLE) from error
    named = {file.dfsSstFileName: file.sizeBytes for file in metadata.sstFiles} | {
        file.dfsLogFileName: file.sizeBytes for file in metadata.logFiles
    }
    try:
        return {plain_name(name): size for name, size in named.items()}
    except Corrupt as error:
        raise NotPlannable(f"{shown} could not be understood: {error.message}", FileTrouble.UNREADABLE) from error
