"""R3. A run that wrote to a home which is not its own takes back what it wrote there, and nothing else."""

import itertools
from collections.abc import Callable, Iterator
from copy import copy
from datetime import UTC, datetime

import pytest

from holdfast.errors import DamagedJournal, Fenced, HomeReplaced, OutcomeUnknown, StorageUnreachable
from holdfast.identifiers import AttemptId, BatchId, CheckpointId, Sequence
from holdfast.repository.entries import CheckpointStarted, Process, RunStarted
from holdfast.repository.folding import clear_folded
from holdfast.repository.journal import Journal, MakeEntry, entry_key, read_entries, read_entries_after
from holdfast.repository.names import JOURNAL
from holdfast.storage.interface import Created, StoredObject
from holdfast.storage.retrying import Patience, RetryingStore
from tests.simulation.copies import DictStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Away(DictStore):
    """A home that is away for the next entry, and there again right after it."""

    def __init__(self) -> None:
        super().__init__("memory://home")
        self.is_away_for_the_next = False
        self.stays_away = False

    def create(self, key: str, data: bytes) -> Created:
        if not self.is_away_for_the_next:
            return super().create(key, data)
        self.is_away_for_the_next = False
        there = dict(self.objects)
        self.objects.clear()
        won = super().create(key, data)
        if not self.stays_away:
            self.objects = there | {entry_key(3): b"of another run"}
            del self.objects[entry_key(2)]
        return won


def a_journal(store: DictStore, new_attempt: Callable[[], AttemptId] | None = None) -> Journal:
    ids = itertools.count(1)
    attempts = new_attempt or (lambda: AttemptId(f"a{next(ids)}"))
    journal = Journal(store, new_attempt=attempts, now=lambda: NOW, readers=1)
    journal.load()
    claim(journal)
    return journal


def claim(journal: Journal) -> None:
    journal.claim(
        lambda stamp: RunStarted(**stamp, lineage="life",
            process=Process("host", 1), heartbeat_s=1.0, work="/work", holdfast="0",
        )
    )  # fmt: skip


def started(id: int) -> MakeEntry:
    return lambda stamp: CheckpointStarted(
        **stamp,
        id=CheckpointId(id),
        barrier_batch_id=BatchId(0),
        checkpoint_kind="checkpoint",
        name=None,
    )


class Slow(DictStore):
    """While it lists the whole journal, others go on."""

    def __init__(self) -> None:
        super().__init__("memory://home")
        self.meanwhile: list[Callable[[], None]] = []

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        if prefix == JOURNAL and not after and self.meanwhile:
            self.meanwhile.pop()()
        return super().list(prefix, after)


def test_a_claim_that_a_newer_run_has_folded_meanwhile_stays() -> None:
    """It slept while it proved its claim. With its place free, the run before could have gone on behind its own newest
    entry (seed 2588)."""
    store = Slow()
    before = a_journal(store)
    slept = Journal(store, new_attempt=lambda: AttemptId("slept"), now=lambda: NOW, readers=1)
    slept.load()

    def newer() -> None:
        others = itertools.count(1)
        owner = a_journal(store, lambda: AttemptId(f"b{next(others)}"))
        owner.append(started(1))
        owner.fold(frozenset(), Sequence(0))
        clear_folded(store, Sequence(4), limit=1)

    store.meanwhile = [newer]
    with pytest.raises(Fenced):
        claim(slept)
    assert [item.key for item in store.list(JOURNAL)] == [entry_key(Sequence(place)) for place in (2, 3, 4, 5)]
    with pytest.raises(Fenced):
        before.append(started(1))


def test_what_stands_there_by_now_stays() -> None:
    store = Away()
    journal = a_journal(store)
    journal.append(started(1))
    store.is_away_for_the_next = True
    with pytest.raises(HomeReplaced):
        journal.append(started(2))
    assert store.objects[entry_key(3)] == b"of another run"


