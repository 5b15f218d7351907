"""Reads all jobs of a home again and again, at a bounded cost: entries of a journal are read once.

A round costs one listing of the home and, per job, one listing of the end of its journal and one read of its heartbeat,
besides one read per new entry. Whether the newest checkpoint is complete is looked at when the journal has changed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from holdfast.cli.observing import damage_in, is_job, observe, with_liveness
from holdfast.errors import HoldfastError
from holdfast.identifiers import CheckpointId
from holdfast.repository.journal import read_entries, read_entries_after
from holdfast.repository.state import JobState
from holdfast.repository.views import Observation
from holdfast.storage.interface import ObjectStore
from holdfast.storage.metered import Meter, MeteredStore
from holdfast.storage.urls import open_store


@dataclass(frozen=True)
class HomeReading:
    """What a home held at one moment. While the home does not answer, `jobs` are those of the last time it did."""

    home: str
    at: datetime | None
    """When the jobs were read; None before the first time."""
    jobs: Mapping[str, Observation]
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Jobs whose journal cannot be read, and why."""
    failure: str | None = None
    """Why the home could not be read the last time."""
    failing_since: datetime | None = None


@dataclass
class _Known:
    state: JobState
    damaged: Mapping[CheckpointId, str]


class HomeReader:
    def __init__(self, home: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.home = home
        self.meter = Meter()
        self._now = now
        self._root: ObjectStore = MeteredStore(open_store(home), self.meter)
        self._known: dict[str, _Known] = {}
        self.latest = HomeReading(home, None, {})
        """Any thread may read it."""

    def refresh(self) -> HomeReading:
        """One round; by one thread at a time. Raises nothing that concerns the home."""
        try:
            names = [name for name in self._root.children() if name in self._known or is_job(self._root, name)]
        except HoldfastError as error:
            return self._failed(error)
        jobs: dict[str, Observation] = {}
        unreadable: dict[str, str] = {}
        for name in names:
            try:
                jobs[name] = self._read(name)
            except HoldfastError as error:
                self._known.pop(name, None)
                unreadable[name] = error.message
        if unreadable:
            try:
                self._root.children()  # the home may have gone during the round: then no job is to blame
            except HoldfastError as error:
                return self._failed(error)
        for gone in self._known.keys() - set(names):
            del self._known[gone]
        self.latest = HomeReading(self.home, self._now(), jobs, unreadable)
        return self.latest

    def _failed(self, error: HoldfastError) -> HomeReading:
        before = self.latest
        since = before.failing_since or self._now()
        self.latest = HomeReading(self.home, before.at, before.jobs, before.unreadable, error.message, since)
        return self.latest

    def _read(self, name: str) -> Observation:
        store = self._root.scoped(name)
        known = self._known.get(name)
        state = self._newer(store, known.state) if known else JobState.of(read_entries(store))
        damaged = known.damaged if known and known.state is state else damage_in(store, state)
        self._known[name] = _Known(state, damaged)
        seen = observe(self.home, name, store, state)
        kept = {entry.id for entry in state.restorable()}
        return with_liveness(replace(seen, damaged={id: why for id, why in damaged.items() if id in kept}))

    def _newer(self, store: ObjectStore, state: JobState) -> JobState:
        for entry in read_entries_after(store, state.head):
            state = state.after(entry)
        return state
