"""A home that was emptied, swapped or put back from a backup, before a start or under a run. Without a sink."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.errors import Conflict, Fenced, HomeReplaced
from holdfast.identifiers import Sequence
from holdfast.repository.collection import Unneeded, Why
from holdfast.repository.fresh_proof import HOLDS_S
from holdfast.repository.mailbox import read_request
from holdfast.repository.state import JobState
from holdfast.runtime.requests.serving import Serving
from holdfast.runtime.upkeep import freeing
from holdfast.runtime.upkeep.collecting import Collector
from holdfast.runtime.work_marker import read_marker
from holdfast.snapshot import carrier
from holdfast.storage.limited import Allowance
from holdfast.storage.local import LocalStore
from holdfast.workdir.factory import work_directory
from tests.trust.jobs_with_sinks import contents
from tests.trust.jobs_with_sinks import job as job
from tests.unit.churning_runs import JOB, ChurningRun, ManualClock, needed_keys, state_of, stored_keys
from tests.unit.job_histories import History
from tests.unit.test_mailbox import Desk, answered_by


class Lives:
    """One run after another."""

    def __init__(self, root: Path) -> None:
        self.home, self.work = root / "home", root / "work"
        self.home.mkdir()
        self.clock = ManualClock()
        self.number = 0

    def run(self, **settings: object) -> ChurningRun:
        self.number += 1
        return ChurningRun(self.home, self.work, self.clock, self.number, **{"retained": 9, **settings})


@pytest.fixture
def lives(tmp_path: Path) -> Lives:
    lives = Lives(tmp_path)
    run = lives.run()
    run.batches(2)
    run.stop()
    return lives


def test_a_home_that_was_emptied_is_not_a_new_job(lives: Lives) -> None:
    shutil.rmtree(lives.home / JOB)
    before = contents(lives.home.parent)
    with pytest.raises(Conflict, match="this home has never seen it, but the work directory"):
        lives.run()
    assert contents(lives.home.parent) == before, "a refusal leaves no trace"
    run = lives.run(new_life=True)
    assert state_of(lives.home).fencing_epoch > 5, "above what the old life's runs had"
    assert list(lives.work.glob("churn.stale-*")), "the old work directory is set aside, not removed"
    run.batches(1)
    run.stop()
    lives.run(new_life=True).stop()  # by a supervisor, with the same arguments: the same life goes on
    assert len({run.lineage for run in state_of(lives.home).runs}) == 1


def test_a_home_that_was_put_back_from_a_backup_is_older_than_its_work_directory(lives: Lives) -> None:
    backup = shutil.copytree(lives.home, lives.home.parent / "backup")
    run = lives.run()
    run.batches(2)
    run.stop()
    seen = state_of(lives.home).head
    shutil.rmtree(lives.home)
    shutil.copytree(backup, lives.home)
    before = contents(lives.home.parent)
    with pytest.raises(Conflict, match="the home is older than what it is compared with: the work directory"):
        lives.run()
    assert contents(lives.home.parent) == before
    run = lives.run(accept_older_home=True)
    assert state_of(lives.home).fencing_epoch > seen - 2, "no number is handed out twice"
    assert run.runtime._life.resumed.barrier == 1, "from the home's newest checkpoint, not from the newer directory"
    run.batches(1)
    run.stop()
    lives.run().stop()


def test_a_running_job_deletes_nothing_in_a_home_that_was_put_back_under_it(tmp_path: Path) -> None:
    """What it has retired since is what the checkpoints of the older home consist of."""
    home = tmp_path / "home"
    home.mkdir()
    run = ChurningRun(home, tmp_path / "work", ManualClock(), retained=1, grace="10s")
    run.batches(3)
    backup = shutil.copytree(home, tmp_path / "backup")
    run.batches(3)
    shutil.rmtree(home / JOB)
    shutil.copytree(backup / JOB, home / JOB)
    run.wait(60)
    assert needed_keys(home) <= stored_keys(home)
    shutil.rmtree(tmp_path / "work")
    ChurningRun(home, tmp_path / "work", run.clock, 1, retained=1, accept_older_home=True).stop()
    assert not state_of(home).corrupt


@pytest.mark.parametrize("first", ["blobs/", "journal/"])
def test_a_run_that_slept_between_two_deletions_deletes_nothing_in_a_home_that_was_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """A proof from before it slept proves nothing: what it retired since, the older home's checkpoints need."""
    monkeypatch.setattr("holdfast.repository.retention.HISTORY_KEPT", 6)
    monkeypatch.setattr(carrier, "PACKED_BELOW", 300)
    home, backup, clock = tmp_path / "home", tmp_path / "backup", ManualClock()
    home.mkdir()
    before: list[set[str]] = []

    def sleep_behind_the_first(operation: str, key: str) -> None:
        if operation == "delete" and key.startswith(first) and backup.exists() and not before:
            put_back(home, backup)
            clock.sleep(HOLDS_S + 1)
            before.append(all_keys(home))

    run = ChurningRun(home, tmp_path / "work", clock, retained=1, grace="10s", watch=sleep_behind_the_first)
    run.batches(3)
    shutil.copytree(home, backup)
    run.batches(12)
    assert before, "it slept"
    assert before[0] <= all_keys(home)


