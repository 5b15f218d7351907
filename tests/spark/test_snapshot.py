"""Snapshots of a running query in each of Spark's state formats: exact after a restore, whatever Spark deleted."""

import os
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from holdfast.checkpoint.layout import NotPlannable, SnapshotPlan
from holdfast.checkpoint.manifest import Manifest
from holdfast.identifiers import BatchId, Ticket
from holdfast.repository.blobs import Blobs
from holdfast.snapshot.carrier import ShardCopy, ShardDeclined, copy_shards, grouped
from holdfast.storage.local import LocalStore
from holdfast.workdir import barriers
from holdfast.workdir.factory import work_directory
from holdfast.workdir.restorer import restore, take_over
from holdfast.workdir.soundness import damage
from tests.spark.conftest import STATE_FORMATS
from tests.spark.counting import EPOCH, Input, Run, manifest_of
from tests.torture import TORTURE


def snapshot(work: Path, blobs: Blobs) -> tuple[BatchId, tuple[ShardCopy, ...]]:
    """Of the newest barrier; of a newer one when Spark was quicker."""
    for _ in range(10):
        barrier = barriers.newest_barrier(work_directory(work))
        assert barrier is not None
        try:
            groups = grouped(barriers.plan(work_directory(work), barrier).shards, 2)
            return barrier, tuple(
                copy for group in groups for copy in copy_shards(work_directory(work), group, blobs, lambda: False)
            )
        except (NotPlannable, ShardDeclined):
            continue
    raise AssertionError("declined ten times")


def stored_bytes(store: LocalStore) -> int:
    return sum(item.size for item in store.list(""))


def test_a_snapshot_of_a_running_query_restores_exactly(spark: SparkSession, state_format: str, tmp_path: Path) -> None:
    source = Input(tmp_path / "input")
    (tmp_path / "home").mkdir()
    store = LocalStore(tmp_path / "home")
    blobs = Blobs(store, EPOCH)
    work = tmp_path / "work"
    run = Run(spark, source, work)
    known: dict[str, int] = {}
    manifests: list[Manifest] = []
    for least in (2, 10, 18):
        run.await_commit(least)
        before = stored_bytes(store)
        barrier, copies = snapshot(work, blobs)
        files = {file.digest: file.size for copy in copies for file in copy.files}
        new = sum(size for digest, size in files.items() if digest not in known)
        known |= files
        assert sum(copy.bytes_new for copy in copies) == new == stored_bytes(store) - before
        assert sum(copy.objects_written for copy in copies) <= 2
        manifests.append(manifest_of(barrier, copies))
        blobs.commit_manifest(manifests[-1])
        assert barrier >= least
    run.query.stop()
    assert run.query.exception() is None

    restored = tmp_path / "restored"
    restore(store, manifests[-1], work_directory(restored))
    assert damage(work_directory(restored)) is None
    continued = Run(spark, source, restored, availableNow=True)
    continued.query.awaitTermination()
    assert min(continued.answers) == manifests[-1].barrier_batch_id + 1
    assert all(answer in source.answers for answer in continued.answers.values())
    assert continued.answers[max(continued.answers)] == source.answers[-1]


@pytest.mark.long
@pytest.mark.parametrize("state_format", ["rocksdb-v2"], indirect=True)
def test_state_older_than_the_commits_that_name_it_restores(
    spark: SparkSession, state_format: str, tmp_path: Path
) -> None:
    """Spark purges commits by their number, but keeps the state that newer versions are built on."""
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    spark.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "100")
    source = Input(tmp_path / "input")
    work = tmp_path / "work"
    run = Run(spark, source, work)
    run.await_commit(12)
    run.query.stop()
    (tmp_path / "home").mkdir()
    store = LocalStore(tmp_path / "home")
    barrier, copies = snapshot(work, Blobs(store, EPOCH))
    assert not (work / "commits" / "0").exists()
    assert any("/1_" in file.path for copy in copies for file in copy.files)
    restore(store, manifest_of(barrier, copies), work_directory(tmp_path / "restored"))
    continued = Run(spark, source, tmp_path / "restored", availableNow=True)
    continued.query.awaitTermination()
    assert continued.answers[max(continued.answers)] == source.answers[-1]


@pytest.mark.long
@pytest.mark.parametrize("state_format", ["rocksdb"], indirect=True)
def test_pinned_files_outlive_the_clean_up_of_spark(spark: SparkSession, state_format: str, tmp_path: Path) -> None:
    """The slowest possible copy: it begins when Spark has deleted the barrier."""
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    source = Input(tmp_path / "input")
    work = tmp_path / "work"
    run = Run(spark, source, work)
    run.await_commit(5)
    barrier = barriers.newest_barrier(work_directory(work))
    assert barrier is not None
    plan = barriers.plan(work_directory(work), barrier)
    pinned = work_directory(work)
    assert pinned.pin(Ticket(1), plan.files())
    run.await_commit(barrier + 5)
    run.query.stop()
    (tmp_path / "home").mkdir()
    store = LocalStore(tmp_path / "home")
    with pytest.raises(ShardDeclined, match="vanished"):
        copy_shards(work_directory(work), plan.shards, Blobs(store, EPOCH), lambda: False)
    copies = copy_shards(pinned, plan.shards, Blobs(store, EPOCH), lambda: False)
    restore(store, manifest_of(barrier, copies), work_directory(tmp_path / "restored"))
    continued = Run(spark, source, tmp_path / "restored", availableNow=True)
    continued.query.awaitTermination()
    assert min(continued.answers) == barrier + 1
    assert continued.answers[max(continued.answers)] == source.answers[-1]


