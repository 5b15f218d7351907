"""The journal: every append is known as won or lost, one linear history, and a stalled run is always refused."""

import itertools
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from holdfast.errors import Corrupt, DamagedJournal, Fenced, OutcomeUnknown, StorageUnreachable
from holdfast.identifiers import AttemptId, CheckpointId, Sequence
from holdfast.repository.entries import AnyEntry, CheckpointStarted, Process, QueryRestarted, RunStarted, Stamp
from holdfast.repository.entry_bytes import decode_entry
from holdfast.repository.folding import clear_folded
from holdfast.repository.journal import Journal, MakeEntry, entry_key, read_entries
from holdfast.repository.overtaking import newer_run
from holdfast.repository.state import JobState
from holdfast.storage.interface import Created, ObjectStore
from holdfast.storage.local import LocalStore
from tests.clean_processes import FORKS

_ATTEMPTS = itertools.count()


def open_journal(store: ObjectStore, settled: Callable[[AnyEntry], None] = lambda entry: None) -> Journal:
    journal = Journal(
        store,
        new_attempt=lambda: AttemptId(f"attempt-{os.getpid()}-{next(_ATTEMPTS)}"),
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        settled=settled,
    )
    journal.load()
    return journal


def run_started(stamp: Stamp) -> RunStarted:
    return RunStarted(
        **stamp,
        lineage="life",
        process=Process("host", 1),
        heartbeat_s=5,
        work="/work",
        holdfast="test",
    )


def started(journal: Journal, id: int) -> MakeEntry:
    return lambda stamp: CheckpointStarted(
        **stamp,
        id=CheckpointId(id),
        checkpoint_kind="checkpoint",
        name=None,
        barrier_batch_id=0,  # type: ignore[arg-type]
    )


