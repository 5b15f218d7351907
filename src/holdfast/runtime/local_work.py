"""Work directories on a file system with hard links: what is copied is pinned, and the directory of the run before is
taken over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.checkpoint.layout import ShardPlan, WorkFile
from holdfast.identifiers import FencingEpoch, Ticket
from holdfast.repository.blobs import Blobs
from holdfast.repository.restore import local_copy
from holdfast.runtime.ports import WorkDirectory
from holdfast.runtime.work_folder import FolderWorkDirectory, FolderWorkplace
from holdfast.sinks.durable import storage_error, storage_errors
from holdfast.snapshot.carrier import Carrier, ShardCopy, copy_shards
from holdfast.snapshot.pins import Pins
from holdfast.snapshot.work_directory import has_planned, plan


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
    def adopt(self, previous: WorkDirectory, epoch: FencingEpoch) -> WorkDirectory:
        barrier = previous.newest_barrier()
        assert barrier is not None, "only an intact directory is adopted"
        target = self._next_path(epoch)
        # A writer of the user's own may have got the batch behind the barrier: it must be the same batch again.
        folder = Path(previous.location)
        with storage_errors(f"take over {folder}"):
            local_copy(folder, plan(folder, barrier, planned=has_planned(folder, barrier)), target)
        return self._directory(target)

    def _not_told(self, directory: WorkDirectory, error: OSError) -> None:
        """It may hold more than the home does: without it batches would be made anew, or a checkpoint be passed over
        whose copy in the home is damaged."""
        raise storage_error(
            f"look at {directory.location}, which the run before left",
            error,
            hint=f"start again when it can be read; or go on without it, from the newest checkpoint: remove "
            f"{directory.location}",
        ) from error

    def _directory(self, path: Path) -> LocalWorkDirectory:
        return LocalWorkDirectory(path, self._carry)
