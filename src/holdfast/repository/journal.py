"""The journal: one linear history of a job, the only place where truth is decided. This is its writing side.

Invariants
- An entry is created with create-if-absent at the place after the newest one known, and never changed. It names its
  predecessor and the digest of that one's bytes (`repository/chain.py` reads and proves that).
- Only one thread appends (a lane of the runtime). An append whose outcome stays unknown is settled, with the same bytes
  at the same place, before anything else is appended. So every entry is known as won or lost before the next one is
  tried, and none is written twice.
- An entry in one's place that this process has tried to write there is one's own, also when the try was reported as
  not written. It is adopted, and the append goes on behind it. One of the same claim that this process has not tried
  is of its double: the machine was put back from a snapshot, or runs twice. Then this run is over.
- Once fenced, always fenced: a run that has met a newer `run-started` appends nothing more, not even behind it.
- Entries up to a fold are deleted in ascending order, and only after the entry that makes the fold official stands.

Why a run that slept, however long, can neither append nor be believed. Let h be its newest entry, so that it tries to
create h+1, and let a newer run have claimed the job since.
- That claim went to h+1, since nothing else was behind h. While it stands there, the sleeper's create is lost, it reads
  a newer `run-started`, and is fenced.
- It stands there no more only if a fold reaches up to h+1 at least. Deletions ascend, so h went before h+1: where the
  place h+1 is free because it was deleted, h is gone. So after each create that was won, the run proves that h still
  stands, by its bytes; if it does, nothing has ever stood at h+1 before. If it does not, the run reads the journal,
  finds the newer run, and is fenced.
- Nobody believes an entry in such a place: it stands at or below the `upto` of a fold that is official, and readers
  begin behind the newest of those. The next deletion takes it away.
- A try of the sleeper's own for h that was on its way all that time could bring h back and make it believe in h+1. It
  would still be the only one that does, and its sink is fenced by the sink itself.
A run that claims has no predecessor of its own. It proves that what it has read last still stands, and that nothing is
listed behind its claim: either alone would do, since where a place is free through a fold, that fold's entry is behind.
It also proves that all it has read is listed: a home may be emptied while it is read, and what was read last may be of
a run that has not noticed.

A run of format 1 that slept proves nothing of that. Its next place is taken by a claim that no fold deletes, so it
loses its next append, as it would have before there were folds. Nobody's newest entry is that claim: a second one
follows it.

A home that was emptied, swapped or put back from a backup under a run shows in the same proof: h is gone, by a read and
by a listing, and the journal has no newer run. That is `HomeReplaced`; it passes when the home is put back. If another
run was given the same number there, or a newer one, this run stops. An append of h that was tried twice may bring h,
and h alone, into that home when the other try comes late; then the entry before h is proved as well.
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
    ObjectNotFound,
    OutcomeUnknown,
    StorageError,
    StorageFull,
    StorageUnreachable,
)
from holdfast.identifiers import AttemptId, FencingEpoch, Sequence
from holdfast.repository.absence import is_listed
from holdfast.repository.chain import (
    READERS,
    Chain,
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
from holdfast.repository.names import FOLDS, is_fold
from holdfast.repository.names import JOURNAL as PREFIX
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
    "newer_run",
    "read_entries",
    "read_entries_after",
    "require_unchanged",
    "survey_entries",
]

_TRIES = 3
"""How often an append without an answer is tried, on a store that does not try again by itself."""

_FREEING = (RunStarted, RunEnded, CheckpointsRetired, JournalFolded)
"""Without these nothing can be freed: the reserve is theirs."""

MakeEntry = Callable[[Stamp], AnyEntry]


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
        self._undecided: StoredEntry | None = None
        self._tried: set[AttemptId] = set()
        """Attempts on the place behind the newest entry."""
        self._repeated: set[Sequence] = set()
        """Entries whose append was tried more than once: a try may still come."""
        self._fenced: str | None = None
        self._claim = AttemptId("")
        self._tip: StoredEntry | None = None
        self._stored: dict[Sequence, StoredEntry] = {}
        self._fold: StoredFold | None = None
        self._lost = False
        """What this run has written was gone when it last looked."""
        self.moved_before_claim = False
        """The run before appended something between the load and this run's claim."""
        self.state = JobState()

    def load(self) -> JobState:
        chain = read_chain(self._store, self._readers)
        self._stored = {stored.sequence: stored for stored in chain.entries}
        self._tip, self._fold = chain.tip, chain.fold
        self.state = JobState.of(stored.entry for stored in chain.entries)
        return self.state

    def owned(self, settled: Callable[[AnyEntry], None]) -> "Journal":
        """The same journal for the run that has claimed it with this one, which is not used any more.

        What hears of settled entries needs the number of the run, and that is the claim's.
        """
        owned = copy(self)
        owned._settled = settled
        self._fenced = "the journal was handed over to the run"
        return owned

    @property
    def fencing_epoch(self) -> FencingEpoch:
        return self.state.fencing_epoch

    @property
    def claimed(self) -> AttemptId:
        """Tells this run from every other one, also from one that was given the same number in another home."""
        return self._claim

    @property
    def undecided(self) -> bool:
        """Whether it is not known if the last append took effect."""
        return self._undecided is not None

    def objects(self) -> dict[str, bytes]:
        """What must lie in the home, key → bytes: the entries behind the newest fold, and the fold. For any thread."""
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
                raise Fenced(_owner(standing.entry))
            if not self._follows_the_tip(standing) or not (self._tip is None or self._stands(self._tip)):
                raise Fenced("the journal moved on while this run was claiming the job")
            self._apply(standing)  # the owner's, appended since the load, in this very home
            self.moved_before_claim = True
        entry = mine.entry
        assert isinstance(entry, RunStarted)
        before, self._claim = self._tip, entry.attempt
        self._apply(mine)
        self._require_nothing_behind(mine, before)
        return entry

    def _require_nothing_behind(self, claim: StoredEntry, before: StoredEntry | None) -> None:
        """Else a still newer run claimed, or the place was free only because a fold stands for it since the load."""
        behind = any(self._store.list(PREFIX, after=entry_key(claim.sequence)))
        stands = self._stands(before) if before else not any(is_fold(item.key) for item in self._store.list(FOLDS))
        stands = stands and self._is_whole()
        if not behind and not stands:
            self._withdraw(claim)
            raise HomeReplaced(
                f"could not claim the job in {self._store.url}: what was read before is not there any more",
                hint="put the home back, or look whether it is mounted, and start again",
            )
        if behind or not stands:
            raise Fenced("the journal moved on while this run was claiming the job")

    # --- appending ---

    def append(self, make: MakeEntry) -> AnyEntry:
        """Append one entry as owner. Raises `Fenced` when another run owns the job by now, `OutcomeUnknown` when the
        store did not say whether the entry was written, another `StorageError` when it was not."""
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
        """Nothing is written into a home that is known not to be this run's, until that is back."""
        if self._lost and self._tip is not None:
            if not self._stands(self._tip) or not self._is_whole():
                raise self._loss(self._undecided)
            self._lost = False

    def settle(self) -> None:
        """Make sure that no append is undecided. Raises what `append` raises."""
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
        """What stands at the place after the attempt, which may be another's."""
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
            # Lost, but perhaps to an earlier try of one's own.
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
        """Take in what stands in `mine`'s place when it is this run's: True for `mine`, False for an earlier try.
        Raises when it is another's, or when the place was free only because this run is not the owner any more."""
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

    def _overtaken_by(self, standing: StoredEntry) -> str:
        written = standing.entry
        if isinstance(written, RunStarted) and self._follows_the_tip(standing):
            return _owner(written)
        if written.claim == self._claim and self._follows_the_tip(standing):
            return (
                f"entry {written.sequence} was written in the name of this run, and not by this process: its machine "
                "was put back from a snapshot, or runs twice"
            )
        return _put_back(f"entry {written.sequence} was written by run {written.fencing_epoch}, which does not know it")

    def _follows_the_tip(self, standing: StoredEntry) -> bool:
        if self._tip is None:
            return not standing.entry.previous
        return (standing.entry.previous, standing.entry.previous_digest) == (self._tip.sequence, self._tip.digest)

    # --- proving that one still is the owner ---

    def require_standing(self) -> None:
        """Raises `Fenced` or `HomeReplaced` when this run's newest entry does not stand, or another's is behind it.
        Two reads, as a rule; for any thread."""
        while True:
            tip = self._tip
            assert tip is not None, "after the claim"
            if owner := newer_run(self._store, self.state):
                raise Fenced(owner)
            if self._proves_the_home(tip) and (not self._lost or self._is_whole()):
                return
            if tip is self._tip:
                raise self._loss(None)
            # It was this run's own fold that took it away.

    def _proves_the_home(self, tip: StoredEntry) -> bool:
        """Whether the newest entry stands. One whose append was repeated proves nothing by itself: a try that comes
        late can put it into a home that came meanwhile. Then the one before it must stand, too."""
        stored: StoredEntry | None = tip
        while stored is not None and not self._is_folded(stored):
            if not self._stands(stored):
                return False
            if stored.sequence not in self._repeated:
                return True
            stored = self._stored.get(stored.entry.previous)
        return True

    def _is_folded(self, stored: StoredEntry) -> bool:
        return self.state.folded is not None and stored.sequence <= self.state.folded.upto

    def _stands(self, stored: StoredEntry) -> bool:
        """False when it is gone by both witnesses, or another stands there."""
        key = entry_key(stored.sequence)
        for _ in range(2):
            try:
                data = self._store.get(key)
            except ObjectNotFound:
                if is_listed(self._store, key):
                    raise StorageUnreachable(f"could not read {key}: it is listed, and said not to be there") from None
                return False
            if digest_of(data) == stored.digest:
                return True
        return read_stored(self._store, key).digest == stored.digest  # which raises when it is damaged

    def _is_whole(self) -> bool:
        """Whether a home that was another one is this run's again, or is the one that a claim was made upon. The newest
        entry alone is no sign of that: it may have been written into a home that came meanwhile, by a store that
        carries an append out twice, or by a run that has not noticed yet."""
        listed = {item.key for prefix in (PREFIX, FOLDS) for item in self._store.list(prefix)}
        return self.objects().keys() <= listed

    def _loss(self, void: StoredEntry | None) -> HoldfastError:
        """Why this run's newest entry is not there. `void` is what was written behind it.

        That one may hold all the same, when a newer run came and folded since it was written.
        """
        self._lost = True
        try:
            chain = self._journal_without(void)
        except DamagedJournal as error:
            return _replaced(self._store, error.message)
        state = JobState.of(stored.entry for stored in chain.entries)
        run, own = state.run, self.fencing_epoch
        if run is not None and (run.fencing_epoch > own or (run.fencing_epoch == own and run.attempt != self._claim)):
            self._fenced = _owner(run) if run.fencing_epoch > own else _put_back(_owner(run))
            return Fenced(self._fenced)
        # Nobody but a newer run, which would be in the chain, deletes what this run's fold stands for. So a fold that
        # ends the journal lies in a home that has never seen what is in it.
        if void is not None and (chain.tip != void or isinstance(void.entry, JournalFolded)):
            self._withdraw(void)
        return _replaced(self._store, _what_is_there(chain))

    def _journal_without(self, void: StoredEntry | None) -> Chain:
        """What stands in this home; without `void` when that is not part of it. Then it is taken back, whoever owns the
        job there: behind entries of another line it would be damage to everybody."""
        try:
            return read_chain(self._store, self._readers)
        except DamagedJournal:
            if void is None:
                raise
            try:
                chain = read_chain(self._store, self._readers, ignoring=entry_key(void.sequence))
            except DamagedJournal:
                self._withdraw(void)
                raise
            self._withdraw(void)
            return chain

    def _withdraw(self, void: StoredEntry) -> None:
        """Of a home that is not this run's: whoever reads its journal must not find a gap before our entry.

        Another's may stand there by now: a home that was unreachable is reachable again.
        """
        key = entry_key(void.sequence)
        try:
            if self._store.get(key) == void.data:
                self._store.delete(key)
        except StorageError:
            return

    def _require_owner(self) -> None:
        if self._fenced is not None:
            raise Fenced(self._fenced)

    # --- folding ---

    def fold(self, dropped: frozenset[Sequence], answers_lost_upto: Sequence) -> None:
        """Let a fold stand for all entries, without those that are `dropped`. Raises what `append` raises.

        The fold is there before the entry that makes it official. What it stands for can be deleted afterwards.
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
            return  # of an attempt before, which differs; the next one is behind another entry
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
            self._withdraw_fold(fold)
            raise
        self._fold = fold
        self.state = self.state.without(dropped)
        self._stored = {n: stored for n, stored in self._stored.items() if n not in dropped}

    def _withdraw_fold(self, fold: StoredFold) -> None:
        """A home that has no entries, but a fold, is taken for damaged."""
        try:
            if not any(self._store.list(PREFIX)):
                self._store.delete(fold.key)
        except StorageError:
            return


def _guarding(make: MakeEntry) -> MakeEntry:
    """The claim whose place no fold makes free (`folding.guard_of`). It is nobody's run."""

    def guard(stamp: Stamp) -> AnyEntry:
        return msgspec.structs.replace(make(stamp), purpose="maintenance", work="", next_sequence=None, retention=None)

    return guard