def test_nothing_more_is_tried_on_a_home_that_is_another_one() -> None:
    store = Away()
    journal = a_journal(store)
    journal.append(started(1))
    store.is_away_for_the_next = store.stays_away = True
    with pytest.raises(HomeReplaced):
        journal.append(started(2))
    assert not store.objects, "what was written is taken back"
    store.create = lambda key, data: pytest.fail("it writes to a home that is not its own")  # type: ignore[method-assign]
    with pytest.raises(HomeReplaced):
        journal.append(started(2))


def test_what_was_written_behind_another_run_of_a_home_that_was_put_back_is_taken_back() -> None:
    """Found by attack: two runs with the same numbers, one over the home and one over its backup, which took its
    place. Nobody could read the journal any more."""
    store = DictStore("memory://home")
    journal = a_journal(store)
    backup = dict(store.objects)
    journal.append(started(1))
    store.objects = backup
    others = itertools.count(1)
    owner = a_journal(store, lambda: AttemptId(f"b{next(others)}"))
    with pytest.raises(Fenced):
        journal.append(started(2))
    owner.append(started(3))
    assert [entry.attempt for entry in read_entries(store, readers=1)] == ["a1", "b1", "b2"]


def test_the_newest_entry_alone_is_no_sign_that_the_home_is_back() -> None:
    """A store may carry an append out twice: the second time in the home that stands there by then."""
    store = DictStore("memory://home")
    journal = a_journal(store)
    journal.append(started(1))
    there = dict(store.objects)
    store.objects.clear()
    with pytest.raises(HomeReplaced):
        journal.append(started(2))
    store.objects[entry_key(2)] = there[entry_key(2)]
    with pytest.raises(HomeReplaced):
        journal.append(started(2))
    with pytest.raises(HomeReplaced):
        journal.require_standing()
    store.objects.update(there)
    journal.append(started(2))
    journal.require_standing()


def test_a_thread_that_looks_while_another_one_appends_sees_the_run_that_owns_the_home_that_came() -> None:
    """Simulation, seed 7421: it took the entry, which was about to be taken back, for damage of that home."""
    store = DictStore("memory://home")
    appending = a_journal(store)
    for id in (1, 2):
        appending.append(started(id))
    looking = copy(appending)
    appending.append(started(3))
    appended = store.objects[entry_key(4)]
    store.objects.clear()
    others = itertools.count(1)
    for _ in range(2):
        a_journal(store, lambda: AttemptId(f"b{next(others)}"))
    store.objects[entry_key(4)] = appended
    with pytest.raises(Fenced):
        looking.require_standing()


class Unlisted(Away):
    """The look that shows that the home is another one fails for a while."""

    is_silent = False

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        if self.is_silent:
            raise StorageUnreachable("could not list: no connection")
        yield from super().list(prefix, after)


def test_what_was_written_stays_in_doubt_until_somebody_can_look() -> None:
    """Simulation, seed 8105: it stayed in the home that had come meanwhile, as if that one's run had written it."""
    store = Unlisted()
    journal = a_journal(store)
    journal.append(started(1))
    store.is_away_for_the_next = store.stays_away = store.is_silent = True
    with pytest.raises(OutcomeUnknown):
        journal.append(started(2))
    assert store.objects.keys() == {entry_key(3)}, "it is there, and nobody knows whose home this is"
    store.is_silent = False
    with pytest.raises(HomeReplaced):
        journal.append(started(2))
    assert not store.objects, "now it is taken back"


class Unanswered(DictStore):
    """A store that answers the first try of an append with an error; nobody knows whether it comes late."""

    def __init__(self) -> None:
        super().__init__("memory://home")
        self.is_silent = False

    def create(self, key: str, data: bytes) -> Created:
        if self.is_silent:
            self.is_silent = False
            raise OutcomeUnknown("no answer")
        return super().create(key, data)