@pytest.mark.parametrize("state_format", STATE_FORMATS if TORTURE else ["rocksdb-changelog"], indirect=True)
def test_a_query_resumes_from_a_local_copy_without_touching_the_original(
    spark: SparkSession, state_format: str, tmp_path: Path
) -> None:
    source = Input(tmp_path / "input")
    work = tmp_path / "work"
    run = Run(spark, source, work)
    run.await_commit(12)
    run.query.stop()
    assert damage(work_directory(work)) is None
    barrier = barriers.newest_barrier(work_directory(work))
    assert barrier is not None
    plan = barriers.plan(work_directory(work), barrier)
    before = contents(work, plan)
    take_over(work_directory(work), plan, work_directory(tmp_path / "copy"))
    continued = Run(spark, source, tmp_path / "copy", availableNow=True)
    continued.query.awaitTermination()
    assert min(continued.answers) == barrier + 1
    assert continued.answers[max(continued.answers)] == source.answers[-1]
    # Not all of the directory: the stores of the first query are still loaded, and go on deleting old versions.
    assert contents(work, plan) == before


def contents(directory: Path, plan: SnapshotPlan) -> dict[str, bytes]:
    return {file.path: (directory / file.path).read_bytes() for file in plan.files()}


def test_a_stateless_query_has_only_the_control_shard(spark: SparkSession, tmp_path: Path) -> None:
    source = Input(tmp_path / "input")
    lines = spark.readStream.schema("key INT").json(str(source.folder))
    query = lines.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "work"))
    query.trigger(availableNow=True).start().awaitTermination()
    barrier = barriers.newest_barrier(work_directory(tmp_path / "work"))
    assert barrier is not None
    (control,) = barriers.plan(work_directory(tmp_path / "work"), barrier).shards
    assert {"metadata", f"commits/{barrier}", f"offsets/{barrier}", "sources/0/0"} <= {
        file.path for file in control.files
    }
    assert damage(work_directory(tmp_path / "work")) is None


@pytest.mark.parametrize("state_format", ["hdfs", "rocksdb-v2"] if TORTURE else ["rocksdb-v2"], indirect=True)
def test_a_join_restores_with_each_of_its_stores(spark: SparkSession, state_format: str, tmp_path: Path) -> None:
    """Each number is on the left once and on the right once, mostly in different batches."""
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
    for number in range(12):
        write_number(tmp_path / "left", number, number)
        write_number(tmp_path / "right", (number * 5) % 12, number)
    first: list[int] = []
    run = join(spark, tmp_path, tmp_path / "work", first)
    run.awaitTermination()
    work = tmp_path / "work"
    barrier = barriers.newest_barrier(work_directory(work))
    assert barrier is not None
    assert sorted(first) == list(range(12))

    for number in range(12, 16):
        write_number(tmp_path / "left", number, number)
    join(spark, tmp_path, work, first).awaitTermination()
    barrier = barriers.newest_barrier(work_directory(work))
    assert barrier is not None
    plan = barriers.plan(work_directory(work), barrier)
    assert len(plan.shards) == 1 + 2 * 4
    (tmp_path / "home").mkdir()
    store = LocalStore(tmp_path / "home")
    copies = copy_shards(work_directory(work), plan.shards, Blobs(store, EPOCH), lambda: False)
    restore(store, manifest_of(barrier, copies), work_directory(tmp_path / "restored"))

    for number in range(12, 16):
        write_number(tmp_path / "right", number, number)
    second: list[int] = []
    join(spark, tmp_path, tmp_path / "restored", second).awaitTermination()
    assert sorted(second) == list(range(12, 16))


def write_number(folder: Path, number: int, order: int) -> None:
    path = folder / f"{number}.json"
    path.write_text(f'{{"number": {number}}}\n')
    os.utime(path, (1_700_000_000 + order, 1_700_000_000 + order))


def join(spark: SparkSession, inputs: Path, work: Path, seen: list[int]) -> StreamingQuery:
    def side(name: str) -> DataFrame:
        files = spark.readStream.schema("number INT").option("maxFilesPerTrigger", 2)
        return files.json(str(inputs / name))

    def collect(batch: DataFrame, batch_id: int) -> None:
        seen.extend(row["number"] for row in batch.collect())

    joined = side("left").join(side("right"), "number")
    writer = joined.writeStream.option("checkpointLocation", str(work)).foreachBatch(collect)
    return writer.trigger(availableNow=True).start()
