"""Copies of the newest entries save requests, and decide nothing: with whatever stands in their place, a reader finds
what it finds without them."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from holdfast.errors import DamagedJournal, StorageUnreachable
from holdfast.identifiers import BatchId, FencingEpoch, Sequence
from holdfast.repository import recent
from holdfast.repository.chain import Chain, entry_key, read_chain, survey_entries
from holdfast.repository.entries import CheckpointCompleted, RunStarted
from holdfast.repository.entry_bytes import encode_fold, stored_entry
from holdfast.repository.folding import clear_folded
from holdfast.repository.sealing import sealed
from holdfast.storage.interface import ObjectStore
from holdfast.storage.local import LocalStore
from holdfast.storage.metered import Meter, MeteredStore, Usage
from tests.unit.chained import chained
from tests.unit.churning_runs import ChurningRun, ManualClock
from tests.unit.job_histories import History

_HANDFUL = recent.EVERY + 5


def history_of(home: Path, checkpoints: int) -> History:
    """Copied after each checkpoint, as a run does."""
    history = History(home)
    history.run()
    for id in range(1, checkpoints + 1):
        history.start(id, batch=id)
        history.complete(id, batch=id)
        history.journal.copy_recent()
    return history


def reading(store: ObjectStore) -> tuple[Chain, Usage]:
    meter = Meter()
    return read_chain(MeteredStore(store, meter)), meter.usage


def each_by_itself(store: ObjectStore) -> Chain:
    return read_chain(store, copies=False)


@pytest.mark.parametrize("checkpoints", [20, 200])
def test_a_journal_takes_as_few_requests_however_long_it_is(tmp_path: Path, checkpoints: int) -> None:
    store = history_of(tmp_path / "home", checkpoints).store
    chain, usage = reading(store)
    assert chain == each_by_itself(store)
    assert len(chain.entries) == 1 + 2 * checkpoints
    assert usage.get <= _HANDFUL
    assert usage.list == 1


def test_behind_a_fold_too(tmp_path: Path) -> None:
    history = history_of(tmp_path / "home", 30)
    history.journal.fold(frozenset({Sequence(2)}), Sequence(0))
    assert history.journal.state.folded is not None
    clear_folded(history.store, history.journal.state.folded.upto)
    for id in range(31, 60):
        history.start(id)
        history.complete(id)
        history.journal.copy_recent()
    chain, usage = reading(history.store)
    assert chain == each_by_itself(history.store)
    assert chain.fold is not None
    assert usage.get <= _HANDFUL


def test_a_run_writes_the_copies_and_the_next_one_starts_with_a_handful(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    clock = ManualClock()
    run = ChurningRun(tmp_path / "home", tmp_path / "work", clock)
    run.batches(40)
    run.stop()
    chain, usage = reading(LocalStore(tmp_path / "home", within="churn"))
    assert len(chain.entries) > 80
    assert usage.get <= _HANDFUL
    read: list[str] = []

    def told(key: str) -> bool:
        read.append(key)
        return False

    ChurningRun(tmp_path / "home", tmp_path / "work", clock, seed=1, unreadable=told).stop()
    assert 0 < sum(key.startswith("journal/0") for key in read) <= 2 * _HANDFUL


def _forged(history: History) -> bytes:
    """Sealed and chained like a journal, of the same lengths, with other manifests and another owner."""
    entries = []
    for stored in each_by_itself(history.store).entries:
        entry = stored.entry
        if isinstance(entry, CheckpointCompleted):
            entry = msgspec.structs.replace(entry, manifest=entry.manifest[::-1])
        if isinstance(entry, RunStarted):
            entry = msgspec.structs.replace(entry, lineage=entry.lineage[::-1])
        entries.append(entry)
    forged = chained(entries)
    assert [len(stored.data) for stored in forged] == [len(s.data) for s in each_by_itself(history.store).entries]
    return _packed(encode_fold(forged[-1].sequence, forged))


def _packed(document: bytes) -> bytes:
    return gzip.compress(document)


def _with(history: History, **fields: object) -> bytes:
    """Sealed copies of which the last but three claims something else."""
    entries = list(each_by_itself(history.store).entries)
    entries[-4] = stored_entry(msgspec.structs.replace(entries[-4].entry, **fields))
    return _packed(encode_fold(entries[-1].sequence, entries))


def _as_written(history: History) -> bytes:
    return history.store.get(recent.KEY)


def _older(history: History) -> bytes:
    entries = each_by_itself(history.store).entries[:12]
    return _packed(encode_fold(entries[-1].sequence, entries))


def _of_another_job(history: History) -> bytes:
    return _as_written(history_of(history.home.parent / "other", 30))


def _doubled(history: History) -> bytes:
    entries = each_by_itself(history.store).entries
    return _packed(encode_fold(entries[-1].sequence, [*reversed(entries), *entries]))


PLANTED: dict[str, Callable[[History], bytes]] = {
    "forged": _forged,
    "another batch": lambda history: _with(history, barrier_batch_id=BatchId(99)),
    "another number": lambda history: _with(history, sequence=Sequence(3)),
    "a number without end": lambda history: _with(history, sequence=Sequence(10**18)),
    "another run": lambda history: _with(history, fencing_epoch=FencingEpoch(7)),
    "older": _older,
    "of another job": _of_another_job,
    "twice, backwards": _doubled,
    "nothing": lambda history: b"",
    "no gzip": lambda history: b"not what was written",
    "cut off": lambda history: _as_written(history)[:-20],
    "bytes behind": lambda history: _as_written(history) + b"more",
    "no checksum": lambda history: _packed(b'{"format":2,"upto":1,"entries":[]}'),
    "no entries": lambda history: _packed(sealed(b'{"format":2,"upto":1,"entries":[]}')),
    "newer format": lambda history: _packed(sealed(b'{"format":99,"upto":1,"entries":[]}')),
    "not an entry": lambda history: _packed(sealed(b'{"format":2,"upto":1,"entries":[17,"x",null,{"kind":"y"}]}')),
    "no text": lambda history: _packed(sealed(b'{"format":2,"upto":1,"entries":["\xff"]}')),
    "deep": lambda history: _packed(
        sealed(b'{"format":2,"upto":1,"entries":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}")
    ),
    "a bomb": lambda history: _packed(bytes(64 << 20)),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_stands_in_place_of_the_copies_changes_no_outcome(tmp_path: Path, planted: str) -> None:
    history = history_of(tmp_path / "home", 30)
    whole = each_by_itself(history.store)
    history.store.put(recent.KEY, PLANTED[planted](history))
    assert reading(history.store)[0] == whole


class Refusing(LocalStore):
    def read(self, key: str, offset: int, length: int) -> bytes:
        if key == recent.KEY:
            raise StorageUnreachable(f"could not read {key}: archived")
        return super().read(key, offset, length)


def test_copies_that_are_gone_or_cannot_be_read_change_no_outcome(tmp_path: Path) -> None:
    history = history_of(tmp_path / "home", 30)
    whole = each_by_itself(history.store)
    assert read_chain(Refusing(tmp_path / "home", within="orders")) == whole
    history.store.delete(recent.KEY)
    assert read_chain(history.store) == whole


@pytest.mark.parametrize("sequence", [2, 30, 61])
def test_a_copy_stands_for_no_entry_that_the_home_has_lost(tmp_path: Path, sequence: int) -> None:
    history = history_of(tmp_path / "home", 31)
    history.store.delete(entry_key(sequence))
    with pytest.raises(DamagedJournal, match=f"entry {sequence} is missing"):
        read_chain(history.store)


def test_a_copy_stands_for_no_entry_that_was_cut_off(tmp_path: Path) -> None:
    history = history_of(tmp_path / "home", 30)
    key = entry_key(20)
    history.store.put(key, history.store.get(key)[:-1])
    with pytest.raises(DamagedJournal, match=key):
        read_chain(history.store)


def test_a_flipped_byte_is_survived_and_verify_names_it(tmp_path: Path) -> None:
    history = history_of(tmp_path / "home", 30)
    whole = each_by_itself(history.store)
    key = entry_key(20)
    history.store.put(key, history.store.get(key).replace(b'"kind"', b'"kine"'))
    assert read_chain(history.store) == whole, "the entry after it proves the copy"
    assert key in survey_entries(history.store).damaged


def test_the_newest_entry_is_never_a_copy(tmp_path: Path) -> None:
    history = history_of(tmp_path / "home", 30)
    newest = each_by_itself(history.store).entries[-1]
    other = stored_entry(msgspec.structs.replace(newest.entry, barrier_batch_id=BatchId(31)))
    assert len(other.data) == len(newest.data)
    copies = (*each_by_itself(history.store).entries[:-1], other)
    history.store.put(recent.KEY, _packed(encode_fold(other.sequence, copies)))
    tip = read_chain(history.store).tip
    assert tip is not None
    assert tip.data == newest.data


def test_a_run_that_lost_the_job_copies_nothing(tmp_path: Path) -> None:
    history = history_of(tmp_path / "home", 30)
    newer = History(tmp_path / "home", attempts="newer")
    newer.journal.load()
    newer.run()
    with pytest.raises(Exception, match="owns the job"):
        history.start(31)
    history.store.put(recent.KEY, b"of the newer run")
    history.journal._copied = Sequence(0)
    history.journal.copy_recent()
    assert history.store.get(recent.KEY) == b"of the newer run"


def test_anybody_can_read_them(tmp_path: Path) -> None:
    history = history_of(tmp_path / "home", 30)
    document = json.loads(gzip.decompress(history.store.get(recent.KEY)))
    entries = [json.loads(history.store.get(entry_key(number))) for number in range(1, len(document["entries"]) + 1)]
    assert document["entries"] == entries
