"""The query asks before each batch whether it still owns its job, and is not kept waiting by a home that is down."""

from pathlib import Path

import pytest

from holdfast.coordination.events import Event
from holdfast.errors import StorageUnreachable
from holdfast.identifiers import AttemptId
from holdfast.repository.journal import Journal
from holdfast.repository.ownership import current_process
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.ownership.ownership_watch import OwnershipWatch
from holdfast.storage.local import LocalStore
from tests.unit.test_journal import run_started

LOOK = 2
"""Reads: of the own newest entry, and of the place behind it."""


class Asked(LocalStore):
    down = False
    gets = 0

    def get(self, key: str) -> bytes:
        self.gets += 1
        if self.down:
            raise StorageUnreachable("down")
        return super().get(key)


class Clock(SystemClock):
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> Asked:
    return Asked(tmp_path)


@pytest.fixture
def watch(store: Asked, clock: Clock) -> OwnershipWatch:
    def post(event: Event) -> None:
        raise AssertionError(event)

    journal = Journal(store, new_attempt=lambda: AttemptId("watched"), now=clock.wall)
    journal.load()
    journal.claim(run_started)
    return OwnershipWatch(
        store=store,
        journal=journal,
        process=current_process(),
        started_at=clock.wall(),
        interval=5.0,
        application_id=lambda: None,
        clock=clock,
        post=post,
    )


def test_a_home_that_is_down_is_asked_by_the_heartbeat_only(watch: OwnershipWatch, store: Asked, clock: Clock) -> None:
    store.down = True
    for _ in range(20):
        clock.now += 5.0
        watch.beat()
        asked = store.gets
        assert watch.still_owner()
        assert store.gets == asked


def test_a_process_that_slept_through_heartbeats_looks(watch: OwnershipWatch, store: Asked, clock: Clock) -> None:
    watch.beat()
    clock.now += 60.0
    asked = store.gets
    assert watch.still_owner()
    assert store.gets == asked + LOOK


def test_a_look_that_is_under_way_is_enough(watch: OwnershipWatch, store: Asked, clock: Clock) -> None:
    class Slow(Asked):
        def get(self, key: str) -> bytes:
            clock.now += 60.0
            assert watch.still_owner()
            return super().get(key)

    slow = Slow(store._root)
    watch._journal._store = slow
    watch.beat()
    assert slow.gets == LOOK


def test_a_slow_home_is_not_asked_again_for_every_file(watch: OwnershipWatch, store: Asked, clock: Clock) -> None:
    class Slow(Asked):
        def get(self, key: str) -> bytes:
            clock.now += 10.0
            return super().get(key)

    slow = Slow(store._root)
    watch._journal._store = slow
    watch.beat()
    assert watch.still_owner()
    assert slow.gets == LOOK


def test_a_process_that_slept_during_its_look_looks_again(watch: OwnershipWatch, store: Asked, clock: Clock) -> None:
    class Asleep(Asked):
        def get(self, key: str) -> bytes:
            clock.now += 60.0 if self.gets == 0 else 0.0
            return super().get(key)

    asleep = Asleep(store._root)
    watch._journal._store = asleep
    watch.beat()
    assert watch.still_owner()
    assert asleep.gets == 2 * LOOK