def test_folded_entries_are_deleted_in_the_runs_own_home_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a home that was put back to when the fold was written, and no entry had made it official, they are needed."""
    monkeypatch.setattr("holdfast.repository.retention.HISTORY_KEPT", 6)
    home, backup = tmp_path / "home", tmp_path / "backup"
    home.mkdir()
    clear = Collector._clear_folded
    cleared: list[JobState] = []

    def keep_backup(operation: str, key: str) -> None:
        if operation in ("put", "create") and key.startswith("folds/") and not backup.exists():
            shutil.copytree(home, backup)

    def put_back_first(collector: Collector) -> None:
        if collector._folded and backup.exists() and not cleared:
            put_back(home, backup)
            cleared.append(state_of(home))
        clear(collector)

    monkeypatch.setattr(Collector, "_clear_folded", put_back_first)
    ChurningRun(home, tmp_path / "work", ManualClock(), watch=keep_backup).batches(8)
    assert cleared == [state_of(home)]
    assert cleared[0].folded is None


def test_a_request_is_removed_from_the_runs_own_home_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a home that was put back it has no answer: whoever asked waits for the next run to serve it."""
    desk = Desk(tmp_path)
    finish = Serving._finish
    home = desk.home
    backups: list[Path] = []

    def put_back_first(serving: Serving) -> None:
        if backups:
            put_back(home, backups.pop())
        finish(serving)

    monkeypatch.setattr(Serving, "_finish", put_back_first)
    run = desk.run()
    run.query.batch()
    run.wait(0.5)
    request = desk.request("savepoint", "one")
    backups.append(shutil.copytree(home, tmp_path / "backup"))
    answered_by(run)
    assert not backups, "it was put back after the answer and before the request was removed"
    assert read_request(desk.store) == request


def all_keys(home: Path) -> set[str]:
    return {item.key for item in LocalStore(home, within=JOB).list("")}


def put_back(home: Path, backup: Path) -> None:
    shutil.rmtree(home / JOB)
    shutil.copytree(backup / JOB, home / JOB)