def newer_run(store: ObjectStore, state: JobState) -> str | None:
    """Who has claimed the job since `state` was true, None when nobody has. Changes nothing; any thread may ask.

    Entries of the owner that `state` does not know are passed: an append that is undecided may stand, and the claim
    behind it.
    """
    place = Sequence(state.head + 1)
    while True:
        try:
            entry = read_stored(store, entry_key(place)).entry
        except ObjectNotFound:
            return None
        if isinstance(entry, RunStarted) and entry.sequence > state.fencing_epoch:
            return _owner(entry)
        if state.run is None or entry.claim != state.run.attempt:
            return None
        place = next_place(entry)


def require_unchanged(store: ObjectStore, state: JobState) -> None:
    """For those who own nothing. Raises `Fenced` when somebody has claimed the job since `state` was true, and
    `HomeReplaced` when its newest entry does not stand any more: then it was true of another home."""
    if owner := newer_run(store, state):
        raise Fenced(owner)
    sequence, entry = state.sequences[-1]
    key = entry_key(sequence)
    try:
        standing = read_stored(store, key).entry
    except ObjectNotFound:
        if is_listed(store, key):
            raise StorageUnreachable(f"could not read {key}: it is listed, and said not to be there") from None
        standing = None
    if standing != entry:
        raise HomeReplaced(
            f"{store.url} is not the home that was read before: entry {sequence} of its journal is gone or another one",
            hint="look whether the home is mounted, or was put back from a backup; then try again",
        )


_BY_COMMAND = "maintenance"


def is_of_maintenance(owner: str) -> bool:
    """Whether the text that names a newer owner names a command."""
    return owner.startswith(f"{_BY_COMMAND} ")


def _owner(entry: RunStarted) -> str:
    who = "run" if entry.purpose == "pipeline" else _BY_COMMAND
    at = entry.at.isoformat()
    return f"{who} {entry.fencing_epoch} on host {entry.host} (pid {entry.pid}) owns the job since {at}"


def _put_back(why: str) -> str:
    return f"the home was put back from a backup or replaced while this run wrote to it: {why}"


def _what_is_there(chain: Chain) -> str:
    return f"its journal ends at entry {chain.tip.sequence}" if chain.tip else "it has no journal"


def _replaced(store: ObjectStore, what: str) -> HomeReplaced:
    return HomeReplaced(
        f"{store.url} is not the home that this run has written to: it was emptied, replaced or put back; {what}",
        hint="put the home back as it was, or mount it again: the run goes on by itself; else stop the run",
    )
