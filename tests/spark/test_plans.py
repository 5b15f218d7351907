"""Batches that are repeated after a lost disk: the query's own writer, exactly once. About two minutes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast.checkpoint.manifest import ManifestFile, manifest_key
from holdfast.repository.damage import load_manifest
from holdfast.repository.entries import AnyEntry, CheckpointCompleted, CheckpointCorrupt
from holdfast.repository.journal import read_entries
from holdfast.repository.names import PLANS
from holdfast.storage.local import LocalStore
from tests.spark.conftest import with_state_format
from tests.spark.job_of_lines import JobOfLines

Build = Any


class Job(JobOfLines):
    """Each file is a batch; its disk is lost behind a checkpoint."""

    def lines(self) -> DataFrame:
        return super().lines(maxFilesPerTrigger=1)

    def lose_the_disk(self, checkpoint: Path) -> None:
        """And the last checkpoint: the journal is that of the checkpoint before, the plans are all there."""
        shutil.copytree(checkpoint, self.root / "older")
        for plans in (self.root / "home").glob("*/plans"):
            shutil.copytree(plans, self.root / "older" / plans.parent.name / "plans", dirs_exist_ok=True)
        shutil.rmtree(self.root / "home")
        (self.root / "older").rename(self.root / "home")
        shutil.rmtree(self.work)

    def entries(self) -> list[AnyEntry]:
        return list(read_entries(self._store()))

    def _store(self) -> LocalStore:
        return LocalStore(self.root / "home").scoped("lines")

    def damage_the_newest_checkpoint(self, lost: str) -> None:
        """Of its manifest nothing is left; of a file of its state one byte is wrong, and no plan has an object."""
        store = self._store()
        newest = [entry for entry in self.entries() if isinstance(entry, CheckpointCompleted)][-1]
        manifest = load_manifest(store, newest)
        if lost == "its manifest":
            store.delete(manifest_key(newest.manifest))
            return
        assert newest.packed_after is not None
        for item in store.list(PLANS):
            store.delete(item.key)
        older = {file.digest for entry in self.entries() for file in _files_of(store, entry, newest)}
        state = [file for file in manifest.files() if file.path.startswith("state/") and file.digest not in older]
        data = bytearray(store.get(state[-1].key))
        data[state[-1].offset] ^= 1
        store.delete(state[-1].key)
        store.put(state[-1].key, bytes(data))

    def plans(self) -> list[int]:
        return sorted(int(path.name) for path in (self.root / "home" / "lines" / "plans").rglob("0*") if path.is_file())


def _files_of(store: LocalStore, entry: AnyEntry, newest: CheckpointCompleted) -> tuple[ManifestFile, ...]:
    """Of an older checkpoint."""
    older = isinstance(entry, CheckpointCompleted) and entry.id < newest.id
    return load_manifest(store, entry).files() if older else ()  # type: ignore[arg-type]


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Job:
    with_state_format(spark, "rocksdb")
    return Job(spark, tmp_path)


def test_a_checkpoint_is_taken_early_so_that_a_recovery_stays_within_its_target(job: Job) -> None:
    for number in range(6):
        job.put(f"line {number}")
    running = job.run(to_files(job, counted(job.lines())), recovery_target="1s")
    barriers = [entry.barrier_batch_id for entry in job.entries() if isinstance(entry, CheckpointCompleted)]
    assert len(barriers) >= 2, "besides the last one"
    assert barriers[-1] == 5
    recovery = running.status().recovery
    assert recovery is not None
    assert (recovery.batches, recovery.target_s) == (0, 1.0)


def to_files(job: Job, frame: DataFrame) -> Build:
    return lambda spark: frame.writeStream.format("json").option("path", str(job.out)).trigger(availableNow=True)


def counted(lines: DataFrame) -> DataFrame:
    return lines.dropDuplicates(["value"])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("stateful", [False, True], ids=["stateless", "stateful"])
def test_sparks_file_sink_has_every_row_once_after_a_lost_disk(job: Job, tmp_path: Path, stateful: bool) -> None:
    frame = counted(job.lines()) if stateful else job.lines()
    build = to_files(job, frame)
    for batch in range(3):
        job.put(f"a{batch}", f"b{batch}")
    job.run(build)
    shutil.copytree(tmp_path / "home", tmp_path / "backup")
    for batch in range(10):  # the log of files is compacted meanwhile
        job.put(f"c{batch}", "a1" if stateful else f"d{batch}")
    job.run(build)
    expected = job.read()
    planned = job.plans()
    assert planned == list(range(planned[-1] + 1))
    job.lose_the_disk(tmp_path / "backup")
    job.put("e", "a2" if stateful else "f")
    job.run(build)
    rows = job.read()
    assert rows == sorted([*expected, "e", *([] if stateful else ["f"])])
    assert len(rows) == len(set(rows)) == 6 + 10 + 1 + (0 if stateful else 11)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("lost", ["its manifest", pytest.param("a file of its state", marks=pytest.mark.long)])
def test_a_damaged_newest_checkpoint_makes_the_replay_longer_and_nothing_is_cut_anew(job: Job, lost: str) -> None:
    """The plans are in objects of their own, or in the checkpoint that is damaged elsewhere."""
    build = to_files(job, counted(job.lines()))
    job.put("a0", "b0")
    job.run(build)
    for batch in range(4):
        job.put(f"c{batch}", "a0")
    job.run(build)
    expected = job.read()
    job.damage_the_newest_checkpoint(lost)
    shutil.rmtree(job.work)
    job.put("e", "c1")
    job.run(build)
    rows = job.read()
    assert rows == sorted([*expected, "e"])
    assert len(rows) == len(set(rows)) == 2 + 4 + 1
    damaged = [entry for entry in job.entries() if isinstance(entry, CheckpointCorrupt)]
    assert [entry.passed_over for entry in damaged] == [False], "its timeline goes on"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("asked", [False, True], ids=["cannot be asked", "says how far it is"])
def test_a_function_gets_the_same_rows_under_the_same_id(job: Job, tmp_path: Path, asked: bool) -> None:
    written: list[tuple[int, list[str]]] = []

    def write(batch: DataFrame, number: int) -> None:
        written.append((number, sorted(row.value for row in batch.collect())))

    def build(spark: SparkSession) -> Any:
        return job.lines().writeStream.foreachBatch(write).trigger(availableNow=True)

    position = {"sink_position": lambda: max((number for number, _ in written), default=None)} if asked else {}
    job.put("a")
    job.run(build, plans="require", **position)
    shutil.copytree(tmp_path / "home", tmp_path / "backup")
    job.put("b")
    job.put("c")
    job.run(build, plans="require", **position)
    first = list(written)
    assert [number for number, _ in first] == [0, 1, 2]
    job.lose_the_disk(tmp_path / "backup")
    job.put("d")
    job.run(build, plans="require", **position)
    again = [] if asked else first[1:]
    assert written == [*first, *again, (3, ["d"])]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("trigger", [{"once": True}, {"availableNow": True}], ids=["once", "available now"])
def test_two_writers_of_one_program_that_runs_now_and_then_are_exact_after_a_lost_disk(
    job: Job, tmp_path: Path, trigger: dict[str, bool]
) -> None:
    written: dict[int, list[str]] = {}

    def write(batch: DataFrame, number: int) -> None:
        rows = sorted(row.value for row in batch.collect())
        assert written.setdefault(number, rows) == rows, "the same rows under the same id"

    def from_cron() -> None:
        """The program as it was, with `start()` replaced: writers are given as they are."""
        lines = job.lines()
        writers = {
            "lines": counted(lines).writeStream.format("json").option("path", str(job.out)).trigger(**trigger),
            "copies": lines.writeStream.foreachBatch(write).trigger(**trigger),
        }
        home, work = f"file://{tmp_path / 'home'}", tmp_path / "work dir"
        running = [
            holdfast.start(writer, job=name, home=home, work=work, spark=job.spark, interval="1h", plans="require")
            for name, writer in writers.items()
        ]
        for started in running:
            started.await_termination()

    job.put("a")
    from_cron()
    shutil.copytree(tmp_path / "home", tmp_path / "backup")
    job.put("b")
    from_cron()
    job.lose_the_disk(tmp_path / "backup")
    job.put("c", "a")
    from_cron()
    from_cron()  # with `once`, the first one ran the batch that was planned
    assert job.read() == ["a", "b", "c"]
    assert sorted(value for rows in written.values() for value in rows) == ["a", "a", "b", "c"]
