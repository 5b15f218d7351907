"""Reads the journal as a chain of entries that prove each other, or refuses it.

The entries after the newest official fold have no gap: each names its predecessor and the digest of its predecessor's
bytes. The owner deletes only entries that a fold replaces. So an empty place is the end, which a listing and a read of
the next place both confirm; or a newer fold covers it, which the reader then finds; or the home has lost the entry.

The reader lists and reads again when a key is listed but cannot be read. One "not found" decides nothing. The reader
ignores names that are not names of entries.

An entry that is listed may be read from a copy (`recent.py`) if the entry after it names the digest of that copy: then
its bytes are those that were appended. The newest entry of a listing is always read from its own place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from holdfast.checkpoint.manifest import digest_of
from holdfast.errors import DamagedJournal, ObjectNotFound, StorageUnreachable
from holdfast.identifiers import Sequence
from holdfast.repository.absence import is_listed
from holdfast.repository.entries import CHAINED_SINCE, AnyEntry, JournalFolded, RunStarted
from holdfast.repository.entry_bytes import StoredEntry, damaged_entry, decode_entry, decode_fold
from holdfast.repository.names import FOLDS, JOURNAL, is_entry, is_fold
from holdfast.repository.recent import read_recent
from holdfast.storage.interface import ObjectStore, StoredObject
from holdfast.storage.retrying import patience_of, pauses

READERS = 64
"""How many entries are read in parallel: they are small and many, and a remote store has a latency for each."""
_CHANGES = 50
"""How often the journal may change while it is read; the deletions of a fold come to an end."""
_CONTRADICTIONS = 5
"""How often a listed key is read again on a store that does not retry by itself."""


def entry_key(sequence: int) -> str:
    return f"{JOURNAL}{sequence:020d}.json"


def fold_key(upto: int) -> str:
    return f"{FOLDS}{upto:020d}.json"


def sequence_of(key: str) -> Sequence:
    """Of an entry or a fold."""
    return Sequence(int(key.rpartition("/")[2].removesuffix(".json")))


@dataclass(frozen=True)
class StoredFold:
    key: str
    data: bytes


@dataclass(frozen=True)
class Chain:
    entries: tuple[StoredEntry, ...]
    """What is left of the history, oldest first."""
    fold: StoredFold | None

    @property
    def tip(self) -> StoredEntry | None:
        return self.entries[-1] if self.entries else None


class _Unsettled(Exception):
    """Something is wrong, perhaps because the journal changed while it was read."""

    def __init__(self, key: str, *, listed: bool, verdict: DamagedJournal | StorageUnreachable) -> None:
        super().__init__(key)
        self.finding = (key, listed)
        self.listed = listed
        self.verdict = verdict


def read_chain(store: ObjectStore, readers: int = READERS, ignoring: str = "", *, copies: bool = True) -> Chain:
    """The whole journal, proved. `ignoring` is a key that is not read. Without `copies` each entry is read from its own
    place, which also proves that none is damaged there.

    Raises `DamagedJournal` when the home has lost or changed something, `StorageUnreachable` when it contradicts
    itself until the deadline.
    """
    reading = _Reading(store, readers, ignoring, copies=copies)
    waits, found, contradictions = pauses(patience_of(store)), None, 0
    for _ in range(_CHANGES):
        try:
            return reading.look()
        except _Unsettled as unsettled:
            if unsettled.finding == found and not unsettled.listed:
                raise unsettled.verdict from None
            if unsettled.finding == found and next(waits, StopIteration) is StopIteration:
                contradictions += 1
                if contradictions == _CONTRADICTIONS:
                    raise unsettled.verdict from None
            found = unsettled.finding
    raise StorageUnreachable(f"could not read the journal of {store.url}: it changed each time", hint="try again")


def read_entries(store: ObjectStore, readers: int = READERS) -> Iterator[AnyEntry]:
    """Every entry that is left, oldest first."""
    yield from (stored.entry for stored in read_chain(store, readers).entries)


def read_entries_after(store: ObjectStore, sequence: Sequence) -> Iterator[AnyEntry]:
    """Entries after `sequence`, oldest first, for callers that poll. Entries that a fold has dropped since are
    missing."""
    keys = [item.key for item in store.list(JOURNAL, after=entry_key(sequence)) if is_entry(item.key)]
    found: list[StoredEntry] = []
    for key in keys:
        try:
            found.append(read_stored(store, key))
        except ObjectNotFound:
            break
    whole = len(found) == len(keys) and _is_unbroken(found, sequence) and _follows_what_stands(store, found)
    entries: Iterable[StoredEntry] = found if whole else read_chain(store, readers=1).entries
    yield from (stored.entry for stored in entries if stored.sequence > sequence)


def _is_unbroken(found: list[StoredEntry], sequence: Sequence) -> bool:
    begins = not found or found[0].entry.previous <= sequence
    return begins and all(missing_between(*pair) is None for pair in pairwise(found))


def _follows_what_stands(store: ObjectStore, found: list[StoredEntry]) -> bool:
    """Else they may be of a run that has not noticed yet that the home is another one."""
    if not found or not found[0].entry.previous:
        return True
    try:
        before = read_stored(store, entry_key(found[0].entry.previous))
    except ObjectNotFound:
        return False
    return before.digest == found[0].entry.previous_digest


class Survey(NamedTuple):
    sound: list[AnyEntry]
    damaged: dict[str, DamagedJournal]
    """Key → what is wrong, also of entries and folds that are missing."""


def survey_entries(store: ObjectStore) -> Survey:
    """What can be read, and the keys of what cannot. For inspecting a damaged home; no decision may rest on it."""
    survey = Survey([], {})
    try:
        survey.sound.extend(stored.entry for stored in read_chain(store, copies=False).entries)
        return survey
    except DamagedJournal:
        pass
    entries = _readable(store, [item.key for item in store.list(JOURNAL) if is_entry(item.key)], survey)
    folds = [stored.entry for stored in entries if isinstance(stored.entry, JournalFolded)]
    if folds:
        entries = [*_readable_fold(store, folds[-1], survey), *(e for e in entries if e.sequence > folds[-1].upto)]
    before: StoredEntry | None = None
    for stored in entries:
        _survey_link(before, stored, survey)
        before = stored
    survey.sound.extend(stored.entry for stored in entries)
    return survey


def _readable(store: ObjectStore, keys: list[str], survey: Survey) -> list[StoredEntry]:
    def read(key: str) -> StoredEntry | DamagedJournal | None:
        try:
            return read_stored(store, key)
        except DamagedJournal as error:
            return error
        except ObjectNotFound:
            return None

    with ThreadPoolExecutor(READERS) as pool:
        found = list(zip(keys, pool.map(read, keys), strict=True))
    survey.damaged.update({key: item for key, item in found if isinstance(item, DamagedJournal)})
    return [item for _, item in found if isinstance(item, StoredEntry)]


def _readable_fold(store: ObjectStore, official: JournalFolded, survey: Survey) -> list[StoredEntry]:
    key = fold_key(official.upto)
    try:
        return list(decode_fold(key, store.get(key)))
    except DamagedJournal as error:
        survey.damaged[key] = error
    except ObjectNotFound:
        survey.damaged[key] = _lost(key)
    return []


def _survey_link(before: StoredEntry | None, stored: StoredEntry, survey: Survey) -> None:
    key = entry_key(stored.sequence)
    try:
        missing = missing_between(before, stored)
    except DamagedJournal as error:
        survey.damaged[key] = error
        return
    if missing is not None and entry_key(missing) not in survey.damaged:
        survey.damaged[entry_key(missing)] = _lost(entry_key(missing))


class _Reading:
    """One reading of the journal. What was read once is not read again: entries do not change."""

    def __init__(self, store: ObjectStore, readers: int, ignoring: str, *, copies: bool) -> None:
        self._store = store
        self._readers = readers
        self._ignoring = ignoring
        self._copies = copies
        self._known: dict[str, StoredEntry] = {}

    def look(self) -> Chain:
        listed = [item for item in self._store.list(JOURNAL) if is_entry(item.key) and item.key != self._ignoring]
        keys = [item.key for item in listed]
        copied = self._copied(listed)
        self._read([key for key in keys if key not in self._known and key not in copied])
        self._known |= _proved_copies(keys, self._known, copied)
        self._read([key for key in copied if key not in self._known])
        found = [self._known[key] for key in keys if key in self._known]
        official = next((e.entry for e in reversed(found) if isinstance(e.entry, JournalFolded)), None)
        upto = official.upto if official else Sequence(0)
        for key in keys:
            if key not in self._known and sequence_of(key) > upto:
                raise _contradiction(self._store, key)
        fold, entries = self._fold(official)
        for stored in found:
            if stored.sequence > upto:
                self._require_follows(entries[-1] if entries else None, stored)
                entries.append(stored)
        self._read_on(entries)
        if not entries:
            self._require_no_fold()
        return Chain(tuple(entries), fold)

    def _copied(self, listed: list[StoredObject]) -> dict[str, StoredEntry]:
        """Unproved copies of entries that are not known yet, but not of the newest."""
        sizes = {item.key: item.size for item in listed[:-1] if item.key not in self._known}
        copies = read_recent(self._store, len(sizes)) if self._copies else ()
        found = ((entry_key(copy.sequence), copy) for copy in copies)
        return {key: copy for key, copy in found if sizes.get(key) == len(copy.data)}

    def _read(self, keys: list[str]) -> None:
        if self._readers == 1 or len(keys) < 2:
            found: Iterable[StoredEntry | None] = map(self._read_if_there, keys)
            self._known.update({key: stored for key, stored in zip(keys, found, strict=True) if stored})
            return
        with ThreadPoolExecutor(self._readers) as pool:
            found = pool.map(self._read_if_there, keys)
            self._known.update({key: stored for key, stored in zip(keys, found, strict=True) if stored})

    def _read_if_there(self, key: str) -> StoredEntry | None:
        try:
            return read_stored(self._store, key)
        except ObjectNotFound:
            return None

    def _fold(self, official: JournalFolded | None) -> tuple[StoredFold | None, list[StoredEntry]]:
        if official is None:
            return None, []
        key = fold_key(official.upto)
        try:
            data = _proved_fold(self._store, key, official)
        except ObjectNotFound:
            if is_listed(self._store, key):
                raise _contradiction(self._store, key) from None
            raise _Unsettled(key, listed=False, verdict=_lost(key)) from None
        entries = list(decode_fold(key, data))
        if not entries or entries[-1].sequence != official.upto:
            raise damaged_entry(key, f"it does not end with entry {official.upto}")
        return StoredFold(key, data), entries

    def _require_follows(self, before: StoredEntry | None, stored: StoredEntry) -> None:
        missing = missing_between(before, stored)
        if missing is not None:
            key = entry_key(missing)
            raise _Unsettled(key, listed=False, verdict=_lost(key))

    def _read_on(self, entries: list[StoredEntry]) -> None:
        """The journal ends here by the listing. The next place must be empty too."""
        while True:
            key = entry_key(next_place(entries[-1].entry if entries else None))
            stored = None if key == self._ignoring else self._read_if_there(key)
            if stored is None:
                return
            self._require_follows(entries[-1] if entries else None, stored)
            entries.append(stored)

    def _require_no_fold(self) -> None:
        """A new job has neither entries nor folds."""
        key = next((item.key for item in self._store.list(FOLDS) if is_fold(item.key)), None)
        if key is not None:
            why = f"could not read the journal of {self._store.url}: {key} stands for entries, and no entry is left"
            raise _Unsettled(key, listed=False, verdict=DamagedJournal(why, hint=_PUT_BACK))


def _proved_copies(
    keys: list[str], known: Mapping[str, StoredEntry], copied: Mapping[str, StoredEntry]
) -> dict[str, StoredEntry]:
    """Those whose digest the entry after them names, which is known or proved itself."""
    proved: dict[str, StoredEntry] = {}
    after: StoredEntry | None = None
    for key in reversed(keys):
        stored, copy = known.get(key), copied.get(key)
        if stored is None and copy is not None and after is not None and copy.digest == after.entry.previous_digest:
            stored = proved[key] = copy
        after = stored
    return proved


_PUT_BACK = "nothing was changed; put back what is missing from a copy of the home; holdfast verify names all of it"


def _lost(key: str) -> DamagedJournal:
    what = f"entry {sequence_of(key)}" if is_entry(key) else key
    return DamagedJournal(f"could not read the journal: {what} is missing; the home has lost it", hint=_PUT_BACK)


def _contradiction(store: ObjectStore, key: str) -> _Unsettled:
    verdict = StorageUnreachable(
        f"could not read {store.url}/{key}: it is listed, but every read reports that it does not exist",
        hint="try again later; if it persists, ask the administrators of the storage",
    )
    return _Unsettled(key, listed=True, verdict=verdict)


def next_place(entry: AnyEntry | None) -> Sequence:
    """The place of the entry that follows this one."""
    if entry is None:
        return Sequence(1)
    jump = entry.next_sequence if isinstance(entry, RunStarted) else None
    return Sequence(max(entry.sequence + 1, jump or 0))


def missing_between(before: StoredEntry | None, after: StoredEntry) -> Sequence | None:
    """The entry that is missing before `after`, None when `after` follows `before`. Raises `DamagedJournal` when it
    never can.

    Entries of format 1 have no links: entries between two of them may have been trimmed.
    """
    entry, key = after.entry, entry_key(after.sequence)
    if entry.format < CHAINED_SINCE:
        if before is not None and before.entry.format >= CHAINED_SINCE:
            raise damaged_entry(key, f"it has format {entry.format}, after one of format {before.entry.format}")
        return None
    standing = before.sequence if before is not None else Sequence(0)
    if standing < entry.previous:
        return entry.previous
    if standing > entry.previous:
        raise damaged_entry(key, f"it was written after entry {entry.previous}, and now follows {standing}")
    if before is not None and before.digest != entry.previous_digest:
        raise damaged_entry(key, f"it was written after another entry {standing} than the one that is there")
    if entry.sequence != next_place(before.entry if before is not None else None):
        raise damaged_entry(key, f"it is not in the place after entry {standing}")
    return None


def read_stored(store: ObjectStore, key: str) -> StoredEntry:
    """Reads twice before it reports damage, which stops everything: a wrong read does not prove wrong bytes in the
    store."""
    try:
        return _decoded(key, store.get(key))
    except DamagedJournal:
        return _decoded(key, store.get(key))


def _decoded(key: str, data: bytes) -> StoredEntry:
    entry = decode_entry(key, data)
    if entry_key(entry.sequence) != key:
        raise damaged_entry(key, f"it says it is entry {entry.sequence}")
    return StoredEntry(entry, data)


def _proved_fold(store: ObjectStore, key: str, official: JournalFolded) -> bytes:
    for _ in range(2):
        data = store.get(key)
        found = digest_of(data)
        if found == official.digest:
            return data
    raise damaged_entry(key, f"its bytes have digest {found}, entry {official.sequence} says {official.digest}")
