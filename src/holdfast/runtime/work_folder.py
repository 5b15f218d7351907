"""The work directories of a job.

<work>/<job>/job.json               which job of which home these belong to
<work>/<job>/<epoch>-<n>/           Spark's checkpoint directory of run <epoch>, its n-th
<work>/<job>/<epoch>-<n>.aside      why the directory beside it must not be used again
<work>/<job>/.<epoch>-<n>.pins/     links to files that are being copied from it, where there are links

Each run gets a new directory: links to the previous run's, or that one renamed, if it is sound and no other run came in
between; else a verified restore. It is built elsewhere and renamed into place whole, because Spark takes half a
directory for a new query.

Here is what is the same on every file system; `local_work` and `hdfs_work` have the rest. Nothing is pinned here.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Many
from contextlib import suppress
from pathlib import Path
from typing import Generic

from holdfast.checkpoint.layout import ShardPlan, SnapshotPlan, WorkFile
from holdfast.checkpoint.manifest import Manifest
from holdfast.errors import HoldfastError, InvalidSettings, StorageError
from holdfast.identifiers import BatchId, FencingEpoch, Sequence, Ticket
from holdfast.job_log import log
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import RunStarted
from holdfast.repository.restore import restore
from holdfast.repository.whole_directory import BUILDING
from holdfast.runtime.ports import RunDirectory
from holdfast.runtime.progress import byte_progress
from holdfast.runtime.work_marker import NAME as MARKER
from holdfast.runtime.work_marker import WorkMarker, remember_head, take_place
from holdfast.sinks import ledger
from holdfast.sinks.durable import storage_errors
from holdfast.sinks.protocol import StagedBatch
from holdfast.snapshot import work_directory
from holdfast.snapshot.carrier import Carrier, ShardCopy, copy_shards
from holdfast.snapshot.pins import SUFFIX as PINS
from holdfast.snapshot.soundness import damage
from holdfast.storage.interface import ObjectStore
from holdfast.storage.work_path import AnyPath, WorkPath, names_in

ASIDE = ".aside"
_ASIDE_KEPT = 3
_LOOKS = 10
"""At a directory that does not stand still."""
_PIECE = 1 << 20
GLANCE_S = 5.0
"""No call of the thread that decides waits longer for a NameNode."""
_DIRECTORY = re.compile(rf"\.?(\d+)-(\d+)(?:{re.escape(BUILDING)}|{re.escape(PINS)}$|$)")


class FolderWorkDirectory(Generic[AnyPath]):
    def __init__(self, path: AnyPath, carry: Carrier = copy_shards) -> None:
        self.path: AnyPath = path
        self._at_a_glance: WorkPath = path if isinstance(path, Path) else path.within(GLANCE_S)
        self._carry = carry

    @property
    def location(self) -> str:
        return str(self.path)

    def newest_barrier(self) -> BatchId | None:
        with storage_errors(f"list the commits of {self.path}"):
            return work_directory.newest_barrier(self._at_a_glance)

    def plan(self, barrier: BatchId) -> SnapshotPlan:
        return work_directory.plan(self.path, barrier)

    def pin(self, ticket: Ticket, files: Many[WorkFile]) -> bool:
        return False

    def unpin(self, ticket: Ticket) -> None:
        pass

    def copy(self, shards: Many[ShardPlan], blobs: Blobs, cancelled: Callable[[], bool]) -> tuple[ShardCopy, ...]:
        return self._carry(self.path, shards, blobs, cancelled)

    def ledger(self) -> tuple[StagedBatch, ...]:
        return ledger.read(self.path)

    def prune_ledger(self, published: BatchId) -> None:
        try:
            ledger.prune(self._at_a_glance, published)
        except StorageError as error:
            log.debug("what is published stays in the ledger until the next checkpoint: %s", error.message)

    def drop_ledger_after(self, batch: BatchId | None) -> None:
        ledger.remove_after(self.path, batch)

    def pieces(self, path: str) -> Iterator[bytes]:
        with (self.path / path).open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece

    def set_aside(self, why: str) -> None:
        _note_of(self.path).write_bytes(f"{why}\n".encode())

    @property
    def is_aside(self) -> bool:
        return _note_of(self.path).exists()


def require_no_work_directory(work: WorkPath) -> None:
    """Refuse a place that is itself what would lie below it, before anything is touched."""
    with storage_errors(f"look at the work directory {work}"):
        itself = (work / MARKER).exists() or (work / "commits").exists()
    if itself:
        raise InvalidSettings.of("work", str(work), "it is itself a work directory", hint="name the directory above it")


def left_by(root: WorkPath, epoch: FencingEpoch) -> WorkPath | None:
    """The newest directory of that run below `root`, whatever it is worth."""
    with storage_errors(f"list {root}"), suppress(FileNotFoundError):
        if numbers := _numbered(root, epoch):
            return root / f"{epoch}-{max(numbers)}"
    return None


def _numbered(root: WorkPath, epoch: FencingEpoch) -> list[int]:
    found = (name.removeprefix(f"{epoch}-") for name in names_in(root) if name.startswith(f"{epoch}-"))
    return [int(number) for number in found if number.isdigit()]


class FolderWorkplace(Generic[AnyPath]):
    def __init__(
        self, work: AnyPath, marker: WorkMarker, carry: Carrier = copy_shards, *, new_life: bool = False
    ) -> None:
        """Raises `Conflict` when the place is somebody else's; with `new_life` what is there is set aside."""
        self._root: AnyPath = work / marker.job
        self._carry = carry
        self._marker = marker
        self._not_read: set[str] = set()
        """Names of directories of which nobody knows what they are worth."""
        take_place(self._root, marker, new_life=new_life)

    def remember(self, head: Sequence) -> None:
        try:
            remember_head(self._root, self._marker, head)
        except HoldfastError as error:
            log.debug("the work directory's marker stays as it is: %s", error.message)

    def intact(self, run: RunStarted) -> RunDirectory | None:
        with storage_errors(f"list {self._root}"):
            newest = max(self._numbered(run.fencing_epoch), default=None)
        if newest is None:
            return None
        directory = self._directory(self._path(run.fencing_epoch, newest))
        try:
            why = "it was set aside" if directory.is_aside else self._damage(directory)
        except OSError as error:
            self._not_told(directory, error)
            return None
        if why is None:
            return directory
        if not directory.is_aside and directory.newest_barrier() is not None:
            with storage_errors(f"set {directory.path} aside, in which {why}"):
                directory.set_aside(why)
        return None

    def _damage(self, directory: FolderWorkDirectory[AnyPath]) -> str | None:
        """A query that outlives its run goes on, and deletes what it needs no more. What moves is looked at again."""
        why: str | None = None
        for _ in range(_LOOKS):
            barrier = directory.newest_barrier()
            why = damage(directory.path)
            if why is None or directory.newest_barrier() == barrier:
                break
        return why

    def _not_told(self, directory: RunDirectory, error: OSError) -> None:
        """Whether the directory of the run before is whole could not be found out. It may hold what the home does not
        have, so it stays for whoever can read it."""
        log.warning(
            "the directory of the run before is not used, and stays: %s could not be read: %s",
            directory.location,
            error,
        )
        self._not_read.add(directory.location.rpartition("/")[2])

    def restore(self, store: ObjectStore, manifest: Manifest, epoch: FencingEpoch) -> RunDirectory:
        target = self._next_path(epoch)
        with byte_progress(f"restoring checkpoint {manifest.checkpoint}", manifest.bytes_total) as advance:
            restore(store, manifest, target, progress=advance)
        return self._directory(target)

    def fresh(self, epoch: FencingEpoch) -> RunDirectory:
        target = self._next_path(epoch)
        with storage_errors(f"make {target}"):
            target.mkdir()
        return self._directory(target)

    def clean(self, keep: RunDirectory) -> None:
        """A run that stalled before this must not remove what a newer run works in, or is building."""
        try:
            self._clean(_order(keep.location.rpartition("/")[2]))
        except OSError as error:
            log.warning("directories of earlier runs stay below %s until the next start: %s", self._root, error)

    def _clean(self, kept: tuple[float, float]) -> None:
        names = names_in(self._root)
        notes = {name for name in names if name.endswith(ASIDE)}
        for name in names:
            if f"{name}{ASIDE}" not in notes and name not in self._not_read and _order(name) < kept:
                _remove_tree(self._root / name)
        oldest_last = sorted(notes, key=lambda name: (self._root / name).stat().st_mtime, reverse=True)
        for name in oldest_last[_ASIDE_KEPT:]:
            _remove_tree(self._root / name.removesuffix(ASIDE))
            (self._root / name).unlink()

    def _directory(self, path: AnyPath) -> FolderWorkDirectory[AnyPath]:
        return FolderWorkDirectory(path, self._carry)

    def _numbered(self, epoch: FencingEpoch) -> list[int]:
        prefix = f"{epoch}-"
        names = [path.name for path in self._root.iterdir() if path.name.startswith(prefix) and path.is_dir()]
        return [int(number) for name in names if (number := name.removeprefix(prefix)).isdigit()]

    def _next_path(self, epoch: FencingEpoch) -> AnyPath:
        with storage_errors(f"list {self._root}"):
            return self._path(epoch, max(self._numbered(epoch), default=0) + 1)

    def _path(self, epoch: FencingEpoch, number: int) -> AnyPath:
        return self._root / f"{epoch}-{number}"


def _note_of(directory: AnyPath) -> AnyPath:
    return directory.with_name(directory.name + ASIDE)


def _remove_tree(path: WorkPath) -> None:
    if isinstance(path, Path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.remove_tree()


def _order(name: str) -> tuple[float, float]:
    """Of directories, half-built ones included, by run and number; what is neither comes last."""
    match = _DIRECTORY.match(name)
    return (int(match[1]), int(match[2])) if match else (math.inf, math.inf)
