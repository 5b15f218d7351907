"""The collector in whole runs: what is deleted, when, at which pace, and what happens when that fails."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.repository import retention
from holdfast.repository.entries import Process, RequestAnswered
from holdfast.runtime.requests.asking import Asker, ask
from holdfast.snapshot import carrier
from holdfast.storage.local import LocalStore
from tests.unit.churning_runs import (
    JOB,
    LARGE,
    ChurningRun,
    ManualClock,
    manifest_of,
    needed_keys,
    state_of,
    stored_keys,
)
from tests.unit.work_files import write

NewRun = Callable[..., ChurningRun]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def new_run(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> NewRun:
    monkeypatch.setattr(carrier, "PACKED_BELOW", LARGE)
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    clock = ManualClock()

    def new(seed: int = 0, **settings: object) -> ChurningRun:
        return ChurningRun(home, tmp_path / "work", clock, seed, **settings)  # type: ignore[arg-type]

    return new


def refuse(run: ChurningRun, *beginnings: str) -> list[str]:
    """Let every deletion of such a key fail; the keys that were tried."""
    tried: list[str] = []

    def refuses(key: str, data: bytes) -> bool:
        refused = not data and key.startswith(beginnings)
        if refused:
            tried.append(key)
        return refused

    run.store.refuses = refuses
    return tried


def test_nothing_but_what_is_needed_stays(new_run: NewRun, home: Path) -> None:
    run = new_run()
    run.batches(9)
    run.wait(1.0)
    assert len(state_of(home).retained()) == 2
    assert stored_keys(home) == needed_keys(home)


def test_what_a_failed_checkpoint_left_is_freed_by_the_same_run(new_run: NewRun, home: Path) -> None:
    run = new_run()
    run.batches(2)
    run.store.refuses = lambda key, data: b'"checkpoint-completed"' in data
    run.batches(4)  # the state is based anew meanwhile: what was uploaded for it before is of no use to anybody
    orphans = stored_keys(home) - needed_keys(home)
    assert {key.split("/")[0] for key in orphans} == {"blobs", "packs", "manifests"}
    run.store.refuses = lambda key, data: False
    run.batches(6)
    run.wait(3.0)
    assert stored_keys(home) == needed_keys(home)
    assert not orphans & stored_keys(home)


def test_a_deletion_that_fails_is_tried_again_without_a_further_checkpoint(new_run: NewRun, home: Path) -> None:
    run = new_run()
    run.batches(3)
    tried = refuse(run, "blobs/", "packs/", "manifests/")
    run.batches(1)
    assert tried
    late = stored_keys(home) - needed_keys(home)
    assert late
    run.store.refuses = lambda key, data: False
    run.wait(10.0)
    assert not late & stored_keys(home)


def test_pauses_grow_while_the_store_does_not_delete(new_run: NewRun) -> None:
    run = new_run()
    run.batches(3)
    tried = refuse(run, "blobs/", "packs/", "manifests/")
    run.batches(1)
    tried.clear()
    run.wait(60.0)
    assert len(tried) <= 6 * 3, "three keys after 1, 2, 4, 8, 16, 32 seconds"


def test_one_key_that_cannot_be_deleted_does_not_keep_the_others(new_run: NewRun, home: Path) -> None:
    run = new_run()
    run.batches(3)
    bad = sorted(key for key in stored_keys(home) if key.startswith("blobs/"))[0]
    refuse(run, bad)
    run.batches(8)
    run.wait(40.0)
    assert stored_keys(home) - needed_keys(home) == {bad}


def test_an_entry_of_the_journal_that_cannot_be_trimmed_does_not_keep_the_objects(
    new_run: NewRun, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.repository.retention.HISTORY_KEPT", 5)
    run = new_run()
    tried = refuse(run, "journal/")
    run.batches(8)
    run.wait(40.0)
    assert len(set(tried)) == 1, "in order: the oldest first"
    assert stored_keys(home) == needed_keys(home)
    run.store.refuses = lambda key, data: False
    run.wait(60.0)
    assert len(list((home / "churn" / "journal").iterdir())) < 12


@pytest.mark.parametrize("checkpoints", [0, 2])
def test_runs_that_complete_no_checkpoint_do_not_make_the_journal_longer(
    new_run: NewRun, home: Path, monkeypatch: pytest.MonkeyPatch, checkpoints: int
) -> None:
    """Such as those of a job that supervision starts again and again."""
    monkeypatch.setattr(retention, "HISTORY_KEPT", 20)
    monkeypatch.setattr(retention, "RUNS_KEPT", 5)
    first = new_run()
    first.batches(checkpoints)
    first.stop()
    for seed in range(1, 80):
        new_run(seed).stop()
    new_run(80).wait(10)  # the entries that a fold replaced are deleted in the background
    assert len(state_of(home).sequences) < 50
    assert len(list((home / JOB / "journal").iterdir())) < 50
    assert len(state_of(home).completed) == checkpoints


def test_deleting_keeps_its_pace(new_run: NewRun, home: Path) -> None:
    run = new_run(deletes_per_second=10)
    refuse(run, "blobs/", "packs/", "manifests/")
    run.batches(22)
    waiting = len(stored_keys(home) - needed_keys(home))
    assert waiting > 40
    run.store.refuses = lambda key, data: False
    left = []
    for _ in range(20):
        before = len(stored_keys(home))
        run.wait(2.0)
        left.append(before - len(stored_keys(home)))
    assert stored_keys(home) == needed_keys(home)
    assert max(left) <= 20, "twenty in two seconds"


def test_objects_of_a_retired_checkpoint_stay_for_the_grace(new_run: NewRun, home: Path) -> None:
    run = new_run(grace="30s")
    run.batches(2)
    oldest, *_ = state_of(home).retained()
    manifest = manifest_of(home, oldest)
    run.batches(4)
    assert oldest.id in state_of(home).retired
    assert {file.key for file in manifest.files()} <= stored_keys(home)
    run.wait(31.0)
    assert stored_keys(home) == needed_keys(home)


def test_the_grace_survives_a_restart_of_the_owner(new_run: NewRun, home: Path) -> None:
    first = new_run(grace="30s")
    first.batches(2)
    oldest, *_ = state_of(home).retained()
    manifest = manifest_of(home, oldest)
    first.batches(4)
    first.wait(10.0)
    second = new_run(1, grace="30s")
    second.wait(10.0)
    assert {file.key for file in manifest.files()} <= stored_keys(home), "20 seconds since"
    second.wait(20.0)
    assert stored_keys(home) == needed_keys(home)


def asked_to_collect(run: ChurningRun, home: Path) -> RequestAnswered:
    asker = Asker(run.clock, run.wait, Process("terminal", 1), lambda: "a-request")
    return ask(JOB, LocalStore(home, within=JOB), state_of(home), "collect", timeout=60.0, asker=asker)


def test_a_running_job_that_is_asked_looks_for_leftovers_and_says_what_it_deletes(new_run: NewRun, home: Path) -> None:
    run = new_run(grace="60s")
    run.batches(4)
    orphan = f"packs/{'ab' * 32}.0"
    LocalStore(home, within=JOB).upload(orphan, [b"came late"])
    answer = asked_to_collect(run, home)
    assert answer.failure is None
    assert answer.message.startswith("1 objects are deleted in the background; ")
    run.wait(1.0)
    assert orphan not in stored_keys(home)


def test_a_running_job_that_cannot_look_says_why(new_run: NewRun, home: Path) -> None:
    run = new_run()
    run.batches(2)
    run.store.refuses = lambda key, data: key in ("blobs/", "packs/")
    failure = asked_to_collect(run, home).failure
    assert failure is not None
    assert (failure.reason, failure.hint != "") == ("storage_unreachable", True)


def test_the_claim_of_a_run_says_what_it_keeps(new_run: NewRun, home: Path) -> None:
    new_run(retained=3, keep_hourly=4, keep_daily=5, grace="30s")
    rule = state_of(home).runs[-1].retention
    assert rule is not None
    assert (rule.retained, rule.keep_hourly, rule.keep_daily, rule.grace_s) == (3, 4, 5, 30.0)


def churn_with_one_file_of_each_batch_kept(run: ChurningRun, home: Path) -> list[int]:
    """How many bytes the packs have after each batch."""
    sizes = []
    for number in range(60):
        write(Path(run.query.directory), {f"sources/0/kept-{number}": os.urandom(20)})
        run.batches(1)
        sizes.append(sum(path.stat().st_size for path in home.glob("*/packs/*")))
    return sizes


def test_a_pack_kept_for_little_is_left_behind_and_space_stays_bounded(new_run: NewRun, home: Path) -> None:
    run = new_run(parallelism=1)
    sizes = churn_with_one_file_of_each_batch_kept(run, home)
    run.wait(3.0)
    newest = state_of(home).retained()[-1]
    kept = sum(file.size for file in manifest_of(home, newest).files() if file.path.startswith("sources/"))
    assert kept == 60 * 20
    assert max(sizes) < 10_000
    assert stored_keys(home) == needed_keys(home)


def test_without_that_every_pack_would_stay(new_run: NewRun, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.runtime.upkeep.collecting.sparse_packs", lambda newest, sizes, pinned: ())
    sizes = churn_with_one_file_of_each_batch_kept(new_run(parallelism=1), home)
    assert max(sizes) > 20_000


def test_a_pack_that_a_savepoint_names_is_not_carried_anew(new_run: NewRun, home: Path) -> None:
    run = new_run(parallelism=1)
    run.batches(2)
    run.query.batch()
    run.runtime.request("savepoint", "pinned", lambda answer: None)
    run.wait(1.0)
    (savepoint,) = (entry for entry in state_of(home).retained() if entry.name)
    (pack,) = {file.key for file in manifest_of(home, savepoint).files() if file.path == "metadata"}
    run.batches(10)
    newest = state_of(home).retained()[-1]
    assert [file.key for file in manifest_of(home, newest).files() if file.path == "metadata"] == [pack]