@pytest.fixture(params=["the journal tries again", "the store tries again"])
def repeated(request: pytest.FixtureRequest) -> tuple[Journal, Unanswered, dict[str, bytes]]:
    """A run whose newest entry, the third one, was appended with a second try; and a backup with the first one."""
    store = Unanswered()
    patient = RetryingStore(store, Patience(clock=lambda: 0.0, sleep=lambda seconds: None, draw=lambda: 0.5))
    journal = a_journal(store if request.param == "the journal tries again" else patient)
    backup = dict(store.objects)
    journal.append(started(1))
    store.is_silent = True
    journal.append(started(2))
    return journal, store, backup


def test_a_try_that_comes_late_does_not_make_another_home_the_runs_own(
    repeated: tuple[Journal, Unanswered, dict[str, bytes]],
) -> None:
    """Nobody has looked since the home was put back, and the newest entry is there: the one before it is not."""
    journal, store, backup = repeated
    there = dict(store.objects)
    store.objects = backup | {entry_key(3): there[entry_key(3)]}
    with pytest.raises(HomeReplaced):
        journal.require_standing()
    with pytest.raises(HomeReplaced):
        journal.append(started(3))
    assert entry_key(4) not in store.objects
    store.objects = there
    journal.append(started(3))


def test_what_was_written_behind_an_entry_that_came_late_is_taken_back(
    repeated: tuple[Journal, Unanswered, dict[str, bytes]],
) -> None:
    journal, store, backup = repeated
    store.objects = backup | {entry_key(3): store.objects[entry_key(3)]}
    with pytest.raises(HomeReplaced):
        journal.append(started(3))
    assert entry_key(4) not in store.objects


def test_an_entry_that_was_tried_once_proves_the_home_by_itself() -> None:
    """One that is lost in front of it is damage, which a run repairs as it goes on."""
    store = DictStore("memory://home")
    journal = a_journal(store)
    journal.append(started(1))
    journal.append(started(2))
    del store.objects[entry_key(2)]
    journal.require_standing()


def test_a_claim_on_a_journal_of_which_another_home_has_only_the_newest_entry_is_taken_back() -> None:
    """The home was swapped while the command read it, with one that has entries in all of its places. The run that
    owned the job wrote one more into that one before it knew."""
    store, other = DictStore("memory://home"), DictStore("memory://home")
    owner = a_journal(store)
    owner.append(started(1))
    newer = Journal(store, new_attempt=lambda: AttemptId("newer"), now=lambda: NOW, readers=1)
    newer.load()
    others = itertools.count(1)
    another = a_journal(other, lambda: AttemptId(f"b{next(others)}"))
    another.append(started(1))
    store.objects = other.objects | {entry_key(2): store.objects[entry_key(2)]}
    with pytest.raises(HomeReplaced):
        claim(newer)
    assert entry_key(3) not in store.objects


def test_a_claim_on_a_journal_of_which_the_home_has_only_the_newest_entry_is_taken_back() -> None:
    """Simulation seed 10732: the home was emptied while the journal was read. The owner's next entry came into the
    empty home before it noticed, and was read as the end of what had been there."""
    store = DictStore("memory://home")
    owner = a_journal(store)
    owner.append(started(1))
    owner.append(started(2))
    newer = Journal(store, new_attempt=lambda: AttemptId("b1"), now=lambda: NOW, readers=1)
    newer.load()
    store.objects = {entry_key(3): store.objects[entry_key(3)]}
    with pytest.raises(HomeReplaced):
        newer.claim(
            lambda stamp: RunStarted(
                **stamp, lineage="life", process=Process("other", 1), heartbeat_s=1.0, work="/work", holdfast="0"
            )
        )
    assert store.objects.keys() == {entry_key(3)}


def test_who_looks_for_new_entries_believes_none_whose_predecessor_is_not_there() -> None:
    """Simulation seed 2470: an answer was taken from a run that wrote it into a home which had come meanwhile."""
    store = DictStore("memory://home")
    journal = a_journal(store)
    journal.append(started(1))
    journal.append(started(2))
    assert [entry.sequence for entry in read_entries_after(store, Sequence(2))] == [3]
    store.objects = {entry_key(3): store.objects[entry_key(3)]}
    with pytest.raises(DamagedJournal):
        list(read_entries_after(store, Sequence(2)))
