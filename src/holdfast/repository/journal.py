"""The journal: one linear history of a job, the only place where truth is decided.

Invariants
- An entry is created with create-if-absent at the sequence number after the newest one known, and never changed.
- The first entry that is not one's own after one's own newest is always a newer `run-started`: only the owner appends.
  `run-started` entries are never trimmed, so a run that slept through any number of trims still loses its next append.
- Once fenced, always fenced: a run that has met a newer `run-started` appends nothing more, not even behind it.
- An append whose outcome stays unknown is settled, with the same bytes at the same place, before anything else is
  appended. So every entry is known as won or lost before the next one is tried, and none is written twice.
- Only one thread appends (a lane of the runtime).
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from holdfast.errors import DamagedJournal, Fenced, ObjectNotFound, OutcomeUnknown, StorageError
from holdfast.identifiers import AttemptId, FencingEpoch, Sequence
from holdfast.repository.entries import AnyEntry, RunStarted
from holdfast.repository.entry_bytes import damaged_entry, decode_entry, encode_entry
from holdfast.repository.state import JobState
from holdfast.storage.interface import Created, ObjectStore
from holdfast.storage.retrying import RetryingStore

PREFIX = "journal/"
READERS = 64
"""Entries are small and many, and a distant store takes its time for each: so many are read at once."""
_TRIES = 3
"""How often an append without an answer is tried, on a store that does not try again by itself."""

MakeEntry = Callable[[Sequence, AttemptId, datetime], AnyEntry]


def entry_key(sequence: int) -> str:
    return f"{PREFIX}{sequence:020d}.json"


def read_entries(store: ObjectStore, readers: int = READERS) -> Iterator[AnyEntry]:
    """Every entry that has not been trimmed, oldest first."""
    keys = [item.key for item in store.list(PREFIX)]
    if readers == 1 or len(keys) < 2:
        yield from (entry for key in keys if (entry := _read_if_there(store, key)))
        return
    with ThreadPoolExecutor(readers) as pool:
        yield from (entry for entry in pool.map(lambda key: _read_if_there(store, key), keys) if entry)


def survey_entries(store: ObjectStore) -> tuple[list[AnyEntry], dict[str, DamagedJournal]]:
    """What can be read, and the keys of what cannot. For looking at a damaged home; nobody may act upon it."""
    sound: list[AnyEntry] = []
    damaged: dict[str, DamagedJournal] = {}

    def read(key: str) -> AnyEntry | DamagedJournal | None:
        try:
            return _read_if_there(store, key)
        except DamagedJournal as error:
            return error

    keys = [item.key for item in store.list(PREFIX)]
    with ThreadPoolExecutor(READERS) as pool:
        for key, found in zip(keys, pool.map(read, keys), strict=True):
            if isinstance(found, DamagedJournal):
                damaged[key] = found
            elif found is not None:
                sound.append(found)
    return sound, damaged


def read_entries_after(store: ObjectStore, sequence: Sequence) -> Iterator[AnyEntry]:
    """What came since, oldest first; for those who look often."""
    keys = [item.key for item in store.list(PREFIX, after=entry_key(sequence))]
    yield from (entry for key in keys if (entry := _read_if_there(store, key)))


def _read_if_there(store: ObjectStore, key: str) -> AnyEntry | None:
    try:
        return _read(store, key)
    except ObjectNotFound:
        return None  # trimmed by the owner since it was listed


def _read(store: ObjectStore, key: str) -> AnyEntry:
    """Read twice before it is called damaged, which stops everything: bytes that came wrong may lie right."""
    try:
        return _decode(key, store.get(key))
    except DamagedJournal:
        return _decode(key, store.get(key))


def _decode(key: str, data: bytes) -> AnyEntry:
    entry = decode_entry(key, data)
    if entry_key(entry.sequence) != key:
        raise damaged_entry(key, f"it says it is entry {entry.sequence}")
    return entry


class Journal:
    """The writing side, held by one run."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        new_attempt: Callable[[], AttemptId],
        now: Callable[[], datetime],
        settled: Callable[[AnyEntry], None] = lambda entry: None,
        readers: int = READERS,
    ) -> None:
        """`settled` hears of an entry whose append ended unknown and which is in the journal after all."""
        self._store = store
        self._new_attempt = new_attempt
        self._now = now
        self._settled = settled
        # A store that tries again has done so for as long as an append may take.
        self._tries = 1 if isinstance(store, RetryingStore) else _TRIES
        self._readers = readers
        self._undecided: AnyEntry | None = None
        self._fenced: str | None = None
        self.state = JobState()

    def load(self) -> JobState:
        self.state = JobState.of(read_entries(self._store, self._readers))
        return self.state

    @property
    def fencing_epoch(self) -> FencingEpoch:
        return self.state.fencing_epoch

    @property
    def undecided(self) -> bool:
        """Whether it is not known if the last append took effect."""
        return self._undecided is not None

    def claim(self, make: MakeEntry) -> RunStarted:
        """Append `run-started` and so become the owner. Raises `Fenced` when another run claims at the same time."""
        while True:
            entry = make(Sequence(self.state.head + 1), self._new_attempt(), self._now())
            written = self._create(entry)
            if written.attempt == entry.attempt:
                break
            if isinstance(written, RunStarted):
                raise Fenced(_owner(written))
            self.state.apply(written)  # the owner's, appended since the load
        assert isinstance(entry, RunStarted)
        self.state.apply(entry)
        if any(self._store.list(PREFIX, after=entry_key(entry.sequence))):
            # Either a still newer run claimed, or the place was free only because it had been trimmed since the load.
            # The entry stays: a hole where a run-started stood would let a stalled run in.
            raise Fenced("the journal moved on while this run was claiming the job")
        return entry

    def append(self, make: MakeEntry) -> AnyEntry:
        """Append one entry as owner. Raises `Fenced` when another run owns the job by now, `OutcomeUnknown` when the
        store did not say whether the entry was written, another `StorageError` when it was not."""
        self.settle()
        return self._append(make)

    def _append(self, make: MakeEntry) -> AnyEntry:
        self._require_owner()
        entry = make(Sequence(self.state.head + 1), self._new_attempt(), self._now())
        return self._applied(entry, self._create(entry))

    def _create(self, entry: AnyEntry) -> AnyEntry:
        """The entry that stands at `entry`'s place after the attempt, which may be another's."""
        doubtful = entry is self._undecided
        last: StorageError | None = None
        for _ in range(self._tries):
            try:
                standing = self._try_create(entry)
            except StorageError as error:
                doubtful = doubtful or isinstance(error, OutcomeUnknown)
                if not doubtful:
                    raise
                last = error
            else:
                self._undecided = None
                return standing
        self._undecided = entry
        assert last is not None
        why = f"could not tell whether {entry_key(entry.sequence)} was written: {last.message}"
        raise OutcomeUnknown(why, hint=last.hint) from last

    def _try_create(self, entry: AnyEntry) -> AnyEntry:
        key = entry_key(entry.sequence)
        if self._store.create(key, encode_entry(entry)) is Created.WON:
            return entry
        try:
            return _read(self._store, key)
        except DamagedJournal:
            raise
        except StorageError as error:
            # Lost, but perhaps to an earlier try of one's own.
            raise OutcomeUnknown(f"{key} exists and could not be read back: {error.message}") from error

    def settle(self) -> None:
        """Make sure that no append is undecided. Raises what `append` raises."""
        entry = self._undecided
        if entry is None:
            return
        self._settled(self._applied(entry, self._create(entry)))

    def _applied(self, mine: AnyEntry, written: AnyEntry) -> AnyEntry:
        """`mine`, when it is what was written. Anything else in its place means that this run is not the owner."""
        if written.attempt != mine.attempt:
            foreign = f"entry {written.sequence} was written by run {written.fencing_epoch}"
            self._fenced = _owner(written) if isinstance(written, RunStarted) else foreign
            self._require_owner()
        self.state.apply(written)
        return written

    def _require_owner(self) -> None:
        if self._fenced is not None:
            raise Fenced(self._fenced)


def newer_run(store: ObjectStore, state: JobState) -> str | None:
    """Who has claimed the job since `state` was true, None when nobody has. Changes nothing; any thread may ask."""
    entry = _read_if_there(store, entry_key(state.head + 1))
    return _owner(entry) if isinstance(entry, RunStarted) and entry.sequence > state.fencing_epoch else None


_BY_COMMAND = "maintenance"


def is_of_maintenance(owner: str) -> bool:
    """Whether the text that names a newer owner names a command."""
    return owner.startswith(f"{_BY_COMMAND} ")


def _owner(entry: RunStarted) -> str:
    who = "run" if entry.purpose == "pipeline" else _BY_COMMAND
    at = entry.at.isoformat()
    return f"{who} {entry.fencing_epoch} on host {entry.host} (pid {entry.pid}) owns the job since {at}"