class Unanswered:
    """A store whose next creates get no answer, before or after they took effect."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner
        self.faults: Iterator[str] = iter(())

    def __getattr__(self, name: str):  # type: ignore[no-untyped-def]
        return getattr(self._inner, name)

    def create(self, key: str, data: bytes) -> Created:
        fault = next(self.faults, "")
        if fault == "down":
            raise StorageUnreachable("down")
        if fault == "lost request":
            raise OutcomeUnknown("no answer")
        outcome = self._inner.create(key, data)
        if fault == "lost answer":
            raise OutcomeUnknown("no answer")
        return outcome


def sequences(store: ObjectStore) -> list[int]:
    return [entry.sequence for entry in read_entries(store)]


def test_an_answer_that_was_lost_is_read_back_as_won(tmp_path: Path) -> None:
    store = Unanswered(LocalStore(tmp_path))
    journal = open_journal(store)
    journal.claim(run_started)
    store.faults = iter(["lost answer"])
    entry = journal.append(started(journal, 1))
    assert sequences(store) == [1, 2]
    assert journal.state.head == entry.sequence == 2


def test_a_request_that_was_lost_is_repeated_at_the_same_place(tmp_path: Path) -> None:
    store = Unanswered(LocalStore(tmp_path))
    journal = open_journal(store)
    journal.claim(run_started)
    store.faults = iter(["lost request", "lost request"])
    journal.append(started(journal, 1))
    assert sequences(store) == [1, 2]


@pytest.mark.parametrize("fault", ["lost answer", "lost request"])
@pytest.mark.parametrize("then", ["lost request", "down"])
def test_an_undecided_entry_is_settled_before_the_next_append(tmp_path: Path, fault: str, then: str) -> None:
    store = Unanswered(LocalStore(tmp_path))
    settled: list[AnyEntry] = []
    journal = open_journal(store, settled.append)
    journal.claim(run_started)
    store.faults = iter([fault, then, then])
    with pytest.raises(OutcomeUnknown):
        journal.append(started(journal, 1))
    if fault == "lost answer":
        assert sequences(store) == [1, 2]

    store.faults = iter(["down"] * 3)
    with pytest.raises(OutcomeUnknown):
        journal.append(started(journal, 2))

    store.faults = iter(())
    journal.append(started(journal, 2))
    found = [entry.id for entry in read_entries(store) if isinstance(entry, CheckpointStarted)]
    assert found == [1, 2], "each once, in order"
    assert [entry.sequence for entry in settled] == [2]


def test_a_definite_failure_leaves_nothing_undecided(tmp_path: Path) -> None:
    store = Unanswered(LocalStore(tmp_path))
    journal = open_journal(store)
    journal.claim(run_started)
    store.faults = iter(["down"])
    with pytest.raises(StorageUnreachable):
        journal.append(started(journal, 1))
    journal.append(started(journal, 2))
    assert [entry.id for entry in read_entries(store) if isinstance(entry, CheckpointStarted)] == [2]


def test_a_run_that_was_taken_over_is_fenced_at_its_next_append(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    old = open_journal(store)
    old.claim(run_started)
    new = open_journal(store)
    new.claim(run_started)
    assert newer_run(store, old.state) is not None
    assert newer_run(store, new.state) is None
    with pytest.raises(Fenced, match="run 2 on host host"):
        old.append(started(old, 1))
    assert sequences(store) == [1, 2]


def test_a_claim_behind_an_entry_that_is_undecided_is_noticed(tmp_path: Path) -> None:
    """The run did not know of its own entry, found no claim in that one's place, and ran on for as long as it had
    nothing to append."""
    store = Unanswered(LocalStore(tmp_path))
    old = open_journal(store)
    old.claim(run_started)
    store.faults = iter(["lost answer", "down", "down"])
    with pytest.raises(OutcomeUnknown):
        old.append(started(old, 1))
    old.require_standing()
    open_journal(store).claim(run_started)
    with pytest.raises(Fenced, match="run 3 on host host"):
        old.require_standing()


@pytest.mark.parametrize("cleared", range(8))
def test_a_run_that_slept_through_a_fold_is_still_fenced(tmp_path: Path, cleared: int) -> None:
    """However far the deletion has come when it wakes up."""
    store = LocalStore(tmp_path)
    old = open_journal(store)
    old.claim(run_started)
    new = open_journal(store)
    new.claim(run_started)
    for id in range(1, 6):
        new.append(started(new, id))
    new.fold(frozenset({Sequence(1)}), Sequence(0))
    clear_folded(store, Sequence(7), cleared)
    for _ in range(2):
        with pytest.raises(Fenced, match="run 2 on host host"):
            old.append(started(old, 1))
    new.append(started(new, 6))
    assert sequences(store) == [2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("cleared", range(5))
def test_a_claim_on_a_journal_read_before_a_fold_is_void(tmp_path: Path, cleared: int) -> None:
    store = LocalStore(tmp_path)
    owner = open_journal(store)
    owner.claim(run_started)
    late = open_journal(store)
    for id in range(1, 4):
        owner.append(started(owner, id))
    owner.fold(frozenset({Sequence(2)}), Sequence(0))
    clear_folded(store, Sequence(4), cleared)
    if cleared >= 1:
        with pytest.raises(Fenced, match="moved on"):
            late.claim(run_started)
        owner.append(started(owner, 4))
        assert sequences(store) == [1, 3, 4, 5, 6]
    else:
        late.claim(run_started)
        with pytest.raises(Fenced):
            owner.append(started(owner, 4))


def test_a_claim_goes_behind_nothing_that_came_into_a_home_without_what_was_read(tmp_path: Path) -> None:
    """The home was put back after the load, and a run that did not know yet wrote its next entry there."""
    store = LocalStore(tmp_path)
    owner = open_journal(store)
    owner.claim(run_started)
    owner.append(started(owner, 1))
    late = open_journal(store)
    owner.append(started(owner, 2))
    store.delete(entry_key(2))
    with pytest.raises(Fenced, match="moved on"):
        late.claim(run_started)
    assert not store.exists(entry_key(4))


def test_an_entry_at_the_wrong_place_is_corrupt(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    journal = open_journal(store)
    journal.claim(run_started)
    store.put(entry_key(2), store.get(entry_key(1)))
    with pytest.raises(Corrupt, match="entry 1"):
        open_journal(store)


def _contend(root: str, rounds: int) -> None:
    """Claim again and again; each claim that wins is followed by one append, which may be fenced."""
    store = LocalStore(Path(root))
    won = 0
    while won < rounds:
        journal = open_journal(store)
        try:
            journal.claim(run_started)
            won += 1
            journal.append(started(journal, journal.state.last_checkpoint + 1))
        except Fenced:
            continue


def test_racing_processes_make_one_linear_history(tmp_path: Path) -> None:
    processes = [FORKS.Process(target=_contend, args=(str(tmp_path), 20)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    entries = list(read_entries(LocalStore(tmp_path)))
    assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
    owner = 0
    for entry in entries:
        if isinstance(entry, RunStarted):
            owner = entry.fencing_epoch
        assert entry.fencing_epoch == owner, "only the newest run appends"
    ids = [entry.id for entry in entries if isinstance(entry, CheckpointStarted)]
    assert ids == list(range(1, len(ids) + 1))


# --- checksums ---


def written(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path)
    journal = open_journal(store)
    journal.claim(run_started)
    journal.append(started(journal, 12))
    return store


@pytest.mark.parametrize("sequence", [1, 2])
def test_no_flipped_bit_gives_an_entry_another_meaning(tmp_path: Path, sequence: int) -> None:
    key = entry_key(sequence)
    data = written(tmp_path).get(key)
    meant = decode_entry(key, data)
    for place in range(len(data)):
        for bit in range(8):
            changed = data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]
            try:
                read: object = decode_entry(key, changed)
            except Corrupt as error:
                read = meant if key in error.message and error.hint else error
            assert read == meant


@pytest.mark.parametrize("length", range(0, 200, 7))
def test_an_entry_that_was_cut_off_is_corrupt(tmp_path: Path, length: int) -> None:
    data = written(tmp_path).get(entry_key(2))
    with pytest.raises(Corrupt):
        decode_entry(entry_key(2), data[:length])


def test_an_entry_written_before_there_were_checksums_is_read(tmp_path: Path) -> None:
    store = written(tmp_path)
    old = [msgspec.structs.replace(entry, format=1) for entry in read_entries(store)]
    for entry in old:
        store.put(entry_key(entry.sequence), msgspec.json.encode(entry))
    assert list(read_entries(store)) == old


def test_a_checksum_that_lost_its_name_does_not_make_an_old_entry(tmp_path: Path) -> None:
    data = written(tmp_path).get(entry_key(2)).replace(b'"id":12', b'"id":13').replace(b'"checksum"', b'"Checksum"')
    with pytest.raises(Corrupt, match="no checksum"):
        decode_entry(entry_key(2), data)
    with pytest.raises(Corrupt, match="no checksum, but a field 'Checksum'"):
        decode_entry(entry_key(2), data.replace(b'"format":2', b'"format":1'))


def test_an_entry_that_came_wrong_but_lies_right_is_read_once_more(tmp_path: Path) -> None:
    class WrongOnce(LocalStore):
        wrong = True

        def get(self, key: str) -> bytes:
            data = super().get(key)
            if key == entry_key(2) and self.wrong:
                self.wrong = False
                return data.replace(b'"id":12', b'"id":13')
            return data

    written(tmp_path)
    assert [entry.sequence for entry in read_entries(WrongOnce(tmp_path))] == [1, 2]


def test_a_damaged_newest_entry_stops_a_claim_before_anything_is_written(tmp_path: Path) -> None:
    store = written(tmp_path)
    damaged = store.get(entry_key(2)).replace(b'"id":12', b'"id":13')
    store.put(entry_key(2), damaged)
    with pytest.raises(Corrupt, match=r"00002\.json.*checksum"):
        open_journal(store)
    assert [item.key for item in store.list("")] == [entry_key(1), entry_key(2)]


def test_an_append_onto_a_damaged_entry_names_it_and_writes_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    old = open_journal(store)
    old.claim(run_started)
    open_journal(store).claim(run_started)
    store.put(entry_key(2), store.get(entry_key(2)).replace(b"life", b"lief"))
    for _ in range(2):
        with pytest.raises(DamagedJournal, match=r"00002\.json"):
            old.append(started(old, 1))
    assert [item.key for item in store.list("")] == [entry_key(1), entry_key(2)]


def test_ones_own_entry_that_was_damaged_before_the_answer_came_is_settled_when_it_is_put_back(tmp_path: Path) -> None:
    store = Unanswered(LocalStore(tmp_path))
    journal = open_journal(store)
    journal.claim(run_started)
    store.faults = iter(["lost answer", "down", "down"])
    with pytest.raises(OutcomeUnknown):
        journal.append(started(journal, 1))
    sound = store.get(entry_key(2))
    store.put(entry_key(2), sound.replace(b'"id":1,', b'"id":2,'))
    with pytest.raises(OutcomeUnknown, match="checksum"):
        journal.append(started(journal, 2))
    store.put(entry_key(2), sound)
    journal.append(started(journal, 2))
    assert sequences(store) == [1, 2, 3]


def test_a_restart_written_by_the_first_versions_is_read() -> None:
    old = (
        b'{"kind":"query-restarted","format":1,"sequence":3,"attempt":"a","fencing_epoch":1,'
        b'"at":"2026-01-01T00:00:00Z","cause":"query failed","message":"boom","attempt_number":1}'
    )
    entry = decode_entry(entry_key(3), old)
    assert isinstance(entry, QueryRestarted)
    assert (entry.cause, entry.duration_ms, entry.hint) == ("query failed", None, None)


def test_an_entry_of_ones_own_that_was_reported_as_not_written_is_adopted(tmp_path: Path) -> None:
    """A gateway answered in the store's place, and what it said was taken for a refusal."""

    class Lying(LocalStore):
        lies = False

        def create(self, key: str, data: bytes) -> Created:
            created = super().create(key, data)
            if self.lies:
                self.lies = False
                raise StorageUnreachable("the server answered 400")
            return created

    store, settled = Lying(tmp_path), list[AnyEntry]()
    journal = open_journal(store, settled.append)
    journal.claim(run_started)
    store.lies = True
    with pytest.raises(StorageUnreachable):
        journal.append(started(journal, 1))

    def next_one(stamp: Stamp) -> AnyEntry:
        return started(journal, journal.state.last_checkpoint + 1)(stamp)

    entry = journal.append(next_one)
    assert [item.sequence for item in settled] == [2], "told, as of one that was in doubt"
    assert isinstance(entry, CheckpointStarted)
    assert (entry.sequence, entry.id) == (3, 2), "the id is chosen after it is known what stands"
    assert sequences(store) == [1, 2, 3]


def test_a_state_that_somebody_reads_does_not_change_under_their_hands(tmp_path: Path) -> None:
    """Lanes iterate over what they have while the journal's lane appends."""
    journal = open_journal(LocalStore(tmp_path))
    journal.claim(run_started)
    before = journal.state
    copied = JobState.of(entry for _, entry in before.sequences)
    journal.append(started(journal, 1))
    assert before == copied
    assert journal.state.started.keys() == {1}
    assert journal.state == JobState.of(entry for _, entry in journal.state.sequences)
