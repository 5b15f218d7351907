"""Work directories on a file system with hard links: what is copied is pinned, and the directory of the run before is
taken over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.checkpoint.layout import NotPlannable, ShardPlan, WorkFile
from holdfast.errors import Corrupt, StorageUnreachable
from holdfast.identifiers import FencingEpoch, Ticket
from holdfast.repository.blobs import Blobs
from holdfast.repository.restore import local_copy
from holdfast.runtime.ports import RunDirectory
from holdfast.runtime.work_folder import FolderWorkDirectory, FolderWorkplace
from holdfast.sinks.durable import storage_error, storage_errors
from holdfast.snapshot.carrier import Carrier, ShardCopy, copy_shards
from holdfast.snapshot.pins import Pins
from holdfast.snapshot.work_directory import has_planned, newest_barrier, plan

_PLANS = 10
"""How often the directory of a run that does not stand still is planned anew."""


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
    def adopt(self, previous: RunDirectory, epoch: FencingEpoch) -> RunDirectory:
        """A query that outlives its run goes on committing, and deleting what it needs no more: then what is taken over
        is planned again. That is no damage."""
        folder, target = Path(previous.location), self._next_path(epoch)
        moved: Exception | None = None
        with storage_errors(f"take over {folder}"):
            for _ in range(_PLANS):
                try:
                    self._take_over(folder, target)
                except (Corrupt, NotPlannable, FileNotFoundError) as error:
                    moved = error
                else:
                    return self._directory(target)
        raise StorageUnreachable(
            f"could not take over {folder}: somebody is still writing there: {moved}",
            hint="stop the run before this one, and start again",
        ) from moved

    def _take_over(self, folder: Path, target: Path) -> None:
        barrier = newest_barrier(folder)
        if barrier is None:
            raise NotPlannable("it has no commit any more")
        # A writer of the user's own may have got the batch behind the barrier: it must be the same batch again.
        local_copy(folder, plan(folder, barrier, planned=has_planned(folder, barrier)), target)

    def _not_told(self, directory: RunDirectory, error: OSError) -> None:
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
