"""The journal: the linear history of a job, which alone decides what is true. This is its writing side.

Invariants
- An entry is created with create-if-absent at the place after the newest one known, and never changed. It names its
  predecessor and the digest of its predecessor's bytes (`repository/chain.py` proves them).
- Only one thread appends (a lane of the runtime). An append whose outcome stays unknown is settled, with the same bytes
  at the same place, before anything else is appended. So every entry is known as won or lost before the next one is
  tried, and none is written twice.
- If the place holds an entry that this process has tried to write there, the entry is its own, even if the attempt was
  reported as failed. The run adopts it and appends after it. An entry of the same claim that this process has not tried
  to write comes from a duplicate: the machine was restored from a snapshot, or runs twice. Then this run ends.
- Once fenced, always fenced: a run that has read a newer `run-started` appends nothing more.
- Entries that a fold replaces are deleted in ascending order, and only after the entry that makes the fold official is
  in the journal.

Why a run that stalled, for however long, cannot append an entry that readers accept. Let h be its newest entry, so that
it tries to create h+1, and let a newer run have claimed the job since.
- That claim went to h+1, since nothing else followed h. While it is there, the stalled run loses its create, reads a
  newer `run-started`, and is fenced.
- It is deleted only if a fold covers h+1. Deletions ascend, so h is deleted before h+1: if h+1 is free because it was
  deleted, h is gone. So after each create that it won, the run proves by its bytes that h still exists. If h exists,
  nothing was ever at h+1 before. If not, the run reads the journal, finds the newer run, and is fenced.
- Readers ignore an entry in such a place: it is at or below the `upto` of an official fold, and readers begin after the
  newest of those. The next deletion removes it.
- A delayed attempt of the stalled run to create h could restore h, and the run would accept its h+1. No other process
  would, and the sink itself fences the run.

A run that claims has no entry of its own yet. It proves that the last entry it has read still exists, and that nothing
is listed after its claim. Either alone would do: if a fold made the place free, the fold's entry comes after it. It
also proves that all entries it has read are listed: the home may be emptied during the read, and the last entry may
come from a run that has not noticed.

A run of format 1 that stalled proves none of this. A claim that no fold deletes takes its next place, so it loses its
next append, as it did before folds existed. That claim is never a run's newest entry: a second one follows it.

The same proof detects a home that was emptied, replaced or restored from a backup during a run: h is gone, by a read
and by a listing, and the journal has no newer run. That is `HomeReplaced`; it ends when the home is put back. If a run
in that home has the same number or a newer one, this run stops. If the append of h was attempted twice, a delayed
attempt may write h, and only h, into that home; then the run proves the entry before h as well.
"""

from collections.abc import Callable
from copy import copy
from datetime import datetime

import msgspec

from holdfast.checkpoint.manifest import digest_of
from holdfast.errors import (
    DamagedJournal,
    Fenced,
    HoldfastError,
    HomeReplaced,
    OutcomeUnknown,
    StorageError,
    StorageFull,
)
from holdfast.identifiers import AttemptId, FencingEpoch, Sequence
from holdfast.repository.chain import (
    READERS,
    StoredFold,
    entry_key,
    fold_key,
    next_place,
    read_chain,
    read_entries,
    read_entries_after,
    read_stored,
    survey_entries,
)
from holdfast.repository.entries import (
    CHAINED_SINCE,
    FORMAT,
    AnyEntry,
    CheckpointsRetired,
    JournalFolded,
    RunEnded,
    RunStarted,
    Stamp,
)
from holdfast.repository.entry_bytes import StoredEntry, encode_fold, stored_entry
from holdfast.repository.home_proof import (
    home_replaced,
    is_whole,
    journal_without,
    put_back,
    stands,
    what_is_there,
    withdraw,
    withdraw_fold,
)
from holdfast.repository.names import FOLDS, is_fold
from holdfast.repository.names import JOURNAL as PREFIX
from holdfast.repository.overtaking import fenced_by, newer_run, owner_text
from holdfast.repository.recent import copy_recent
from holdfast.repository.reserve import release_reserve
from holdfast.repository.state import JobState
from holdfast.storage.interface import Created, ObjectStore
from holdfast.storage.retrying import RetryingStore, was_repeated

