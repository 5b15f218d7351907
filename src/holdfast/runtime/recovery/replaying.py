"""A fall-back to an older checkpoint as a longer replay: no batch is cut anew, and no row is taken back from readers.

The checkpoint behind which the job would go back is restored, and the batches that followed it are repeated as they
were, from their plans. Those are in files of the newer checkpoints, each of which can be read without the rest: the
journal says where it is. Where a writer of the query's own or readers see each batch, they are also in objects of their
own. Where one is missing there is no replay: the newer checkpoints are passed over, and the sink is rewound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from holdfast.checkpoint.manifest import ManifestFile, manifest_key
from holdfast.checkpoint.packed_plans import packed_range
from holdfast.errors import Corrupt, NewerFormat, ObjectNotFound, StorageError, StorageUnreachable
from holdfast.identifiers import BatchId, CheckpointId
from holdfast.job_log import log
from holdfast.plans.log import PlanLog
from holdfast.plans.packing import decode_packed
from holdfast.plans.plan import Plan
from holdfast.repository.absence import absent_among
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.journal import Journal
from holdfast.repository.lines import line_folder
from holdfast.repository.state import JobState
from holdfast.storage.interface import ObjectStore

Found = TypeVar("Found")
Shown = Callable[[], BatchId | None]
"""The newest batch that readers see."""
FilesOf = Callable[[CheckpointId], tuple[ManifestFile, ...]]
ReadFile = Callable[[ManifestFile], bytes]
"""Both raise `Corrupt` or `StorageError`."""
_TRIES = 3


@dataclass(frozen=True)
class Replay:
    plans: tuple[Plan, ...]
    """Of the batches behind the restored checkpoint, without a gap."""
    durable: BatchId
    """The newest batch that readers see, or that was in a checkpoint."""
    damaged: Mapping[CheckpointId, str]
    """Newer checkpoints that cannot be used, with the reason. The batches before their barriers are repeated, so their
    timeline goes on."""
    passed_over: Mapping[CheckpointId, str]
    """Those behind what is repeated: the batches after that are cut anew."""

    @property
    def upto(self) -> BatchId:
        return self.plans[-1].batch_id


class Replaying:
    def __init__(
        self,
        *,
        store: ObjectStore,
        journal: Journal,
        files_of: FilesOf,
        read: ReadFile,
        shown: Shown | None,
        alone: bool = True,
    ) -> None:
        """`shown` is None for a writer of the user's own: it may have every batch that is planned. `alone`: plans also
        have objects of their own; else such objects are of an earlier run, and bind nobody."""
        self._alone = alone
        self._store = store
        self._journal = journal
        self._files_of = files_of
        self._read = read
        self._shown = shown
        self._unread: StorageError | None = None
        """Why plans that may be there could not be read."""

    def behind(self, chosen: CheckpointCompleted, unusable: Mapping[CheckpointId, str]) -> Replay | None:
        """How the job gets from the chosen checkpoint to where it was, without the newer ones; None when it cannot, or
        need not."""
        state = self._journal.state
        target = self._target(state, unusable)
        if target is None or target <= chosen.barrier_batch_id or _is_rescaled_since(state, chosen):
            return None
        plans = self._plans(state, chosen, target, [state.completed[id].barrier_batch_id for id in unusable])
        if not plans or plans[-1].batch_id < target:
            if self._unread is not None:
                raise self._blocked(chosen, self._unread)
            log.warning("batches after checkpoint %s cannot be repeated: some of their plans are missing", chosen.id)
            return None
        reached = {id for id in unusable if state.completed[id].barrier_batch_id <= plans[-1].batch_id}
        return Replay(
            plans,
            target,
            {id: detail for id, detail in unusable.items() if id in reached},
            {id: detail for id, detail in unusable.items() if id not in reached},
        )

    def _target(self, state: JobState, unusable: Mapping[CheckpointId, str]) -> BatchId | None:
        if self._shown is not None:
            return self._shown()
        return max((state.completed[id].barrier_batch_id for id in unusable), default=None)

    def _plans(
        self, state: JobState, chosen: CheckpointCompleted, target: BatchId, barriers: Sequence[BatchId]
    ) -> tuple[Plan, ...]:
        """From the first batch behind the checkpoint on, without a gap; where holdfast writes, up to `target`, or to
        the last of the `barriers` of newer checkpoints that is reached.

        Where readers see each batch, what they do not see yet is repeated, too: then no new line begins. Its own plans
        could be left unfinished by a kill, and those of the line before count no more."""
        barrier = chosen.barrier_batch_id
        wanted = max((target, *barriers)) if self._alone else target
        found = self._packed(state, chosen, wanted)
        plans: list[Plan] = []
        while (plan := found.get(BatchId(barrier + 1 + len(plans)))) is not None:
            plans.append(plan)
        after = plans[-1].batch_id if plans else barrier
        if after < wanted and self._alone:
            plans += PlanLog(self._store, line_folder(state)).behind(after).plans
        if self._shown is not None:
            reached = [batch for batch in barriers if self._alone and plans and batch <= plans[-1].batch_id]
            upto = max((target, *reached))
            return tuple(plan for plan in plans if plan.batch_id <= upto)
        # By another id of the query a sink knows the batches of another line.
        return tuple(plans) if len({plan.metadata for plan in plans}) == 1 else ()

    def _blocked(self, chosen: CheckpointCompleted, error: StorageError) -> StorageError:
        """What cannot be read now may be readable later: rows are not taken back for that."""
        return type(error)(
            f"could not find out how the batches after checkpoint {chosen.id} are repeated: {error.message}",
            hint="make it readable, and start again; or go back to that checkpoint, which takes back what readers "
            f"have seen since: --from-checkpoint {chosen.id}",
        )

    def _packed(self, state: JobState, chosen: CheckpointCompleted, target: BatchId) -> dict[BatchId, Plan]:
        """As the journal names them; where that is not enough, as the manifests of the newer checkpoints do."""
        newer = _newer(state, chosen)
        self._unread = None
        found: dict[BatchId, Plan] = {}
        read: set[str] = set()
        batches = range(chosen.barrier_batch_id + 1, target + 1)
        for files in chain((entry.packed for entry in newer), map(self._files, newer)):
            for file in files:
                wanted = file.digest not in read and _holds_later(file, chosen.barrier_batch_id)
                if wanted and (plans := self._opened(file)):
                    read.add(file.digest)
                    found |= {plan.batch_id: plan for plan in plans}
            if all(batch in found for batch in batches):
                break
        return found

    def _files(self, entry: CheckpointCompleted) -> tuple[ManifestFile, ...]:
        return self._readable(manifest_key(entry.manifest), lambda: self._files_of(entry.id)) or ()

    def _opened(self, file: ManifestFile) -> tuple[Plan, ...]:
        return self._readable(file.key, lambda: decode_packed(file.path, self._read(file))) or ()

    def _readable(self, key: str, read: Callable[[], Found]) -> Found | None:
        """Read a few times before it is called damaged: bytes that came wrong may lie right. None when it cannot be
        read; where that may pass, `_unread` says so."""
        for _ in range(_TRIES):
            try:
                return read()
            except (Corrupt, NewerFormat, StorageError) as error:
                failed = error
            if not isinstance(failed, Corrupt):
                break
        log.debug("the plans in %s cannot be read: %s", key, failed.message)
        gone = isinstance(failed, ObjectNotFound) or isinstance(failed.__cause__, ObjectNotFound)
        passing = self._contradiction(key) if gone else failed
        if isinstance(passing, StorageError):
            self._unread = passing
        return None

    def _contradiction(self, key: str) -> StorageError | None:
        """What one answer reports as missing is missing only when a listing agrees."""
        try:
            if not absent_among(self._store, [key]):
                return StorageUnreachable(f"a read reports {key} as missing, and it is there")
        except StorageError as error:
            return error
        return None


def _holds_later(file: ManifestFile, barrier: BatchId) -> bool:
    found = packed_range(file.path)
    return found is not None and found[1] > barrier


def _is_rescaled_since(state: JobState, chosen: CheckpointCompleted) -> bool:
    """The batches after that ran on another number of state partitions."""
    return any(entry.rescaled is not None for entry in _newer(state, chosen))


def _newer(state: JobState, chosen: CheckpointCompleted) -> list[CheckpointCompleted]:
    return [entry for entry in state.retained() if entry.id > chosen.id and entry.id not in state.abandoned]
