"""A process that dies between any two operations on the store: nothing needed is missing, and nothing stays behind."""

import os
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from holdfast.repository import retention
from holdfast.repository.verification import verify
from holdfast.snapshot import carrier
from tests.clean_processes import FORKS
from tests.patience import PATIENCE
from tests.unit.churning_runs import (
    JOB,
    LARGE,
    ChurningRun,
    LocalStore,
    ManualClock,
    needed_keys,
    state_of,
    stored_keys,
)

CRASHES = 100
DIED = 9
TWO_DAYS = 2 * 86_400


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small_and_quick(monkeypatch)


def make_small_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "PACKED_BELOW", LARGE)
    monkeypatch.setattr(retention, "HISTORY_KEPT", 12)
    # Here a process dies, not the machine.
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def dying_run(tell: Connection, home: Path, work: Path, clock: ManualClock, operations: int) -> None:
    """In a process of its own, which dies after so many operations and tells where that was."""
    make_small_and_quick(pytest.MonkeyPatch())
    left = operations

    def watch(operation: str, key: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            tell.send(f"{operation} {key}")
            os._exit(DIED)

    ChurningRun(home, work, clock, operations, watch, grace="1s").batches(8)
    assert left > 0
    tell.send(None)


def dies(home: Path, work: Path, clock: ManualClock, operations: int) -> str | None:
    """Where a run died after so many operations, None when it did not."""
    told, tell = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=dying_run, args=(tell, home, work, clock, operations))
    process.start()
    tell.close()
    with told:
        try:
            assert told.poll(PATIENCE), f"a run that dies after {operations} operations hangs"
            where: str | None = told.recv()
        finally:
            process.join(PATIENCE)
            process.kill()
    assert process.exitcode == (DIED if where else 0)
    return where


def require_sound(home: Path) -> None:
    store = LocalStore(home, within=JOB)
    for entry in state_of(home).retained():
        assert verify(store, entry.id, entry.manifest, parallelism=1).corrupt == ()


def make_temporaries_old(home: Path, clock: ManualClock) -> None:
    for path in home.rglob(".tmp-*"):
        os.utime(path, (clock.wall().timestamp() - TWO_DAYS,) * 2)


@pytest.mark.long
def test_a_hundred_crashes_during_collection(tmp_path: Path) -> None:
    clock = ManualClock()
    places: list[str] = []
    while where := dies(*(home_and_work := place_for(tmp_path, len(places))), clock, len(places) + 1):
        home, work = home_and_work
        places.append(where)
        require_sound(home)
        make_temporaries_old(home, clock)
        ChurningRun(home, work, clock, 1000 + len(places), grace="1s").wait(2.5)
        require_sound(home)
        assert stored_keys(home) == needed_keys(home), f"after a crash at {where}"
    assert len(places) >= CRASHES
    assert {where.split("/")[0] for where in places} >= {
        "create journal", "delete journal", "delete packs", "delete blobs", "delete manifests",
        "list blobs", "list packs", "upload packs", "half of upload packs",
    }  # fmt: skip


def place_for(tmp_path: Path, crash: int) -> tuple[Path, Path]:
    """A new home now and then: a journal keeps every claim, and reading hundreds of them again and again is slow."""
    home = tmp_path / f"home-{crash // 20}"
    home.mkdir(exist_ok=True)
    return home, tmp_path / f"work-{crash // 20}"