__all__ = [
    "PREFIX",
    "READERS",
    "Journal",
    "MakeEntry",
    "entry_key",
    "read_entries",
    "read_entries_after",
    "survey_entries",
]

_TRIES = 3
"""How often an append without an answer is attempted, on a store that does not retry by itself."""

_FREEING = (RunStarted, RunEnded, CheckpointsRetired, JournalFolded)
"""Freeing space needs these entries, so they may use the reserve."""

MakeEntry = Callable[[Stamp], AnyEntry]


class Journal:
    """The writing side, used by one run."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        new_attempt: Callable[[], AttemptId],
        now: Callable[[], datetime],
        settled: Callable[[AnyEntry], None] = lambda entry: None,
        readers: int = READERS,
    ) -> None:
        """`settled` is called with an entry whose append had an unknown outcome and which is in the journal after
        all."""
        self._store = store
        self._new_attempt = new_attempt
        self._now = now
        self._settled = settled
        # A store that retries has already done so for as long as an append may take.
        self._tries = 1 if isinstance(store, RetryingStore) else _TRIES
        self._readers = readers
        self._undecided: StoredEntry | None = None
        self._tried: set[AttemptId] = set()
        """Attempts to create the entry after the newest one."""
        self._repeated: set[Sequence] = set()
        """Entries whose append was attempted more than once: a delayed attempt may still take effect."""
        self._fenced: Fenced | None = None
        self._claim = AttemptId("")
        self._tip: StoredEntry | None = None
        self._stored: dict[Sequence, StoredEntry] = {}
        self._fold: StoredFold | None = None
        self._copied = Sequence(0)
        """The newest entry that was copied to `recent.py`'s object."""
        self._lost = False
        """This run's entries were gone at the last check."""
        self.moved_before_claim = False
        """The previous run appended an entry between the load and this run's claim."""
        self.state = JobState()

    def load(self) -> JobState:
        chain = read_chain(self._store, self._readers)
        self._stored = {stored.sequence: stored for stored in chain.entries}
        self._tip, self._fold = chain.tip, chain.fold
        self.state = JobState.of(stored.entry for stored in chain.entries)
        return self.state

    def owned(self, settled: Callable[[AnyEntry], None]) -> "Journal":
        """The same journal for the run whose claim this object made. This object is not used any more.

        The `settled` callback needs the number of the run, which the claim determines.
        """
        owned = copy(self)
        owned._settled = settled
        self._fenced = Fenced("the journal was handed over to the run")
        return owned

    @property
    def fencing_epoch(self) -> FencingEpoch:
        return self.state.fencing_epoch

    @property
    def undecided(self) -> bool:
        """Whether the outcome of the last append is unknown."""
        return self._undecided is not None

    def objects(self) -> dict[str, bytes]:
        """What must be in the home, key → bytes: the newest fold and the entries after it. Thread-safe."""
        fold, folded = self._fold, self.state.folded
        upto = folded.upto if folded else Sequence(0)
        entries = {entry_key(n): stored.data for n, stored in self._stored.copy().items() if n > upto}
        return entries | ({fold.key: fold.data} if fold and fold.key == fold_key(upto) else {})

    # --- claiming ---

    def claim(self, make: MakeEntry) -> RunStarted:
        """Append `run-started` and so become the owner. Raises `Fenced` when another run claims at the same time."""
        if self._tip is not None and self._tip.entry.format < CHAINED_SINCE:
            self._claim_place(_guarding(make))
        return self._claim_place(make)

    def _claim_place(self, make: MakeEntry) -> RunStarted:
        while True:
            mine = self._made(make, claiming=True)
            standing = self._create(mine)
            if standing.entry.attempt == mine.entry.attempt:
                break
            if isinstance(standing.entry, RunStarted):
                raise fenced_by(standing.entry)
            if not self._follows_the_tip(standing) or not (self._tip is None or stands(self._store, self._tip)):
                raise Fenced("the journal moved on while this run was claiming the job")
            self._apply(standing)  # the owner appended it since the load, in this same home
            self.moved_before_claim = True
        entry = mine.entry
        assert isinstance(entry, RunStarted)
        before, self._claim = self._tip, entry.attempt
        self._apply(mine)
        self._require_nothing_behind(mine, before)
        return entry

    def _require_nothing_behind(self, claim: StoredEntry, before: StoredEntry | None) -> None:
        """Otherwise a still newer run has claimed, or the place was free only because a fold has replaced it since the
        load."""
        is_same = (
            self._stands_behind_its_own(before)
            if before
            else not any(is_fold(item.key) for item in self._store.list(FOLDS))
        )
        is_same = is_same and is_whole(self._store, self.objects().keys())
        # Asked last: what is missing may have been folded by a run that claimed behind this one meanwhile. Then the
        # place of the claim must stay taken (seed 2588).
        behind = any(self._store.list(PREFIX, after=entry_key(claim.sequence)))
        if not behind and not is_same:
            withdraw(self._store, claim)
            raise HomeReplaced(
                f"could not claim the job in {self._store.url}: what was read before is not there any more",
                hint="put the home back, or check whether it is mounted, and start again",
            )
        if behind or not is_same:
            raise Fenced("the journal moved on while this run was claiming the job")

    def _stands_behind_its_own(self, newest: StoredEntry) -> bool:
        """A run that does not know yet that its home was replaced can have written the newest entry, and that one only,
        into the home that replaced it. So the entry before it must be there, too."""
        before = self._stored.get(newest.entry.previous)
        behind = before is None or self._is_folded(before) or stands(self._store, before)
        return behind and stands(self._store, newest)

    # --- appending ---

    def append(self, make: MakeEntry) -> AnyEntry:
        """Append one entry as owner. Raises `Fenced` when another run owns the job, `OutcomeUnknown` when the store did
        not confirm whether the entry was written, another `StorageError` when it was not."""
        self.settle()
        self._require_home()
        while True:
            self._require_owner()
            mine = self._made(make)
            standing = self._create(mine)
            if self._taken(mine, standing):
                return mine.entry
            self._settled(standing.entry)

    def _require_home(self) -> None:
        """While the home is known to be another one, the run writes nothing into it."""
        if self._lost and self._tip is not None:
            if not stands(self._store, self._tip) or not is_whole(self._store, self.objects().keys()):
                raise self._loss(self._undecided)
            self._lost = False

    def settle(self) -> None:
        """Resolve an append with an unknown outcome. Raises what `append` raises."""
        mine = self._undecided
        if mine is None:
            return
        self._require_home()
        standing = self._create(mine)
        self._taken(mine, standing)
        self._settled(standing.entry)

    def _made(self, make: MakeEntry, *, claiming: bool = False) -> StoredEntry:
        """The entry with its links. A claim gives the run its epoch."""
        place, attempt = self._place(), self._new_attempt()
        epoch = FencingEpoch(place) if claiming else self.fencing_epoch
        entry = make(Stamp(sequence=place, attempt=attempt, fencing_epoch=epoch, at=self._now()))
        return stored_entry(
            msgspec.structs.replace(
                entry,
                format=FORMAT,
                previous=self._tip.sequence if self._tip else Sequence(0),
                previous_digest=self._tip.digest if self._tip else "",
                claim=attempt if claiming else self._claim,
            )
        )

    def _place(self) -> Sequence:
        return next_place(self._tip.entry if self._tip else None)

    def _create(self, mine: StoredEntry) -> StoredEntry:
        """The entry at the place after the attempt; another run may have written it."""
        self._tried.add(mine.entry.attempt)
        doubtful = mine is self._undecided
        last: StorageError | None = None
        for _ in range(self._tries):
            try:
                standing = self._try_create(mine)
            except StorageError as error:
                doubtful = doubtful or isinstance(error, OutcomeUnknown)
                if not doubtful:
                    raise
                last = error
            else:
                if doubtful or standing is not mine or was_repeated(self._store, entry_key(mine.sequence)):
                    self._repeated.add(mine.sequence)
                self._undecided = None
                return standing
        assert last is not None
        raise self._in_doubt(mine, last) from last

    def _try_create(self, mine: StoredEntry) -> StoredEntry:
        key = entry_key(mine.sequence)
        if self._created(key, mine) is Created.WON:
            return mine
        try:
            return read_stored(self._store, key)
        except DamagedJournal:
            raise
        except StorageError as error:
            # Lost, but perhaps to an earlier attempt of this run.
            raise OutcomeUnknown(f"{key} exists and could not be read back: {error.message}") from error

    def _created(self, key: str, mine: StoredEntry) -> Created:
        try:
            return self._store.create(key, mine.data)
        except StorageFull:
            if not isinstance(mine.entry, _FREEING):
                raise
            release_reserve(self._store)
            return self._store.create(key, mine.data)

    def _in_doubt(self, mine: StoredEntry, because: StorageError) -> OutcomeUnknown:
        self._undecided = mine
        why = f"could not tell whether {entry_key(mine.sequence)} was written: {because.message}"
        return OutcomeUnknown(why, hint=because.hint)

    def _taken(self, mine: StoredEntry, standing: StoredEntry) -> bool:
        """Apply the entry in `mine`'s place if this run wrote it: True for `mine`, False for an earlier attempt. Raises
        when another run wrote it, or when the place was free only because this run is not the owner any more."""
        written = standing.entry
        if written.attempt not in self._tried:
            self._fenced = self._overtaken_by(standing)
            self._require_owner()
        try:
            loss = None if self._tip is None or self._proves_the_home(self._tip) else self._loss(standing)
        except StorageError as error:
            if written.attempt != mine.entry.attempt:
                raise
            raise self._in_doubt(mine, error) from error
        if loss is not None:
            raise loss
        self._apply(standing)
        return written.attempt == mine.entry.attempt

    def _apply(self, stored: StoredEntry) -> None:
        self.state = self.state.after(stored.entry)
        self._stored[stored.sequence] = stored
        self._tip = stored
        self._tried.clear()

    def _overtaken_by(self, standing: StoredEntry) -> Fenced:
        written = standing.entry
        if isinstance(written, RunStarted) and self._follows_the_tip(standing):
            return fenced_by(written)
        if written.claim == self._claim and self._follows_the_tip(standing):
            return Fenced(
                f"entry {written.sequence} was written in the name of this run, and not by this process: its machine "
                "was put back from a snapshot, or runs twice"
            )
        return put_back(f"entry {written.sequence} was written by run {written.fencing_epoch}, which does not know it")

    def _follows_the_tip(self, standing: StoredEntry) -> bool:
        if self._tip is None:
            return not standing.entry.previous
        return (standing.entry.previous, standing.entry.previous_digest) == (self._tip.sequence, self._tip.digest)

    # --- proving ownership ---

    def require_standing(self) -> None:
        """Raises `Fenced` or `HomeReplaced` when this run's newest entry is gone, or another run's entry follows it.
        Usually two reads. Thread-safe."""
        while True:
            tip = self._tip
            assert tip is not None, "after the claim"
            if fenced := newer_run(self._store, self.state):
                raise fenced
            if self._proves_the_home(tip) and (not self._lost or is_whole(self._store, self.objects().keys())):
                return
            if tip is self._tip:
                raise self._loss(None)
            # This run's own fold replaced the entry. Check the new tip.

    def _proves_the_home(self, tip: StoredEntry) -> bool:
        """Whether the newest entry exists. If its append was repeated, it proves nothing by itself: a delayed attempt
        can write it into a home that replaced this one. Then the entry before it must exist too."""
        stored: StoredEntry | None = tip
        while stored is not None and not self._is_folded(stored):
            if not stands(self._store, stored):
                return False
            if stored.sequence not in self._repeated:
                return True
            stored = self._stored.get(stored.entry.previous)
        return True

    def _is_folded(self, stored: StoredEntry) -> bool:
        return self.state.folded is not None and stored.sequence <= self.state.folded.upto

    def _loss(self, void: StoredEntry | None) -> HoldfastError:
        """Why this run's newest entry is gone. `void` is the entry that was written after it.

        `void` may be valid all the same, if a newer run has claimed and folded since it was written.
        """
        self._lost = True
        try:
            chain = journal_without(void, self._store, self._readers, entry_key(self._place()))
        except DamagedJournal as error:
            return home_replaced(self._store, error.message)
        state = JobState.of(stored.entry for stored in chain.entries)
        run, own = state.run, self.fencing_epoch
        if run is not None and (run.fencing_epoch > own or (run.fencing_epoch == own and run.attempt != self._claim)):
            self._fenced = fenced_by(run) if run.fencing_epoch > own else put_back(owner_text(run))
            return self._fenced
        # Only a newer run, which would be in the chain, deletes entries that this run's fold replaces. So if a fold's
        # entry ends the journal, this home never held the entries in the fold.
        if void is not None and (chain.tip != void or isinstance(void.entry, JournalFolded)):
            withdraw(self._store, void)
        return home_replaced(self._store, what_is_there(chain))

    def _require_owner(self) -> None:
        if self._fenced is not None:
            raise type(self._fenced)(self._fenced.message)

    # --- folding ---

    def fold(self, dropped: frozenset[Sequence], answers_lost_upto: Sequence) -> None:
        """Replace all entries by a fold, without those that are `dropped`. Raises what `append` raises.

        The fold is written before the entry that makes it official. Afterwards the replaced entries can be deleted.
        """
        self.settle()
        self._require_owner()
        tip = self._tip
        assert tip is not None, "after the claim"
        assert tip.sequence not in dropped, "the next entry follows it"
        if not self._proves_the_home(tip):
            raise self._loss(None)
        kept = [self._stored[sequence] for sequence, _ in self.state.sequences if sequence not in dropped]
        fold = StoredFold(fold_key(tip.sequence), encode_fold(tip.sequence, kept))
        if self._store.create(fold.key, fold.data) is Created.LOST and self._store.get(fold.key) != fold.data:
            return  # an earlier attempt left a different fold; the next attempt follows another entry
        try:
            self.append(
                lambda stamp: JournalFolded(
                    **stamp,
                    upto=tip.sequence,
                    digest=digest_of(fold.data),
                    answers_lost_upto=answers_lost_upto,
                )
            )
        except HomeReplaced:
            withdraw_fold(self._store, fold)
            raise
        self._fold = fold
        self.state = self.state.without(dropped)
        self._stored = {n: stored for n, stored in self._stored.items() if n not in dropped}

    # --- for readers ---

    def copy_recent(self) -> None:
        """Copy the entries since the newest fold to one object, when enough of them are new."""
        folded = self.state.folded.upto if self.state.folded else Sequence(0)
        recent = [stored for sequence, stored in self._stored.items() if sequence > folded]
        if not self._lost and not self._fenced and copy_recent(self._store, recent, self.state.head - self._copied):
            self._copied = self.state.head


def _guarding(make: MakeEntry) -> MakeEntry:
    """The claim that no fold deletes (`folding.guard_of`). No run has its number."""

    def guard(stamp: Stamp) -> AnyEntry:
        return msgspec.structs.replace(make(stamp), purpose="maintenance", work="", next_sequence=None, retention=None)

    return guard
