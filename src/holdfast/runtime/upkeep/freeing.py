"""Performs a planned collection while no pipeline runs. The caller owns the job."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime

from holdfast.errors import Fenced, StorageError
from holdfast.identifiers import CheckpointId
from holdfast.repository.collection import Unneeded, Why
from holdfast.repository.deletion_queue import objects_first
from holdfast.repository.entries import CheckpointsRetired
from holdfast.repository.folding import clear_folded, guard_of
from holdfast.repository.fresh_proof import FreshProof
from holdfast.repository.journal import Journal
from holdfast.repository.overtaking import require_unchanged
from holdfast.repository.retention import in_grace, plan_fold
from holdfast.repository.state import JobState
from holdfast.runtime.clock import SystemClock
from holdfast.storage.interface import ObjectStore
from holdfast.storage.limited import Allowance, LimitedStore

_DELETERS = 8
_SLICE = 200
"""Deletions that are begun together: so many may still look at the home when it is another one."""

Progress = Callable[[int], None]
Look = Callable[[], None]
"""Raises `Fenced` when a newer run owns the job, `HomeReplaced` when this is another home."""


@dataclass
class Freed:
    objects: int = 0
    bytes: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """Key → why it could not be deleted."""


def append_retirement(journal: Journal, ids: tuple[CheckpointId, ...]) -> None:
    if ids:
        journal.append(lambda stamp: CheckpointsRetired(**stamp, ids=ids))


def fold(journal: Journal, grace_s: float, now: datetime) -> bool:
    """Fold the journal when that is worthwhile; returns whether it did. Then the replaced entries can be deleted."""
    plan = plan_fold(journal.state, in_grace(journal.state, grace_s, now))
    if plan is not None:
        journal.fold(plan.dropped, plan.answers_lost_upto)
    return plan is not None


def clear(store: ObjectStore, journal: Journal) -> None:
    """Delete the entries that the newest fold replaces. Raises what `Look` raises: in a home that was restored from a
    backup, they may be all there is."""
    if (folded := journal.state.folded) is not None:
        clear_folded(store, folded.upto, guard=guard_of(journal.state), prove=_fresh(journal.require_standing).renew)


def free_without_owning(
    store: ObjectStore, state: JobState, objects: Iterable[Unneeded], allowance: Allowance, progress: Progress
) -> Freed:
    """For a home so full that not even a claim can be written: deletes what needs no entry.

    When the newest run has ended, no run can still reference what it left or retired; a run that starts meanwhile
    references only what retained checkpoints name. When it has not ended, only leftovers of dead writers are deleted.
    In a home that was restored from a copy since `state` was read, nothing is deleted.
    """
    ready = [item for item in objects if not item.wait_s]
    harmless = ready if state.ended is not None else [item for item in ready if item.why is Why.TEMPORARY]
    return free(store, harmless, allowance, progress, lambda: require_unchanged(store, state))


def free(
    store: ObjectStore, objects: Iterable[Unneeded], allowance: Allowance, progress: Progress, look: Look
) -> Freed:
    """Delete these, no faster than allowed; one that cannot be deleted does not block the others.

    Raises what `look` raises. A newer run could not be harmed: that check only lets it proceed sooner.
    """
    freed, proof = Freed(), _fresh(look)
    paced = LimitedStore(store, requests=allowance)
    ordered = sorted(objects, key=lambda item: objects_first(item.key))
    with ThreadPoolExecutor(_DELETERS, thread_name_prefix="collect") as pool:
        for start in range(0, len(ordered), _SLICE):
            try:
                _free_some(pool, paced, ordered[start : start + _SLICE], proof, freed, progress)
            except Fenced as error:
                hint = "that run continues the collection"
                raise Fenced(f"could not continue the collection: {error.message}", hint=hint) from error
    return freed


def _fresh(look: Look) -> FreshProof:
    return FreshProof(look, SystemClock().monotonic)


def _free_some(
    pool: ThreadPoolExecutor,
    store: ObjectStore,
    items: Sequence[Unneeded],
    proof: FreshProof,
    freed: Freed,
    progress: Progress,
) -> None:
    def delete(item: Unneeded) -> str | None:
        proof.renew()
        try:
            store.delete(item.key)
        except StorageError as error:
            return error.message
        return None

    for item, problem in zip(items, pool.map(delete, items), strict=True):
        progress(1)
        if problem is not None:
            freed.failed[item.key] = problem
        else:
            freed.objects += 1
            freed.bytes += item.size
