"""R1: absence is a claim that needs two witnesses."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.checkpoint.manifest import manifest_key
from holdfast.cli.main import main
from holdfast.errors import DamagedJournal, Fenced, ObjectNotFound, StorageUnreachable
from holdfast.identifiers import AttemptId, BatchId, Sequence
from holdfast.plans.log import PlanLog
from holdfast.repository.absence import absent_among, proven_absent
from holdfast.repository.chain import entry_key, fold_key, read_entries, survey_entries
from holdfast.repository.entries import AnyEntry, RunStarted, Stamp
from holdfast.repository.entry_bytes import encode_entry
from holdfast.repository.folding import clear_folded
from holdfast.repository.journal import Journal
from holdfast.repository.lines import plan_key
from holdfast.repository.retention import keys_of
from holdfast.repository.state import JobState
from holdfast.repository.survey import retired_keys
from holdfast.runtime.upkeep.collecting import LOOKS_EVERY_S
from holdfast.runtime.upkeep.freeing import clear, fold
from holdfast.storage.interface import Created, StoredObject
from holdfast.storage.local import LocalStore
from holdfast.storage.retrying import Patience
from tests.unit.churning_runs import JOB, ChurningRun, ManualClock, manifest_of, needed_keys, state_of
from tests.unit.job_histories import ELSEWHERE, History
from tests.unit.test_plans import plan

KEY = "blobs/ab/abcd.3"


class Denying(LocalStore):
    """Answers "not there" for a key, so often."""

    denied: str | None = None
    times = 0
    hides = False

    def _denies(self, key: str) -> bool:
        if key != self.denied or self.times <= 0:
            return False
        self.times -= 1
        return True

    def get(self, key: str) -> bytes:
        if self._denies(key):
            raise ObjectNotFound(f"could not read {key}: a gateway says 404")
        return super().get(key)

    def exists(self, key: str) -> bool:
        return not self._denies(key) and super().exists(key)

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        return (item for item in super().list(prefix, after) if not (self.hides and item.key == self.denied))


class Hours:
    """A clock that passes only by waiting."""

    now = 0.0

    def patience(self, deadline: float) -> Patience:
        return Patience(deadline, lambda: self.now, self.wait)

    def wait(self, seconds: float) -> None:
        self.now += seconds


def denying(tmp_path: Path, key: str, times: int) -> Denying:
    store = Denying(tmp_path)
    store.denied, store.times = key, times
    return store


def test_what_a_gateway_denies_for_a_while_is_not_absent(tmp_path: Path) -> None:
    store = denying(tmp_path, KEY, 5)
    store.put(KEY, b"here")
    assert not proven_absent(store, KEY, Hours().patience(30))


def test_what_is_listed_is_not_absent_however_often_a_read_denies_it(tmp_path: Path) -> None:
    store = denying(tmp_path, KEY, 10_000)
    store.put(KEY, b"here")
    with pytest.raises(StorageUnreachable, match="listed"):
        proven_absent(store, KEY, Hours().patience(30))


def test_gone_by_both_is_absent_after_the_deadline_and_not_before(tmp_path: Path) -> None:
    hours = Hours()
    assert proven_absent(Denying(tmp_path), KEY, hours.patience(30))
    assert hours.now > 20


def test_many_that_are_gone_take_as_long_as_one(tmp_path: Path) -> None:
    store, hours = Denying(tmp_path), Hours()
    store.put(KEY, b"here")
    gone = [f"packs/{number:04d}.1" for number in range(50)]
    assert absent_among(store, [*gone, KEY], hours.patience(30)) == frozenset(gone)
    assert hours.now <= 30


# --- the journal ---


def job(tmp_path: Path) -> History:
    """Two checkpoints, the newer one a savepoint, then somebody went back: seven entries."""
    history = History(tmp_path / "home")
    history.run()
    history.start(1)
    history.complete(1)
    history.start(2)
    history.complete(2, name="release")
    history.retire(1)
    history.end()
    return history


@pytest.mark.parametrize("sequence", range(1, 8))
def test_a_stray_404_hides_no_entry_of_the_journal(tmp_path: Path, sequence: int) -> None:
    whole = job(tmp_path).state()
    store = denying(tmp_path / "home" / "orders", entry_key(sequence), 1)
    assert JobState.of(read_entries(store)) == whole


def test_a_gateway_that_goes_on_denying_an_entry_is_an_outage_and_no_shorter_history(tmp_path: Path) -> None:
    job(tmp_path)
    store = denying(tmp_path / "home" / "orders", entry_key(5), 10_000)
    with pytest.raises(StorageUnreachable, match="listed"):
        list(read_entries(store))


def test_a_listing_that_ends_early_is_not_the_end(tmp_path: Path) -> None:
    job(tmp_path)
    store = denying(tmp_path / "home" / "orders", entry_key(7), 0)
    store.hides = True
    assert [entry.sequence for entry in read_entries(store)] == list(range(1, 8))


@pytest.mark.parametrize("sequence", range(1, 7))
def test_an_entry_that_the_home_has_lost_is_named_and_nothing_goes_on(tmp_path: Path, sequence: int) -> None:
    history = job(tmp_path)
    history.store.delete(entry_key(sequence))
    with pytest.raises(DamagedJournal, match=f"entry {sequence} is missing; the home has lost it"):
        list(read_entries(history.store))
    with pytest.raises(DamagedJournal):
        Journal(history.store, new_attempt=lambda: AttemptId("x"), now=lambda: history.now).load()
    assert list(survey_entries(history.store).damaged) == [entry_key(sequence)]


def test_a_lost_entry_stops_collect_before_it_deletes_anything(tmp_path: Path) -> None:
    history = job(tmp_path)
    orphan = f"blobs/ab/{'ab' * 32}.1"
    history.store.put(orphan, b"of the checkpoint whose entry is lost")
    history.store.delete(entry_key(5))
    assert main(["collect", "--home", str(tmp_path / "home"), "--job", "orders"]) == 4
    assert history.store.exists(orphan)


@pytest.mark.parametrize("name", [".nfs0001", ".DS_Store", f"{1:020d}.json~", "00000000000000000099.json.swp"])
def test_what_is_no_entry_by_its_name_is_not_read(tmp_path: Path, name: str) -> None:
    whole = job(tmp_path).state()
    (tmp_path / "home/orders/journal" / name).write_bytes(b"not ours")
    assert JobState.of(read_entries(LocalStore(tmp_path / "home/orders"))) == whole
    assert (tmp_path / "home/orders/journal" / name).read_bytes() == b"not ours"


def test_a_fold_without_entries_is_no_new_job(tmp_path: Path) -> None:
    history = job(tmp_path)
    history.journal.fold(frozenset(), Sequence(0))
    for item in list(history.store.list("journal/")):
        history.store.delete(item.key)
    with pytest.raises(DamagedJournal, match="no entry is left"):
        list(read_entries(history.store))


def test_a_reader_that_is_overtaken_by_a_fold_reads_again(tmp_path: Path) -> None:
    history = job(tmp_path)

    class Overtaken(LocalStore):
        def get(self, key: str) -> bytes:
            if key == entry_key(3) and not history.store.exists(fold_key(7)):
                history.journal.fold(frozenset({Sequence(2)}), Sequence(0))
                clear_folded(history.store, Sequence(7))
            return super().get(key)

    found = [entry.sequence for entry in read_entries(Overtaken(tmp_path / "home/orders"), readers=1)]
    assert found == [1, 3, 4, 5, 6, 7, 8]


# --- a home that is emptied, swapped or put back under a running job ---


@pytest.fixture
def churn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ChurningRun]:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    (tmp_path / "home").mkdir()
    clock = ManualClock()
    return lambda seed=0, **settings: ChurningRun(tmp_path / "home", tmp_path / "work", clock, seed, **settings)


def told(run: ChurningRun) -> set[str]:
    return {alarm.code for alarm in run.runtime.status.alarms}


def reasons(run: ChurningRun) -> list[str | None]:
    return [record.failure.reason.value if record.failure else None for record in run.runtime.status.recent]


def test_in_a_home_that_was_emptied_no_checkpoint_completes_and_it_heals_when_it_is_put_back(
    tmp_path: Path, churn: Callable[..., ChurningRun]
) -> None:
    run = churn(interval="1s", heartbeat="1s")
    run.batches(2)
    there, away = tmp_path / "home" / "churn", tmp_path / "away"
    there.rename(away)
    there.mkdir()
    run.batches(3)
    assert not run.over, "the pipeline goes on"
    assert "home_replaced" in told(run)
    assert "home_replaced" in reasons(run)
    assert reasons(run)[-1] is not None
    assert not any((there / "journal").glob("*.json")), "what was written in doubt is taken back"
    shutil.rmtree(there)
    away.rename(there)
    run.batches(1)
    run.wait(60.0)
    assert "home_replaced" not in told(run)
    assert reasons(run)[-1] is None
    run.stop()


def test_in_a_home_put_back_from_a_backup_no_checkpoint_completes(
    tmp_path: Path, churn: Callable[..., ChurningRun]
) -> None:
    run = churn(interval="1s", heartbeat="1s")
    run.batches(2)
    shutil.copytree(tmp_path / "home", tmp_path / "backup")
    run.batches(2)
    completed = set(state_of(tmp_path / "home").completed)
    shutil.rmtree(tmp_path / "home" / "churn")
    shutil.copytree(tmp_path / "backup" / "churn", tmp_path / "home" / "churn")
    older = set(state_of(tmp_path / "home").completed)
    assert older < completed
    run.batches(2)
    assert "home_replaced" in told(run)
    assert set(state_of(tmp_path / "home").completed) == older, "its journal is as it was put back"


def test_when_another_run_got_the_same_number_in_a_home_put_back_the_first_one_stops_and_says_why(
    tmp_path: Path, churn: Callable[..., ChurningRun]
) -> None:
    before = churn(1)
    before.batches(1)
    before.stop()
    shutil.copytree(tmp_path / "home", tmp_path / "backup")
    first = churn(2, heartbeat="1s", interval="1s")
    first.batches(1)
    shutil.rmtree(tmp_path / "home" / "churn")
    shutil.copytree(tmp_path / "backup" / "churn", tmp_path / "home" / "churn")
    second = History(tmp_path / "home", job="churn", attempts="second")
    second.journal.load()
    assert second.run() == first.runtime.status.fencing_epoch
    first.batches(2)
    assert isinstance(first.failure, Fenced)
    assert "put back from a backup" in first.failure.message


# --- objects ---


@pytest.mark.parametrize("left", [None, 0, 1])
def test_an_object_that_the_home_has_lost_is_put_back_from_the_work_directory(
    tmp_path: Path, churn: Callable[..., ChurningRun], left: int | None
) -> None:
    """Nothing of it is `left`, or so many bytes: what a machine that lost power makes of a file."""
    run = churn(interval="1s", scrub="off")
    run.batches(3)
    run.stop()
    lost = sorted(key for key in needed_keys(tmp_path / "home") if not key.startswith("manifests/"))
    for path in (tmp_path / "home/churn" / key for key in lost):
        data = path.read_bytes()
        path.unlink()
        if left is not None:
            path.write_bytes(data[:left])
    again = churn(1, interval="1h", scrub="off")
    again.wait(10.0)
    objects = {key: tmp_path / "home/churn" / key for key in lost}
    mended = [key for key, path in objects.items() if path.exists() and path.stat().st_size > (left or 0)]
    assert mended, "what the work directory has is uploaded anew"
    gone = set(lost) - set(mended)
    state = state_of(tmp_path / "home")
    named = {entry.id for entry in state.retained() if keys_of(entry, manifest_of(tmp_path / "home", entry)) & gone}
    assert set(state.corrupt) == named, "the rest is marked"
    assert "checkpoints_damaged" in told(again)
    again.batches(1)
    newest = state_of(tmp_path / "home").retained()[-1]
    assert not keys_of(newest, manifest_of(tmp_path / "home", newest)) & gone or newest.id in named


def test_what_a_lifecycle_rule_deletes_is_missed_by_the_run_that_goes_on(
    tmp_path: Path, churn: Callable[..., ChurningRun]
) -> None:
    """Each later checkpoint named the object as one that is there, and completed, until somebody needed it."""
    run = churn(interval="1h", scrub="off")
    run.query.batch()
    run.clock.now += 3600
    run.wait(5.0)
    lost = sorted(key for key in needed_keys(tmp_path / "home") if not key.startswith("manifests/"))
    for key in lost:
        (tmp_path / "home/churn" / key).unlink()
    run.clock.now += LOOKS_EVERY_S
    run.wait(10.0)
    missing = [key for key in lost if not (tmp_path / "home/churn" / key).exists()]
    named = {
        entry.id
        for entry in state_of(tmp_path / "home").retained()
        if keys_of(entry, manifest_of(tmp_path / "home", entry)) & set(missing)
    }
    assert set(state_of(tmp_path / "home").corrupt) == named
    assert len(missing) < len(lost) or named, "put back from the work directory, or marked"
    run.batches(1)
    newest = state_of(tmp_path / "home").restorable()[0]
    assert not keys_of(newest, manifest_of(tmp_path / "home", newest)) & set(missing)


def test_collect_tells_what_is_missing(tmp_path: Path, churn: Callable[..., ChurningRun], capsys: object) -> None:
    run = churn(interval="1s")
    run.batches(3)
    run.stop()
    lost = next(key for key in sorted(needed_keys(tmp_path / "home")) if not key.startswith("manifests/"))
    (tmp_path / "home/churn" / lost).unlink()
    main(["collect", "--home", str(tmp_path / "home"), "--job", "churn", "--dry-run", "--json"])
    assert json.loads(capsys.readouterr().out)["missing"] == [lost]  # type: ignore[attr-defined]


# --- a home of format 1 ---


def test_a_home_of_format_1_is_opened_continued_and_folded(
    tmp_path: Path, churn: Callable[..., ChurningRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.repository.retention.HISTORY_KEPT", 6)
    shutil.copytree(Path(__file__).parents[1] / "unit/homes/format1", tmp_path / "home", dirs_exist_ok=True)
    old = state_of(tmp_path / "home")
    assert {entry.format for _, entry in old.sequences} == {1}
    assert [entry.id for entry in old.retained()] == [11, 12]
    run = churn(3)
    run.batches(4)
    run.wait(30.0)
    run.stop()
    new = state_of(tmp_path / "home")
    assert new.lineage == old.lineage
    assert new.last_checkpoint > old.last_checkpoint
    assert new.folded is not None
    first = min(item.key for item in LocalStore(tmp_path / "home", within="churn").list("journal/"))
    assert first > entry_key(38), "what the fold stands for is gone"
    assert needed_keys(tmp_path / "home") <= {str(p.relative_to(tmp_path / "home/churn")) for p in files(tmp_path)}


def test_a_run_of_format_1_that_slept_through_the_first_fold_finds_its_next_place_taken(
    tmp_path: Path, churn: Callable[..., ChurningRun]
) -> None:
    """It proves nothing: what it finds free it believes in, publishes by it and deletes by it."""
    shutil.copytree(Path(__file__).parents[1] / "unit/homes/format1", tmp_path / "home", dirs_exist_ok=True)
    old = state_of(tmp_path / "home")
    run = churn(3)
    run.batches(4)
    run.wait(30.0)
    store = LocalStore(tmp_path / "home", within="churn")
    assert not store.exists(entry_key(old.head)), "it was folded, and what the fold stands for is gone"
    assert store.create(entry_key(old.head + 1), b"{}") is Created.LOST
    run.stop()
    churn(4).stop()


def test_a_run_that_slept_behind_the_claim_that_stays_is_fenced_all_the_same(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[1] / "unit/homes/format1", tmp_path / "home")
    store = LocalStore(tmp_path / "home", within="churn")
    slow, quick = (History(tmp_path / "home", "churn", attempts=name) for name in ("slow", "quick"))
    made: list[AnyEntry] = []

    def make(stamp: Stamp) -> AnyEntry:
        if made:
            quick.journal.load()
            quick.run()
            quick.journal.fold(frozenset(), Sequence(0))
            clear(store, quick.journal)
        made.append(
            RunStarted(
                **stamp,
                lineage="x",
                process=ELSEWHERE,
                heartbeat_s=5.0,
                work="",
                holdfast="0.2.0",
            )
        )
        return made[-1]

    slow.journal.load()
    with pytest.raises(Fenced):
        slow.journal.claim(make)
    assert [entry.sequence for entry in made] == [39, 40]
    assert quick.state().fencing_epoch == 40
    quick.complete(13)
    assert store.exists(entry_key(39)), "the place of the first one stays taken"


def files(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "home/churn").rglob("*") if path.is_file()]


def test_an_entry_of_format_1_behind_one_of_format_2_is_refused(tmp_path: Path) -> None:
    history = job(tmp_path)
    (newest,) = (entry for entry in read_entries(history.store) if entry.sequence == 7)
    history.store.put(entry_key(7), encode_entry(msgspec.structs.replace(newest, format=1)))
    with pytest.raises(DamagedJournal, match="format 1, after one of format 2"):
        list(read_entries(history.store))


def test_the_journal_of_a_job_that_started_six_hundred_times_stays_small(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    for number in range(600):
        history.run()
        if number == 0:
            history.complete(1)
        history.end()
        if fold(history.journal, 0.0, history.now):
            clear(history.store, history.journal)
    objects = [item.key for item in history.store.list("") if item.key.startswith(("journal/", "folds/"))]
    assert len(objects) < 800
    assert len(history.state().sequences) < 800
    assert Journal(history.store, new_attempt=lambda: AttemptId("x"), now=lambda: history.now).load() == history.state()


def test_one_404_on_the_manifest_of_a_retired_checkpoint_takes_no_grace_away(tmp_path: Path) -> None:
    """Simulation, seed 1454: what it names was deleted while somebody might be restoring it."""
    home = tmp_path / "home"
    home.mkdir()
    ChurningRun(home, tmp_path / "work", ManualClock()).batches(1)
    state = state_of(home)
    (entry,) = state.completed.values()
    store = Denying(home, within=JOB)
    store.denied, store.times = manifest_key(entry.manifest), 1

    with pytest.raises(StorageUnreachable, match="could not read what checkpoint"):
        retired_keys(store, state, {entry.id: 5.0})

    assert retired_keys(store, state, {entry.id: 5.0})


def test_a_listing_that_ends_early_is_not_the_end_of_the_plans(tmp_path: Path) -> None:
    """Its last batches would be cut anew under ids that a writer has seen."""
    folder = "plans/00000000000000000000-0a1b2c3d/"
    store = Denying(tmp_path)
    for batch in range(3, 6):
        PlanLog(store, folder).create(plan(batch))
    store.denied, store.hides = plan_key(folder, BatchId(5)), True
    assert [found.batch_id for found in PlanLog(store, folder).behind(BatchId(2)).plans] == [3, 4, 5]
