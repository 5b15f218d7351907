"""The plans of one line of batches, in the home.

Invariants
- A plan is created only if its place is free, and never changed. Who comes second runs what stands there.
- A create without an answer is tried again with the same bytes, and read back: `attempt` tells whose it is.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from holdfast.errors import Corrupt, ObjectNotFound, OutcomeUnknown, StorageUnreachable
from holdfast.identifiers import BatchId
from holdfast.plans.plan import Plan, decode_plan, encode_plan
from holdfast.repository.lines import batch_of, plan_key
from holdfast.repository.names import is_plan
from holdfast.storage.interface import Created, ObjectStore

_TRIES = 3


@dataclass(frozen=True)
class Standing:
    """What the home knows of the batches behind a barrier."""

    plans: tuple[Plan, ...]
    """From the first batch behind the barrier on, without a gap."""
    broken: str | None = None
    """What is wrong with the plan of the batch after them, though later ones are there; None when they are all."""


class PlanLog:
    def __init__(self, store: ObjectStore, folder: str, readers: int = 1) -> None:
        """`readers`: threads that read, 1 for none besides the caller's."""
        self._store = store
        self._folder = folder
        self._readers = readers

    @property
    def folder(self) -> str:
        return self._folder

    def create(self, plan: Plan) -> Plan:
        """The plan that stands from now on: this one, or the one that was there before. Raises `StorageError` when
        that cannot be told, `Corrupt` when what stands there is damaged."""
        key, data = plan_key(self._folder, plan.batch_id), encode_plan(plan)
        for tries_left in reversed(range(_TRIES)):
            try:
                outcome = self._store.create(key, data)
            except OutcomeUnknown:
                if not tries_left:
                    raise
                continue
            if outcome is Created.WON:
                return plan
            break
        standing = self._read(key)
        if isinstance(standing, Corrupt):
            raise standing
        return standing

    def behind(self, barrier: BatchId | None) -> Standing:
        """Raises `StorageError` when the home cannot be read now."""
        first = 0 if barrier is None else barrier + 1
        after = plan_key(self._folder, BatchId(first - 1)) if first else self._folder
        keys = [item.key for item in self._store.list(self._folder, after) if is_plan(item.key)]
        plans: list[Plan] = []
        expected = first
        for key, read in zip(keys, self._all(keys), strict=True):
            if batch_of(key) != expected:
                return Standing(tuple(plans), f"the home has no plan of batch {expected}, but one of {batch_of(key)}")
            if isinstance(read, Corrupt):
                return Standing(tuple(plans), read.message)
            plans.append(read)
            expected += 1
        # As for the journal: a listing may end early, so a read of the next place must miss it, too.
        while (unlisted := self._found(plan_key(self._folder, BatchId(expected)))) is not None:
            if isinstance(unlisted, Corrupt):
                return Standing(tuple(plans), unlisted.message)
            plans.append(unlisted)
            expected += 1
        return Standing(tuple(plans))

    def _all(self, keys: list[str]) -> list[Plan | Corrupt]:
        if self._readers == 1 or len(keys) < self._readers:
            return [self._read(key) for key in keys]
        with ThreadPoolExecutor(self._readers, thread_name_prefix="plans") as pool:
            return list(pool.map(self._read, keys))

    def _read(self, key: str) -> Plan | Corrupt:
        found = self._found(key)
        if found is None:
            raise StorageUnreachable(f"could not read the plan {key}: it is there, and cannot be read")
        return found

    def _found(self, key: str) -> Plan | Corrupt | None:
        """Read a few times before it is called damaged: bytes that came wrong may lie right. None when it is not
        there."""
        for tries_left in reversed(range(_TRIES)):
            try:
                plan = decode_plan(key, self._store.get(key))
            except ObjectNotFound:
                return None
            except Corrupt as error:
                if not tries_left:
                    return error
            else:
                return (
                    plan if plan.batch_id == batch_of(key) else Corrupt(f"the plan {key} is of batch {plan.batch_id}")
                )
        raise AssertionError("the last try returns")


@dataclass(frozen=True)
class Proved:
    """What a look at every plan of a line has found."""

    checked: int
    bytes: int
    damaged: dict[str, str]
    """Key → what is wrong."""


def prove_plans(store: ObjectStore, folder: str) -> Proved:
    """Reads all of them. One that vanishes meanwhile is not needed any more."""
    checked, size, damaged = 0, 0, {}
    for item in store.list(folder):
        if not is_plan(item.key):
            continue
        try:
            data = store.get(item.key)
        except ObjectNotFound:
            continue
        checked, size = checked + 1, size + len(data)
        try:
            decode_plan(item.key, data)
        except Corrupt as error:
            damaged[item.key] = error.message
    return Proved(checked, size, damaged)


def plan_batches(store: ObjectStore, folder: str) -> frozenset[BatchId]:
    """The batches of a line whose plans stand."""
    return frozenset(batch_of(item.key) for item in store.list(folder) if is_plan(item.key))


def newest_planned(store: ObjectStore, folder: str, after: BatchId) -> BatchId:
    """The newest batch up to which all behind `after` have plans, `after` when the next one has none. Reads none."""
    newest = after
    for item in store.list(folder, plan_key(folder, after)):
        if not is_plan(item.key):
            continue
        if batch_of(item.key) != newest + 1:
            break
        newest = batch_of(item.key)
    return newest


def copy_plans(source: ObjectStore, from_folder: str, target: ObjectStore, to_folder: str) -> None:
    """Brings the plans of a line to another home, where the line may have another number.

    A plan that stands at the target stays: that home may have gone on by itself.
    """
    there = plan_batches(target, to_folder)
    for item in source.list(from_folder):
        if not is_plan(item.key) or batch_of(item.key) in there:
            continue
        try:
            data = source.get(item.key)
        except ObjectNotFound:
            continue  # no recovery needs it any more
        decode_plan(item.key, data)
        target.create(plan_key(to_folder, batch_of(item.key)), data)
