"""R4: an error while reading is a reason to look, not a verdict."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.checkpoint.layout import SnapshotPlan
from holdfast.checkpoint.manifest import Manifest, manifest_key
from holdfast.cli.main import main
from holdfast.errors import (
    Corrupt,
    NewerFormat,
    ObjectNotFound,
    StopAsked,
    StorageDenied,
    StorageError,
    StorageFull,
    StorageUnreachable,
)
from holdfast.identifiers import BatchId, Digest, FencingEpoch
from holdfast.repository import verification
from holdfast.repository.journal import Journal
from holdfast.runtime import job_folder
from holdfast.runtime.job_folder import JobFolder, RunFolder
from holdfast.runtime.ports import RunDirectory, Supervisor
from holdfast.runtime.query.causes import FailureCause, StartFailed, failure_of_text
from holdfast.runtime.recovery.evidence import REFUSALS, Verdict, difference, verdict
from holdfast.runtime.recovery.recovery import Recovery
from holdfast.runtime.work_marker import WorkMarker, read_marker
from holdfast.storage.local import LocalStore
from holdfast.storage.retrying import Patience, RetryingStore
from holdfast.workdir import barriers, soundness
from holdfast.workdir.barriers import newest_barrier
from holdfast.workdir.factory import work_directory
from holdfast.workdir.mounted import MountedDirectory
from tests.trust.jobs_with_sinks import job as job
from tests.unit.churning_runs import (
    BATCHES_RETAINED,
    JOB,
    ChurningQuery,
    ChurningRun,
    ManualClock,
    manifest_of,
    state_of,
)
from tests.unit.test_cli_restore_verify import flip_one_byte

CANNOT_LOAD = "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred"
FRAMES = "\tat org.apache.spark.sql.execution.streaming.state.RocksDB.load(RocksDB.scala:1052)\n\t... 12 more"
MALFORMED = (
    "com.fasterxml.jackson.core.JsonParseException: Unexpected character ('U' (code 85))\n"
    "\tat org.apache.spark.sql.execution.streaming.checkpointing.StreamMetadata$.read(StreamMetadata.scala:61)"
)


def below(*inner: str) -> str:
    return f"\n{FRAMES}\nCaused by: ".join((CANNOT_LOAD, *inner)) + f"\n{FRAMES}"


# --- what Spark's words are worth ---


@pytest.mark.parametrize(
    "inner",
    [
        "java.io.IOException: Input/output error",
        "java.io.FileNotFoundException: /w/state/0/0/3.zip (Too many open files)",
        "java.io.FileNotFoundException: /w/state/0/0/3.zip (Permission denied)",
        "java.nio.file.AccessDeniedException: /w/state/0/0/3.zip",
        "java.io.IOException: Cannot allocate memory",
        "java.io.IOException: No space left on device",
        "java.io.IOException: Stale file handle",
        "java.nio.channels.ClosedByInterruptException",
        "java.lang.InterruptedException",
        "java.io.InterruptedIOException: Interrupted while waiting",
        "org.apache.hadoop.hdfs.BlockMissingException: Could not obtain block: BP-1 file=/w/state/0/0/3.zip",
        "java.io.IOException: Transport endpoint is not connected",
        "java.net.ConnectException: Connection refused",
        "org.rocksdb.RocksDBException: While open a file for random read: /tmp/000007.sst: Too many open files",
        "org.rocksdb.RocksDBException: IO error: No space left on device: While appending to file",
    ],
)
def test_what_the_machine_did_is_no_damage_wherever_it_stands(inner: str) -> None:
    assert failure_of_text(below(inner)).cause is FailureCause.STORAGE
    assert failure_of_text(below(inner, "x.y.Wrapped: bad table magic number")).cause is FailureCause.STORAGE
    assert failure_of_text(below("x.y.Wrapped: state could not be read", inner)).cause is FailureCause.STORAGE


@pytest.mark.parametrize(
    ("inner", "cause"),
    [
        ("x.y.NobodyKnows: something went wrong", FailureCause.STATE_NOT_LOADED),
        ("java.lang.NullPointerException", FailureCause.STATE_NOT_LOADED),
        (
            "java.io.FileNotFoundException: /w/state/0/0/3.delta (No such file or directory)",
            FailureCause.STATE_NOT_LOADED,
        ),
        ("org.rocksdb.RocksDBException: Corruption: bad block contents", FailureCause.STATE_UNREADABLE),
        ("org.apache.hadoop.fs.ChecksumException: Checksum error: /w/state/0/0/3.delta", FailureCause.STATE_UNREADABLE),
    ],
)
def test_only_what_spark_has_read_and_found_wrong_is_called_unreadable(inner: str, cause: FailureCause) -> None:
    assert failure_of_text(below(inner)).cause is cause


@pytest.mark.parametrize(
    ("found_wrong", "different", "covered", "restored", "refusals"),
    list(itertools.product((True, False), (True, False), (True, False), (True, False), (1, REFUSALS))),
)
def test_what_follows_from_what(
    found_wrong: bool, different: bool, covered: bool, restored: bool, refusals: int
) -> None:
    found = verdict(found_wrong=found_wrong, different=different, covered=covered, restored=restored, refusals=refusals)
    blamed = found_wrong and not different and covered and restored and refusals >= REFUSALS
    assert (found is Verdict.CHECKPOINT) == blamed, "only what was proved right and refused twice is abandoned"
    assert not different or found is Verdict.SET_ASIDE
    assert not (covered and not different and not found_wrong) or found is Verdict.KEEP


# --- whole runs ---


class Places:
    """A home with checkpoints 1, 2 and 3, at batches 0, 1 and 2, and the work directory of a run that was killed."""

    def __init__(self, root: Path) -> None:
        self.home, self.work = root / "home", root / "work"
        self.home.mkdir()
        self.clock = ManualClock()
        self.number = 0
        self.run().batches(3)

    def run(self, **settings: object) -> ChurningRun:
        self.number += 1
        return ChurningRun(self.home, self.work, self.clock, seed=self.number, retained=5, **settings)

    def aside(self) -> int:
        return len(list(self.work.glob("*/*.aside")))

    def work_directories(self) -> set[str]:
        return {path.name for path in (self.work / JOB).iterdir()}

    def wipe(self) -> None:
        self.work.rename(self.work.with_name(f"gone-{self.number}"))

    def object_of_newest(self) -> Path:
        """One that no older checkpoint names."""
        newest, older = state_of(self.home).restorable()[:2]
        shared = {file.key for file in manifest_of(self.home, older).files()}
        key = next(file.key for file in manifest_of(self.home, newest).files() if file.key not in shared)
        return self.home / JOB / key


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setattr("os.fsync", lambda handle: None)
    return Places(tmp_path)


def failing_starts(patch: pytest.MonkeyPatch, why: str, times: int) -> list[str]:
    """The next starts fail like that; where they were tried."""
    tried: list[str] = []
    start = ChurningQuery.start

    def failing(query: ChurningQuery, directory: RunDirectory, supervisor: Supervisor) -> None:
        tried.append(directory.location)
        if len(tried) <= times:
            raise StartFailed(why)
        start(query, directory, supervisor)

    patch.setattr(ChurningQuery, "start", failing)
    return tried


@pytest.mark.parametrize(
    "why", [below("java.io.IOException: Input/output error"), below("x.y.NobodyKnows: something went wrong")]
)
@pytest.mark.parametrize("wiped", [False, True])
def test_seconds_of_trouble_at_a_start_give_nothing_up(
    places: Places, monkeypatch: pytest.MonkeyPatch, why: str, wiped: bool
) -> None:
    if wiped:
        places.wipe()
    with monkeypatch.context() as trouble:
        failing_starts(trouble, why, times=1)
        with pytest.raises(StartFailed):
            places.run()
    assert state_of(places.home).corrupt == {}
    assert places.aside() == 0
    run = places.run()
    assert run.runtime._life.resumed.barrier == 2
    run.stop()


@pytest.mark.parametrize(
    "why", [below("java.io.IOException: Input/output error"), below("x.y.NobodyKnows: something went wrong")]
)
def test_trouble_within_a_run_restarts_the_query_where_it_was(places: Places, why: str) -> None:
    run = places.run(restart_delay="1s")
    where = run.query.directory
    for _ in range(4):
        run.query.die(why)
        run.wait(30.25)
    assert run.runtime.status.running
    assert run.query.directory == where
    assert state_of(places.home).corrupt == {}
    assert places.aside() == 0
    run.batches(1)
    run.stop()
    assert state_of(places.home).restorable()[0].barrier_batch_id == 3


def test_what_always_fails_without_being_damaged_ends_the_job_and_costs_nothing(places: Places) -> None:
    run = places.run(restart_delay="1s", restart_attempts=2)
    for _ in range(3):
        run.query.die(below("x.y.NobodyKnows: something went wrong"))
        run.wait(8.25)
    assert run.over
    assert state_of(places.home).corrupt == {}
    assert [entry.id for entry in state_of(places.home).restorable()] == [3, 2, 1]


@pytest.mark.parametrize("why", [MALFORMED, below("x.y.NobodyKnows: something went wrong")])
@pytest.mark.parametrize("wiped", [False, True])
def test_a_damaged_directory_is_to_blame_and_its_checkpoint_is_restored(
    places: Places, monkeypatch: pytest.MonkeyPatch, why: str, wiped: bool
) -> None:
    if wiped:
        places.wipe()
    start = ChurningQuery.start
    tried: list[str] = []

    def start_on_damage(query: ChurningQuery, directory: RunDirectory, supervisor: Supervisor) -> None:
        tried.append(directory.location)
        if len(tried) == 1:
            path = next(Path(directory.location).glob("state/0/0/3.*"))
            data = path.read_bytes()
            path.unlink()  # it may be linked to another directory
            path.write_bytes(data)
            flip_one_byte(path)
            raise StartFailed(why)
        start(query, directory, supervisor)

    monkeypatch.setattr(ChurningQuery, "start", start_on_damage)
    run = places.run()
    assert run.runtime._life.resumed.checkpoint == 3
    assert places.aside() == 1
    assert state_of(places.home).corrupt == {}
    assert len(tried) == 2
    run.stop()


@pytest.mark.parametrize("why", [MALFORMED, below("x.y.NobodyKnows: something went wrong")])
def test_a_directory_that_lost_batches_of_a_checkpoint_is_not_started_in_again(places: Places, why: str) -> None:
    """Put back from an older copy while the query was dead: batches were made anew under numbers that readers had seen,
    and their rows were lost or stood there twice."""
    run = places.run(restart_delay="1s")
    run.batches(1)
    older = shutil.copytree(run.query.directory, places.work.with_name("older"))
    run.batches(2)
    where = run.query.directory
    run.query.die(why)
    shutil.rmtree(where)
    shutil.copytree(older, where)
    run.wait(30.25)
    assert run.runtime.status.running
    assert run.query.directory != where
    assert run.runtime._life.resumed.barrier == 5
    assert places.aside() == 1
    assert state_of(places.home).corrupt == {}
    run.batches(1)
    run.stop()


def test_a_directory_that_somebody_deleted_is_not_begun_anew(places: Places) -> None:
    """Within a run the query began with batch 0, and its first batches were taken for those that readers had seen."""
    run = places.run(restart_delay="1s", restart_attempts=2)
    where = run.query.directory
    run.query.die(below("x.y.NobodyKnows: something went wrong"))
    shutil.rmtree(where)
    run.wait(30.25)
    assert run.over
    assert isinstance(run.failure, StorageError)
    assert "it no longer holds a batch, the newest checkpoint has batch 2" in str(run.failure)
    assert not where.exists()
    again = places.run()
    assert again.runtime._life.resumed.barrier == 2
    again.stop()


def test_a_directory_whose_disk_is_away_is_not_called_damaged(places: Places) -> None:
    entry = state_of(places.home).restorable()[0]
    manifest = manifest_of(places.home, entry)
    with pytest.raises(StorageUnreachable, match="is its disk mounted"):
        difference(RunFolder(work_directory(places.work / "churn"), "away"), manifest)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EACCES, errno.ESTALE])
def test_the_directory_of_the_run_before_is_not_set_aside_because_it_cannot_be_looked_at(
    places: Places, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """One moment without a file handle is no damage: the start fails, and the next one finds all as it was."""
    places.run().query.batch()
    before = places.work_directories()
    read_bytes = Path.read_bytes

    def failing(path: Path) -> bytes:
        if path.parent.name == "offsets":
            raise OSError(code, os.strerror(code), str(path))
        return read_bytes(path)

    with monkeypatch.context() as trouble:
        trouble.setattr(Path, "read_bytes", failing)
        with pytest.raises(StorageError, match=r"could not look at .*, the previous run's directory"):
            places.run()
    assert places.work_directories() == before
    run = places.run()
    assert run.runtime._life.resumed.is_local
    assert run.runtime._life.resumed.barrier == 3


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), StopAsked("SIGTERM")])
def test_a_start_that_fails_before_it_has_a_directory_leaves_that_of_the_run_before_to_the_next(
    places: Places, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """A full disk, or a stop in that moment. Batches that are not in a checkpoint yet are not made anew for that."""
    places.run().query.batch()

    def failing(source: Path, plan: object, to: Path) -> None:
        raise error

    with monkeypatch.context() as trouble:
        trouble.setattr("holdfast.workdir.restorer.take_over", failing)
        for _ in range(2):
            with pytest.raises((StorageFull, StopAsked)):
                places.run()
    run = places.run()
    assert run.runtime._life.resumed.is_local
    assert run.runtime._life.resumed.barrier == 3


def test_a_disk_that_cannot_give_a_file_back_is_damage(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    read_bytes = Path.read_bytes

    def failing(path: Path) -> bytes:
        if path.parent.name == "offsets" and path.parent.parent.name == "1-1":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", failing)
    run = places.run()
    assert not run.runtime._life.resumed.is_local
    assert run.runtime._life.resumed.barrier == 2
    assert places.aside() == 1


def test_a_file_that_cannot_be_read_is_not_called_damaged(
    places: Places, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = places.run()
    directory = run.runtime._life.resumed.directory

    def pieces(self: RunFolder, path: str) -> Iterator[bytes]:
        raise OSError(5, "Input/output error")
        yield b""

    monkeypatch.setattr(RunFolder, "pieces", pieces)
    manifest = manifest_of(places.home, state_of(places.home).restorable()[0])
    with pytest.raises(StorageError, match="Input/output error"):
        difference(directory, manifest)
    run.query.die(MALFORMED)
    run.wait(8.25)
    assert places.aside() == 0
    assert state_of(places.home).corrupt == {}


# --- objects of the home that cannot be read ---


def deny(patch: pytest.MonkeyPatch, path: Path, error: StorageError) -> None:
    """Every read of this object fails."""
    for name in ("stream", "read", "get"):
        real = getattr(LocalStore, name)

        def denied(self: LocalStore, key: str, *others: object, real: object = real) -> object:
            if key.endswith(path.name):
                raise error
            return real(self, key, *others)  # type: ignore[operator]

        patch.setattr(LocalStore, name, denied)


DENIED = StorageDenied("could not read blobs/x: 403, the object is archived")


def test_an_object_that_cannot_be_read_blocks_until_somebody_asks_for_an_older_one(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    places.wipe()
    with monkeypatch.context() as trouble:
        deny(trouble, places.object_of_newest(), DENIED)
        with pytest.raises(StorageDenied, match="Checkpoint 2 at batch 1 can be read, but resuming from it") as refused:
            places.run()
        assert "--from-checkpoint 2" in (refused.value.hint or "")
        assert state_of(places.home).corrupt == {}
        assert state_of(places.home).abandoned == set()
        run = places.run(from_checkpoint=2)  # the hint, followed
        assert run.runtime._life.resumed.barrier == 1
        run.stop()
    assert state_of(places.home).abandoned == {3}


def test_when_it_can_be_read_again_nothing_has_happened(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    places.wipe()
    with monkeypatch.context() as trouble:
        deny(trouble, places.object_of_newest(), DENIED)
        with pytest.raises(StorageDenied):
            places.run()
    run = places.run()
    assert run.runtime._life.resumed.barrier == 2
    run.stop()


def recovery_of(places: Places) -> Recovery:
    store = LocalStore(places.home, within=JOB)
    run = places.run()
    journal = run.runtime._storage.journal
    assert isinstance(journal, Journal)
    marker = WorkMarker(job=JOB, home=f"file://{places.home}", lineage="x")
    return Recovery(store, journal, JobFolder(work_directory(places.work / "elsewhere"), marker))


def test_an_older_one_may_run_when_it_takes_nothing_back_from_readers(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    recovery = recovery_of(places)
    deny(monkeypatch, places.object_of_newest(), DENIED)
    recovery.cost = lambda barrier: None if barrier >= 1 else "takes rows back"
    resumed = recovery.resume(local=False)
    assert resumed.barrier == 1
    assert resumed.abandons is not None
    assert resumed.abandons.passed_over.keys() == {3}
    assert state_of(places.home).corrupt == {}, "nothing is decided before everyone was asked"
    recovery.record_abandonment(resumed, BatchId(1))
    assert state_of(places.home).passed_over == {3}


def test_an_answer_that_denies_what_is_there_is_no_damage(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two 404s on a blob, and a listing that has it."""
    places.wipe()
    with monkeypatch.context() as trouble:
        deny(trouble, places.object_of_newest(), ObjectNotFound("could not read blobs/x: 404"))
        with pytest.raises(StorageError, match="a listing shows it"):
            places.run()
    assert state_of(places.home).corrupt == {}
    run = places.run()
    assert run.runtime._life.resumed.barrier == 2


