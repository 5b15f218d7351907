"""Reads all jobs of a home again and again, at a bounded cost: entries of a journal are read once.

A round costs one listing of the home and, per job, one listing of the end of its journal and one read of its heartbeat,
besides one read per new entry; once a minute one more, for when its checkpoints were verified. Whether the newest
checkpoint is complete is looked at when the journal has changed. Jobs are read side by side, a bounded number at once.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from holdfast.checkpoint.manifest import decode_manifest, manifest_key
from holdfast.cli.observing import damage_in, observe, with_liveness
from holdfast.errors import HoldfastError
from holdfast.identifiers import CheckpointId, Digest
from holdfast.repository.jobs import is_job
from holdfast.repository.journal import read_entries, read_entries_after
from holdfast.repository.last_verified import LastVerified, read_last_verified
from holdfast.repository.state import JobState
from holdfast.repository.views import Observation
from holdfast.storage.interface import ObjectStore
from holdfast.storage.metered import Meter, MeteredStore
from holdfast.storage.urls import is_local, open_store


@dataclass(frozen=True)
class _Pace:
    jobs: int
    """How many are read at once."""
    entries: int
    """Of one job."""


_LOCAL = _Pace(jobs=2, entries=1)
_REMOTE = _Pace(jobs=16, entries=4)
"""A request takes as long as its way there and back: up to 64 are under way."""
NONSENSE = (ValueError, TypeError, ArithmeticError)
"""What documents may raise that are sealed, and yet hold a year 1 or a number beyond all numbers."""
_VERIFIED_EVERY = timedelta(minutes=1)
"""How often it is read when checkpoints were verified."""


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
    read: int = 0
    """How many of the names in the home have been read, during the first round."""
    names: int = 0

    @property
    def is_first(self) -> bool:
        """Whether the home is being read for the first time."""
        return self.at is None and self.failure is None


@dataclass
class _Known:
    state: JobState
    damaged: Mapping[CheckpointId, str]
    verified: LastVerified
    verified_at: datetime
    """When that was read."""


@dataclass(frozen=True)
class _NameRead:
    """What became of one name in the home."""

    name: str
    seen: Observation | None = None
    known: _Known | None = None
    failure: str | None = None


class HomeReader:
    def __init__(self, home: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.home = home
        self.meter = Meter()
        self._now = now
        self._root: ObjectStore = MeteredStore(open_store(home), self.meter)
        self._known: dict[str, _Known] = {}
        self.latest = HomeReading(home, None, {})
        """Any thread may read it."""
        self.on_progress: Callable[[], None] = lambda: None
        """Called during the first round, with every name that was read."""
        self._pace = _LOCAL if is_local(home) else _REMOTE

    def refresh(self) -> HomeReading:
        """One round; by one thread at a time. Raises nothing that concerns the home."""
        try:
            names = list(self._root.children())
        except HoldfastError as error:
            return self._failed(error)
        found = sorted(self._read_all(names), key=lambda each: each.name)
        unreadable = {each.name: each.failure for each in found if each.failure is not None}
        if unreadable:
            try:
                self._root.children()  # the home may have gone during the round: then no job is to blame
            except HoldfastError as error:
                return self._failed(error)
        self._known = {each.name: each.known for each in found if each.known is not None}
        jobs = {each.name: each.seen for each in found if each.seen is not None}
        self.latest = HomeReading(self.home, self._now(), jobs, unreadable)
        return self.latest

    def contents(self, job: str, manifest: Digest) -> Mapping[str, tuple[int, int]]:
        """Of a checkpoint, by shard: bytes and files. Raises `StorageError` or `Corrupt`. Any thread may call it."""
        found = decode_manifest(self._root.scoped(job).get(manifest_key(manifest)), manifest)
        return {shard.id: (sum(file.size for file in shard.files), len(shard.files)) for shard in found.shards}

    def _read_all(self, names: list[str]) -> Iterator[_NameRead]:
        with ThreadPoolExecutor(self._pace.jobs, "holdfast-home") as pool:
            for number, done in enumerate(as_completed(pool.submit(self._read, name) for name in names), 1):
                yield done.result()
                if self.latest.is_first:
                    self.latest = replace(self.latest, read=number, names=len(names))
                    self.on_progress()

    def _failed(self, error: HoldfastError) -> HomeReading:
        before = self.latest
        since = before.failing_since or self._now()
        self.latest = HomeReading(self.home, before.at, before.jobs, before.unreadable, error.message, since)
        return self.latest

    def _read(self, name: str) -> _NameRead:
        """On a thread of its own."""
        try:
            if name not in self._known and not is_job(self._root, name):
                return _NameRead(name)
            return self._read_job(name)
        except HoldfastError as error:
            return _NameRead(name, failure=error.message)
        except NONSENSE as error:
            return _NameRead(name, failure=f"what its home says makes no sense: {error}")

    def _read_job(self, name: str) -> _NameRead:
        store = self._root.scoped(name)
        known = self._known.get(name)
        state = self._newer(store, known.state) if known else JobState.of(read_entries(store, self._pace.entries))
        damaged = known.damaged if known and known.state is state else damage_in(store, state)
        seen = observe(self.home, name, store, state)
        kept = {entry.id for entry in state.restorable()}
        damaged_and_kept = {id: why for id, why in damaged.items() if id in kept}
        verified, verified_at = self._verified(store, known)
        seen = with_liveness(replace(seen, damaged=damaged_and_kept, verified=verified))
        return _NameRead(name, seen, _Known(state, damaged, verified, verified_at))

    def _verified(self, store: ObjectStore, known: _Known | None) -> tuple[LastVerified, datetime]:
        now = self._now()
        if known is not None and now - known.verified_at < _VERIFIED_EVERY:
            return known.verified, known.verified_at
        return read_last_verified(store), now

    def _newer(self, store: ObjectStore, state: JobState) -> JobState:
        for entry in read_entries_after(store, state.head):
            state = state.after(entry)
        return state
