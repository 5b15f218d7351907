"""The work directories of a job.

<work>/<job>/job.json               the job and the home that own these directories
<work>/<job>/<epoch>-<n>/           Spark's checkpoint directory of run <epoch>, its n-th
<work>/<job>/<epoch>-<n>.aside      why the directory beside it is not used again
<work>/<job>/.<epoch>-<n>.pins/     links to files that are being copied from it, where there are links

Each run gets a new directory: built from the previous run's files, or the previous one renamed, if it is sound and no
other run came in between; otherwise a verified restore. It appears complete, because Spark treats a partial directory
as a new query.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Many

from holdfast.checkpoint.layout import NotPlannable, ShardPlan, SnapshotPlan, WorkFile
from holdfast.checkpoint.manifest import Manifest
from holdfast.errors import Corrupt, HoldfastError, InvalidSettings, StorageError, StorageUnreachable
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch, Sequence, Ticket
from holdfast.job_log import log, phase
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import RunStarted
from holdfast.runtime.ports import RunDirectory
from holdfast.runtime.progress import byte_progress
from holdfast.runtime.work_marker import NAME as MARKER
from holdfast.runtime.work_marker import WorkMarker, remember_head, take_place
from holdfast.sinks import ledger
from holdfast.sinks.protocol import StagedBatch
from holdfast.snapshot.carrier import Carrier, ShardCopy, copy_shards
from holdfast.storage.durable import storage_error, storage_errors
from holdfast.storage.interface import ObjectStore
from holdfast.workdir import barriers, restorer
from holdfast.workdir.interface import BUILDING, PINS, WorkDirectory
from holdfast.workdir.planned_file import pieces_of
from holdfast.workdir.soundness import damage

ASIDE = ".aside"
_ASIDE_KEPT = 3
_LOOKS = 10
"""How often a directory that changes meanwhile is checked."""
_PLANS = 10
"""How often a directory that changes meanwhile is planned again."""
GLANCE_S = 5.0
"""The thread that decides never waits longer than this for a NameNode."""
_DIRECTORY = re.compile(rf"\.?(\d+)-(\d+)(?:{re.escape(BUILDING)}|{re.escape(PINS)}$|$)")


class RunFolder:
    """The work directory of one run, in the folder of its job."""

    def __init__(self, job: WorkDirectory, name: str, carry: Carrier = copy_shards) -> None:
        self.name = name
        self.files = job.at(name)
        self._job = job
        self._at_a_glance = self.files.within(GLANCE_S)
        self._carry = carry

    @property
    def location(self) -> str:
        return self.files.location

    def newest_barrier(self) -> BatchId | None:
        with storage_errors(f"list the commits of {self.location}"):
            return barriers.newest_barrier(self._at_a_glance)

    def plan(self, barrier: BatchId) -> SnapshotPlan:
        return barriers.plan(self.files, barrier)

    def pin(self, ticket: Ticket, files: Many[WorkFile]) -> bool:
        return self.files.pin(ticket, files)

    def unpin(self, ticket: Ticket) -> None:
        self.files.unpin(ticket)

    def copy(self, shards: Many[ShardPlan], blobs: Blobs, cancelled: Callable[[], bool]) -> tuple[ShardCopy, ...]:
        return self._carry(self.files, shards, blobs, cancelled)

    def ledger(self) -> tuple[StagedBatch, ...]:
        return ledger.read(self.files)

    def prune_ledger(self, published: BatchId) -> None:
        try:
            ledger.prune(self._at_a_glance, published)
        except StorageError as error:
            log.debug("published batches stay in the ledger until the next checkpoint: %s", error.message)

    def drop_ledger_after(self, batch: BatchId | None) -> None:
        ledger.remove_after(self.files, batch)

    def names(self, folder: str = "") -> list[str]:
        return self.files.names(folder)

    def read(self, path: str) -> bytes:
        return self.files.read(path)

    def write_atomic(self, path: str, data: bytes) -> None:
        self.files.write_atomic(path, data)

    def remove(self, path: str) -> None:
        self.files.remove(path)

    def pieces(self, path: str) -> Iterator[bytes]:
        return pieces_of(self.files, path)

    def set_aside(self, why: str) -> None:
        self._job.write_atomic(f"{self.name}{ASIDE}", f"{why}\n".encode())

    @property
    def is_aside(self) -> bool:
        return self._job.exists(f"{self.name}{ASIDE}")


def require_no_work_directory(work: WorkDirectory) -> None:
    """Refuse a path that is itself a checkpoint directory, before anything is changed."""
    with storage_errors(f"look at the work directory {work.location}"):
        itself = work.exists(MARKER) or work.exists("commits")
    if itself:
        rule = "it is itself a work directory"
        raise InvalidSettings.of("work", work.location, rule, hint="name the directory above it")


def left_by(job: WorkDirectory, epoch: FencingEpoch) -> WorkDirectory | None:
    """The newest directory of that run in the folder of its job, sound or not."""
    with storage_errors(f"list {job.location}"):
        newest = max(_numbered(job, epoch), default=None)
    return None if newest is None else job.at(_name(epoch, newest))


class JobFolder:
    """The directories of all runs of a job."""

    def __init__(
        self, work: WorkDirectory, marker: WorkMarker, carry: Carrier = copy_shards, *, new_life: bool = False
    ) -> None:
        """Raises `Conflict` when the place belongs to another job; with `new_life` its contents are set aside."""
        self._root = work.at(marker.job)
        self._carry = carry
        self._restored: set[CheckpointId] = set()
        self._marker = marker
        self._not_read: set[str] = set()
        """Names of directories whose soundness is unknown."""
        take_place(work, marker, new_life=new_life)

    def remember(self, head: Sequence) -> None:
        try:
            remember_head(self._root, self._marker, head)
        except HoldfastError as error:
            log.debug("could not update the work directory's marker: %s", error.message)

    def intact(self, run: RunStarted) -> RunDirectory | None:
        with storage_errors(f"list {self._root.location}"):
            newest = max(_numbered(self._root, run.fencing_epoch), default=None)
        if newest is None:
            return None
        directory = self._directory(_name(run.fencing_epoch, newest))
        try:
            why = "it was set aside" if directory.is_aside else self._damage(directory)
        except OSError as error:
            self._not_told(directory, error)
            return None
        if why is None:
            return directory
        if not directory.is_aside and directory.newest_barrier() is not None:
            with storage_errors(f"set {directory.location} aside, in which {why}"):
                directory.set_aside(why)
        return None

    def _damage(self, directory: RunFolder) -> str | None:
        """A query that outlives its run keeps running and deletes files that it no longer needs. So a changing
        directory is checked again."""
        why: str | None = None
        for _ in range(_LOOKS):
            barrier = directory.newest_barrier()
            why = damage(directory.files)
            if why is None or directory.newest_barrier() == barrier:
                break
        return why

    def _not_told(self, directory: RunFolder, error: OSError) -> None:
        """The previous run's directory could not be checked. It may hold more than the home does: without it, batches
        would run again, or a checkpoint would be passed over whose copy in the home is damaged.

        A remote file system is not waited for. The directory stays for a run that can read it.
        """
        if not directory.files.abilities.remote:
            raise storage_error(
                f"look at {directory.location}, the previous run's directory",
                error,
                hint=f"start again when it can be read; or resume without it, from the newest checkpoint: remove "
                f"{directory.location}",
            ) from error
        log.warning(
            "the previous run's directory is not used, and stays: could not read %s: %s",
            directory.location,
            error,
        )
        self._not_read.add(directory.name)

    def adopt(self, previous: RunDirectory, epoch: FencingEpoch) -> RunDirectory:
        """A query that outlives its run keeps committing, and deletes files that it no longer needs: then the takeover
        is planned again. That is not damage."""
        target = self._directory(self._next_name(epoch))
        source = self._root.at(previous.name)
        with storage_errors(f"take over {source.location}"):
            if source.abilities.takes_over_by_rename:
                restorer.rename(source, target.files)
            else:
                _take_over(source, target.files)
        return target

    def restore(self, store: ObjectStore, manifest: Manifest, epoch: FencingEpoch) -> RunDirectory:
        target = self._directory(self._next_name(epoch))
        title = f"restoring checkpoint {manifest.checkpoint}"
        # Whoever needs it again found something wrong with it: then every byte is read.
        again = manifest.checkpoint in self._restored
        self._restored.add(manifest.checkpoint)
        with phase("restoring"), byte_progress(title, manifest.bytes_total) as advance:
            restorer.restore(store, manifest, target.files, progress=advance, inside=not again)
        return target

    def fresh(self, epoch: FencingEpoch) -> RunDirectory:
        target = self._directory(self._next_name(epoch))
        with storage_errors(f"make {target.location}"):
            target.files.make()
        return target

    def clean(self, keep: RunDirectory) -> None:
        """A run that stalled earlier must not remove a directory that a newer run uses or builds."""
        try:
            self._clean(_order(keep.name))
        except OSError as error:
            log.warning(
                "directories of earlier runs stay below %s until the next start: %s", self._root.location, error
            )

    def _clean(self, kept: tuple[float, float]) -> None:
        names = self._root.names()
        notes = {name for name in names if name.endswith(ASIDE)}
        for name in names:
            if f"{name}{ASIDE}" not in notes and name not in self._not_read and _order(name) < kept:
                self._root.at(name).remove_tree()
        newest_first = sorted(notes, key=lambda name: _order(name.removesuffix(ASIDE)), reverse=True)
        for name in newest_first[_ASIDE_KEPT:]:
            self._root.at(name.removesuffix(ASIDE)).remove_tree()
            self._root.remove(name)

    def _directory(self, name: str) -> RunFolder:
        return RunFolder(self._root, name, self._carry)

    def _next_name(self, epoch: FencingEpoch) -> str:
        with storage_errors(f"list {self._root.location}"):
            return _name(epoch, max(_numbered(self._root, epoch), default=0) + 1)


def _take_over(source: WorkDirectory, target: WorkDirectory) -> None:
    moved: Exception | None = None
    for _ in range(_PLANS):
        try:
            barrier = barriers.newest_barrier(source)
            if barrier is None:
                raise NotPlannable("it no longer has a commit")
            # The user's own writer may have received the batch after the barrier: Spark must repeat exactly that batch.
            # Of the batches before it the home may lack the plans.
            planned = barriers.planned_batches(source, barrier)
            restorer.take_over(source, barriers.plan(source, barrier, planned=planned), target)
        except (Corrupt, NotPlannable, FileNotFoundError) as error:
            moved = error
        else:
            return
    raise StorageUnreachable(
        f"could not take over {source.location}: another process still writes there: {moved}",
        hint="stop the previous run, and start again",
    ) from moved


def _numbered(job: WorkDirectory, epoch: FencingEpoch) -> list[int]:
    prefix = f"{epoch}-"
    names = [name for name in job.folders() if name.startswith(prefix)]
    return [int(number) for name in names if (number := name.removeprefix(prefix)).isdigit()]


def _name(epoch: FencingEpoch, number: int) -> str:
    return f"{epoch}-{number}"


def _order(name: str) -> tuple[float, float]:
    """Sort key of directories, half-built ones included, by run and number; other names come last."""
    match = _DIRECTORY.match(name)
    return (int(match[1]), int(match[2])) if match else (math.inf, math.inf)