def test_bytes_that_come_wrong_for_seconds_give_no_checkpoint_up(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of a gateway, with everything that an object has but the right bytes."""
    recovery = recovery_of(places)
    newest, clock = places.object_of_newest(), ManualClock()
    local = LocalStore(places.home, within=JOB)
    patience = Patience(30.0, clock.monotonic, clock.sleep)
    recovery._store = RetryingStore(local, patience)
    read = LocalStore.read

    def portal(store: LocalStore, key: str, offset: int, length: int) -> bytes:
        data = read(store, key, offset, length)
        wrong = key == str(newest.relative_to(places.home / JOB)) and clock.now < 20
        return b"<html>"[:length].ljust(length, b" ") if wrong else data

    monkeypatch.setattr(LocalStore, "read", portal)
    resumed = recovery.resume(local=False)
    assert resumed.barrier == 2
    assert resumed.abandons is None


def test_damage_that_stays_is_waited_for_once(places: Places) -> None:
    recovery, clock = recovery_of(places), ManualClock()
    for path in (places.home / JOB / "packs").iterdir():
        flip_one_byte(path)
    recovery._store = RetryingStore(LocalStore(places.home, within=JOB), Patience(30.0, clock.monotonic, clock.sleep))
    with pytest.raises(Corrupt, match="no checkpoint of this job verifies"):
        recovery.resume(local=False)
    assert clock.now <= 30.0


def test_what_is_gone_by_both_witnesses_is_passed_over(places: Places) -> None:
    places.wipe()
    places.object_of_newest().unlink()
    run = places.run()
    assert run.runtime._life.resumed.barrier == 1
    assert state_of(places.home).passed_over == {3}


def test_verify_goes_on_after_an_object_that_it_cannot_read(
    places: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = places.object_of_newest()
    damaged = places.home / JOB / manifest_key(state_of(places.home).restorable()[2].manifest)
    deny(monkeypatch, newest, DENIED)
    home = ["--home", f"file://{places.home}", "--job", JOB, "--all"]
    assert main(["verify", *home]) == StorageError.exit_code
    assert f"unreadable: checkpoint 3: {newest.relative_to(places.home / JOB)}" in capsys.readouterr().err
    flip_one_byte(damaged)
    assert main(["verify", *home, "--json"]) == Corrupt.exit_code
    found = json.loads(capsys.readouterr().out)
    assert [item["checkpoint"] for item in found["unreadable"]] == [3]
    assert [item["checkpoint"] for item in found["corrupt"]] == [1], "what comes after it is found all the same"


GOES_ON = BATCHES_RETAINED + 2


class TestARunThatIsTakenOverWhileItsQueryGoesOn:
    """It commits, and deletes what was planned or looked at a moment ago. That is no damage."""

    def test_its_directory_is_planned_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = self.run(tmp_path)
        self.go_on_behind(monkeypatch, barriers, "plan", first, times=2)
        second = ChurningRun(tmp_path / "home", tmp_path / "work", first.clock, seed=1)
        assert newest_barrier(work_directory(second.query.directory)) == 1 + 2 * GOES_ON

    def test_its_directory_is_looked_at_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = self.run(tmp_path)
        self.go_on_behind(monkeypatch, soundness, "plan", first, times=2)
        second = ChurningRun(tmp_path / "home", tmp_path / "work", first.clock, seed=1)
        assert newest_barrier(work_directory(second.query.directory)) == 1 + 2 * GOES_ON
        assert not [*(tmp_path / "work").rglob("*.aside")]

    def test_one_that_never_stands_still_is_not_called_damaged(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = self.run(tmp_path)
        self.go_on_behind(monkeypatch, barriers, "plan", first, times=1000)
        with pytest.raises(StorageUnreachable, match="another process still writes there"):
            ChurningRun(tmp_path / "home", tmp_path / "work", first.clock, seed=1)

    def run(self, tmp_path: Path) -> ChurningRun:
        (tmp_path / "home").mkdir()
        run = ChurningRun(tmp_path / "home", tmp_path / "work", ManualClock())
        run.batches(2)
        return run

    def go_on_behind(
        self, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, run: ChurningRun, times: int
    ) -> None:
        plan: Callable[..., SnapshotPlan] = getattr(module, name)
        left = iter(range(times))

        def planned(*args: Any, **options: Any) -> SnapshotPlan:
            made = plan(*args, **options)
            for _ in range(GOES_ON if next(left, None) is not None else 0):
                run.query.batch()
            return made

        monkeypatch.setattr(module, name, planned)


def test_verify_goes_on_after_a_manifest_of_a_newer_version(
    places: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    newest, _, oldest = state_of(places.home).restorable()
    decode = verification.decode_manifest

    def newer(data: bytes, digest: Digest) -> Manifest:
        if digest == newest.manifest:
            raise NewerFormat.of_format(f"manifest {digest}", 9, 1)
        return decode(data, digest)

    monkeypatch.setattr(verification, "decode_manifest", newer)
    home = ["--home", f"file://{places.home}", "--job", JOB, "--all"]
    assert main(["verify", *home]) == NewerFormat.exit_code
    assert "unreadable: checkpoint 3" in capsys.readouterr().err
    flip_one_byte(places.home / JOB / manifest_key(oldest.manifest))
    assert main(["verify", *home, "--json"]) == Corrupt.exit_code
    found = json.loads(capsys.readouterr().out)
    assert [item["checkpoint"] for item in found["corrupt"]] == [1], "what comes after it is found all the same"


def test_a_directory_that_could_not_be_read_is_not_cleaned_away(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on HDFS, where a run goes on without it: it may hold what the home does not have."""
    run = state_of(places.home).run
    assert run is not None
    marker = read_marker(work_directory(places.work / JOB))
    assert marker is not None
    place = JobFolder(work_directory(places.work), marker)
    with monkeypatch.context() as trouble:
        trouble.setattr(MountedDirectory, "abilities", replace(MountedDirectory.abilities, remote=True))
        trouble.setattr(job_folder, "damage", raising(OSError(errno.EIO, "Input/output error")))
        assert place.intact(run) is None
    left = f"{run.fencing_epoch}-1"
    next_one = place.fresh(FencingEpoch(run.fencing_epoch + 1))
    place.clean(next_one)
    assert left in places.work_directories()
    JobFolder(work_directory(places.work), marker).clean(next_one)
    assert left not in places.work_directories(), "one that can read it may clean up"


def raising(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail
