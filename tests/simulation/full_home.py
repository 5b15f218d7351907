"""The home of a job, as it was left, on a disk that is full to the last byte: a person frees it with `collect`.

On a copy, outside of the simulated time: what it finds depends on the world, and changes nothing in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

from holdfast.errors import StorageFull
from holdfast.identifiers import AttemptId
from holdfast.repository import reserve
from holdfast.repository.entries import Process, Retention
from holdfast.repository.survey import look, plan_collection
from holdfast.runtime.commands.maintenance import maintenance
from holdfast.runtime.run.environment import Environment
from holdfast.runtime.upkeep.freeing import append_retirement, clear, fold, free
from holdfast.storage.interface import Created
from holdfast.storage.limited import Allowance
from tests.simulation.copies import JOB, DictStore

_NO_LIMIT = 1e9


@dataclass
class FullStore(DictStore):
    """An object is written beside the one that it replaces, as file systems do."""

    space: int = 0

    def create(self, key: str, data: bytes) -> Created:
        if key in self.objects:
            return Created.LOST
        self.put(key, data)
        return Created.WON

    def put(self, key: str, data: bytes) -> None:
        if len(data) > self.space:
            raise StorageFull(f"could not write {key}: no space left")
        self.delete(key)
        self.space -= len(data)
        self.objects[key] = data

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        self.put(key, b"".join(chunks))

    def delete(self, key: str) -> None:
        self.space += len(self.objects.pop(key, b""))


@dataclass
class _Clock:
    """Moves only while somebody waits."""

    began: datetime
    waited: float = 0.0

    def monotonic(self) -> float:
        return self.waited

    def wall(self) -> datetime:
        return self.began + timedelta(seconds=self.waited)

    def sleep(self, seconds: float) -> None:
        self.waited += seconds


def not_freed(objects: dict[str, bytes], now: datetime) -> str | None:
    """What is wrong with what `collect` does there when one checkpoint is to be kept; None when it is as it should
    be."""
    if reserve.KEY not in objects:
        return "the run that owned the home has left no reserve"
    store, clock, attempts = FullStore("memory://full", dict(objects)), _Clock(now), count()
    around = Environment(
        clock,
        Process("desk", 2),
        lambda: AttemptId(f"collect-{next(attempts)}"),
        lambda: 0.5,
        lambda step: None,
        1,
        sleep=clock.sleep,
    )
    found = look(store)
    try:
        with maintenance(JOB, store.url, store, "collect", around, on_conflict="takeover") as journal:
            plan = plan_collection(store, found, journal.state, Retention(retained=1), clock.wall())
            append_retirement(journal, plan.retire)
            freed = free(store, plan.objects, Allowance(_NO_LIMIT), lambda done: None, journal.require_standing)
            fold(journal, 0.0, clock.wall())
            clear(store, journal)
    except StorageFull as error:
        return f"a full home cannot be freed: {error.message}"
    left = [item.key for item in plan.objects if not item.wait_s and item.key in store.objects]
    return f"{left[0]} is left in a full home: {freed.failed}" if left else None
