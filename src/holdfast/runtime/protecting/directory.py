"""A checkpoint directory in which somebody else's Spark works. It is only read, and nothing is put beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Many

from holdfast.checkpoint.layout import FileTrouble, NotPlannable, ShardPlan, SnapshotPlan, WorkFile
from holdfast.checkpoint.source_logs import missing_entry
from holdfast.errors import Corrupt
from holdfast.identifiers import BatchId, Ticket
from holdfast.plans.query_id import query_id
from holdfast.repository.blobs import Blobs
from holdfast.sinks.protocol import StagedBatch
from holdfast.snapshot.carrier import ShardCopy, copy_shards
from holdfast.snapshot.low_priority import in_the_background
from holdfast.workdir import barriers
from holdfast.workdir.interface import WorkDirectory
from holdfast.workdir.planned_file import pieces_of


class ProtectedDirectory:
    """A `RunDirectory`. Files are not pinned: what Spark deletes meanwhile is taken from a newer barrier."""

    name = "protected"

    def __init__(self, files: WorkDirectory, query: str, look: Callable[[], BatchId | None]) -> None:
        """`query` is the id of the query that works there. `look` returns the newest barrier."""
        self.files = files
        self.query = query
        self._look = look

    @property
    def location(self) -> str:
        return self.files.location

    def newest_barrier(self) -> BatchId | None:
        return self._look()

    def plan(self, barrier: BatchId) -> SnapshotPlan:
        """Raises `NotPlannable` also when another query works there now, or a source's log has a gap."""
        self._require_the_query()
        plan = barriers.plan(self.files, barrier)
        try:
            missing = missing_entry(self.files.read(f"offsets/{barrier}"), {file.path for file in plan.files()})
        except FileNotFoundError as error:
            raise NotPlannable(f"offsets/{barrier} vanished") from error
        if missing is not None:
            raise NotPlannable(f"{missing} does not exist: the source would be read again from there")
        return plan

    def _require_the_query(self) -> None:
        try:
            found = query_id(self.files.read("metadata").decode())
        except FileNotFoundError as error:
            raise NotPlannable(f"{self.location} is gone") from error
        except (Corrupt, UnicodeDecodeError) as error:
            raise NotPlannable(f"metadata could not be understood: {error}", FileTrouble.UNREADABLE) from error
        if found != self.query:
            raise NotPlannable(f"query {found} works there now, not {self.query}", FileTrouble.CHANGED)

    def pin(self, ticket: Ticket, files: Many[WorkFile]) -> bool:
        """A pin is a link beside the directory."""
        return False

    def unpin(self, ticket: Ticket) -> None:
        pass

    def copy(self, shards: Many[ShardPlan], blobs: Blobs, cancelled: Callable[[], bool]) -> tuple[ShardCopy, ...]:
        """The query may run on this machine, and goes first."""
        return in_the_background(lambda: copy_shards(self.files, shards, blobs, cancelled))

    def ledger(self) -> tuple[StagedBatch, ...]:
        return ()

    def prune_ledger(self, published: BatchId) -> None:
        pass

    def drop_ledger_after(self, batch: BatchId | None) -> None:
        pass

    def names(self, folder: str = "") -> list[str]:
        return self.files.names(folder)

    def read(self, path: str) -> bytes:
        return self.files.read(path)

    def pieces(self, path: str) -> Iterator[bytes]:
        return pieces_of(self.files, path)

    def write_atomic(self, path: str, data: bytes) -> None:
        raise _only_read(self, f"write {path}")

    def remove(self, path: str) -> None:
        raise _only_read(self, f"remove {path}")

    def set_aside(self, why: str) -> None:
        raise _only_read(self, "set it aside")


def _only_read(directory: ProtectedDirectory, what: str) -> AssertionError:
    return AssertionError(f"{directory.location} is somebody else's: it is only read; refused to {what}")