def test_a_collection_of_what_was_put_back_meanwhile_deletes_nothing_there(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backup = shutil.copytree(lives.home, lives.home.parent / "backup")

    def put_back_first(*args: Any, **options: Any) -> freeing.Freed:
        shutil.rmtree(lives.home / JOB)
        shutil.copytree(backup / JOB, lives.home / JOB)
        return free(*args, **options)

    free = freeing.free
    monkeypatch.setattr(freeing, "free", put_back_first)
    assert main(["collect", "--home", f"file://{lives.home}", "--job", JOB, "--retained", "1", "--grace", "0s"]) == 6
    assert "is not the home that this run has written to" in capsys.readouterr().err
    assert len(state_of(lives.home).retained()) == 2
    assert needed_keys(lives.home) <= stored_keys(lives.home)


@pytest.mark.parametrize("became", ["older", "emptied", "another life"])
def test_what_needs_no_entry_is_not_freed_in_a_home_that_came_meanwhile(tmp_path: Path, became: str) -> None:
    """The home is so full that nobody can claim the job in it; what is needless is known from before."""
    history = History(tmp_path / "home")
    history.run()
    history.complete(1)
    backup = shutil.copytree(tmp_path / "home", tmp_path / "backup")
    history.complete(2)
    history.retire(1)
    history.end()
    state = history.state()
    history.store.put("blobs/of-1", b"x")
    needless = [Unneeded("blobs/of-1", 1, Why.RETIRED)]
    shutil.rmtree(tmp_path / "home" / "orders")
    if became == "older":
        shutil.copytree(backup / "orders", tmp_path / "home" / "orders")
    elif became == "another life":
        other = History(tmp_path / "home", attempts="other")
        other.run()
        for id in (1, 2):
            other.complete(id)
        other.end()
    history.store.put("blobs/of-1", b"x")
    with pytest.raises((HomeReplaced, Fenced)):
        freeing.free_without_owning(history.store, state, needless, Allowance(100), lambda done: None)
    assert history.store.exists("blobs/of-1")


def test_folded_entries_are_not_deleted_in_a_home_that_was_put_back_meanwhile(
    tmp_path: Path,
) -> None:
    """What the fold stands for is all that the older home has. It has the fold, too: that was there before the entry
    which made it official."""
    history = History(tmp_path / "home")
    history.run()
    history.complete(1)
    backup = shutil.copytree(tmp_path / "home", tmp_path / "backup")
    history.journal.fold(frozenset(), Sequence(0))
    fold = next(item.key for item in history.store.list("folds/"))
    there = history.store.get(fold)
    shutil.rmtree(tmp_path / "home" / "orders")
    shutil.copytree(backup / "orders", tmp_path / "home" / "orders")
    history.store.put(fold, there)
    with pytest.raises(HomeReplaced):
        freeing.clear(history.store, history.journal)
    assert len(list(history.store.list("journal/"))) == 2


def test_a_backup_of_the_very_same_run_is_noticed_too(lives: Lives) -> None:
    """Epoch and claim are the same; only entries are missing."""
    run = lives.run()
    run.batches(1)
    backup = shutil.copytree(lives.home, lives.home.parent / "backup")
    run.batches(2)
    shutil.rmtree(lives.home)
    shutil.copytree(backup, lives.home)
    with pytest.raises(Conflict, match="knows entry"):
        lives.run()


def test_the_same_epoch_with_another_claim_is_noticed(lives: Lives, tmp_path: Path) -> None:
    """A home that was put back hands the same number out again, on another host."""
    backup = shutil.copytree(lives.home, tmp_path / "backup")
    lives.run().stop()
    shutil.rmtree(lives.home)
    shutil.copytree(backup, lives.home)
    elsewhere = Lives.__new__(Lives)
    elsewhere.home, elsewhere.work, elsewhere.clock, elsewhere.number = lives.home, tmp_path / "w2", lives.clock, 50
    run = elsewhere.run()
    run.batches(2)
    run.stop()
    with pytest.raises(Conflict, match="knows another run"):
        lives.run()


def test_a_run_that_a_fold_has_dropped_is_no_conflict(lives: Lives, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by attack: a savepoint keeps its old run, not those after it; and a host comes back that knew one of
    them."""
    monkeypatch.setattr("holdfast.repository.retention.HISTORY_KEPT", 1)
    monkeypatch.setattr("holdfast.repository.retention.RUNS_KEPT", 1)
    home = ["--home", f"file://{lives.home}", "--job", JOB]
    assert main(["savepoint", "create", "kept", "--from", "1", *home]) == 0
    first = lives.run()
    first.batches(1)
    first.stop()
    lives.work, here = lives.work.with_name("elsewhere"), lives.work
    for _ in range(3):
        run = lives.run(retained=1)
        run.batches(2)
        run.stop()
    runs = [run.fencing_epoch for run in state_of(lives.home).runs]
    marker = read_marker(work_directory(here / JOB))
    assert marker is not None
    assert min(runs) < marker.epoch
    assert marker.epoch not in runs
    lives.work = here
    lives.run().stop()
