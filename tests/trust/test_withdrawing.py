"""R3. A run that wrote to a home which is not its own takes back what it wrote there, and nothing else."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from holdfast.errors import Fenced, HomeReplaced
from holdfast.identifiers import AttemptId, BatchId, CheckpointId
from holdfast.repository.entries import CheckpointStarted, Process, RunStarted
from holdfast.repository.journal import Journal, MakeEntry, entry_key, read_entries
from holdfast.storage.interface import Created
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
    journal.claim(
        lambda stamp: RunStarted(**stamp, lineage="life",
            process=Process("host", 1), heartbeat_s=1.0, work="/work", holdfast="0",
        )
    )  # fmt: skip
    return journal


def started(id: int) -> MakeEntry:
    return lambda stamp: CheckpointStarted(
        **stamp,
        id=CheckpointId(id),
        barrier_batch_id=BatchId(0),
        checkpoint_kind="checkpoint",
        name=None,
    )


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
