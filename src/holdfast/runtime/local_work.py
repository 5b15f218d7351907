"""Work directories on a file system with hard links: what is copied is pinned, and the directory of the run before is
taken over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.checkpoint.layout import ShardPlan, WorkFile
from holdfast.identifiers import FencingEpoch, JobName, Ticket
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import RunStarted
from holdfast.repository.restore import local_copy
from holdfast.runtime.ports import WorkDirectory, Workplace
from holdfast.runtime.work_folder import FolderWorkDirectory, FolderWorkplace
from holdfast.snapshot.carrier import Carrier, ShardCopy, copy_shards
from holdfast.snapshot.pins import Pins
from holdfast.snapshot.soundness import damage
from holdfast.storage.work_path import WorkPath


class LocalWorkDirectory(FolderWorkDirectory[Path]):
    def __init__(self, path: Path, carry: Carrier = copy_shards) -> None:
        super().__init__(path, carry)
        self._pins = Pins(path)

    def pin(self, ticket: Ticket, files: Sequence[WorkFile]) -> bool:
        return self._pins.hold(ticket, files)

    def unpin(self, ticket: Ticket) -> None:
        self._pins.release(ticket)

    def copy(self, shards: Sequence[ShardPlan], blobs: Blobs, cancelled: Callable[[], bool]) -> tuple[ShardCopy, ...]:
        return self._carry(self.path, shards, blobs, cancelled, self._pins.folders)


class LocalWorkplace(FolderWorkplace[Path]):
    def intact(self, run: RunStarted) -> WorkDirectory | None:
        newest = max(self._numbered(run.fencing_epoch), default=None)
        if newest is None:
            return None
        path = self._path(run.fencing_epoch, newest)
        directory = self._directory(path)
        if directory.is_aside:
            return None
        if (why := damage(path)) is not None:
            if directory.newest_barrier() is not None:
                directory.set_aside(why)
            return None
        return directory

    def adopt(self, previous: WorkDirectory, epoch: FencingEpoch) -> WorkDirectory:
        barrier = previous.newest_barrier()
        assert barrier is not None, "only an intact directory is adopted"
        target = self._next_path(epoch)
        local_copy(Path(previous.location), previous.plan(barrier), target)
        return self._directory(target)

    def _directory(self, path: Path) -> LocalWorkDirectory:
        return LocalWorkDirectory(path, self._carry)


def workplace_at(work: WorkPath, job: JobName, home: str, lineage: str, carry: Carrier = copy_shards) -> Workplace:
    if isinstance(work, Path):
        return LocalWorkplace(work, job, home, lineage, carry)
    return FolderWorkplace(work, job, home, lineage, carry)
