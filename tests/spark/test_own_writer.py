"""Writers of the user's own: how far they are, and a restore that they would skip. About 40 s."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

import holdfast
from holdfast.errors import Conflict, InvalidSettings
from holdfast.identifiers import BatchId
from holdfast.repository.journal import read_entries
from holdfast.repository.lines import line_folder, plan_key
from holdfast.repository.ownership import read_heartbeat, write_heartbeat
from holdfast.repository.state import JobState
from holdfast.spark.writer_position import newest_planned, taken_by
from holdfast.storage.local import LocalStore
from holdfast.workdir.factory import work_directory
from tests.spark.conftest import with_state_format
from tests.spark.job_of_lines import JobOfLines

NO_BATCH = BatchId(-1)


class Job(JobOfLines):
    def to_files(self, spark: SparkSession) -> DataStreamWriter:
        return self.lines().writeStream.format("json").option("path", str(self.out)).trigger(availableNow=True)

    def run(self, build: Any = None, **options: Any) -> holdfast.RunningJob:
        return super().run(build or self.to_files, **options)

    def back_to(self, backup: Path) -> None:
        """As after a restore of checkpoint 1: the newest one is lost, and so is the disk."""
        shutil.rmtree(self.root / "home")
        shutil.copytree(backup, self.root / "home")
        shutil.rmtree(self.work)


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Job:
    with_state_format(spark, "hdfs")
    return Job(spark, tmp_path)


@pytest.mark.timeout(300)
def test_a_restore_that_sparks_file_sink_would_skip_is_refused_and_says_what_would_be_lost(
    job: Job, tmp_path: Path
) -> None:
    job.put("a", "b")
    job.run()
    shutil.copytree(tmp_path / "home", tmp_path / "backup")
    job.put("c")
    job.run()
    assert job.read() == ["a", "b", "c"]
    job.back_to(tmp_path / "backup")
    job.put("d")  # batch 1 is cut anew, of c and d, and the sink has a batch 1
    entries = sorted((tmp_path / "home" / "lines" / "journal").iterdir())
    for options in ({}, {"repeats": "accept"}):
        with pytest.raises(Conflict, match=r"has batch 1 already and skips batch 1: their rows would be lost"):
            job.run(**options)
    assert job.read() == ["a", "b", "c"]
    assert sorted((tmp_path / "home" / "lines" / "journal").iterdir()) == entries, "not even claimed"
    assert not job.work.exists(), "nothing was restored"


@pytest.mark.timeout(300)
def test_the_same_directory_goes_on(job: Job) -> None:
    job.put("a")
    job.run()
    job.put("b")
    job.run()
    assert job.read() == ["a", "b"]


@pytest.mark.timeout(300)
def test_a_function_of_the_user_says_how_far_its_sink_is(job: Job, tmp_path: Path) -> None:
    written: list[tuple[int, list[str]]] = []

    def write(batch: DataFrame, number: int) -> None:
        written.append((number, sorted(row.value for row in batch.collect())))

    def build(spark: SparkSession) -> DataStreamWriter:
        return job.lines().writeStream.foreachBatch(write).trigger(availableNow=True)

    job.put("a")
    job.run(build, sink_position=lambda: None)
    shutil.copytree(tmp_path / "home", tmp_path / "backup")
    job.put("b")
    job.run(build, sink_position=lambda: 0)
    job.back_to(tmp_path / "backup")
    with pytest.raises(Conflict, match="has batch 1 already"):
        job.run(build, sink_position=lambda: 1)
    with pytest.raises(InvalidSettings, match="must return the newest batch id"):
        job.run(build, sink_position=lambda: "1")
    job.run(build, sink_position=lambda: 1, repeats="accept")
    assert written == [(0, ["a"]), (1, ["b"]), (1, ["b"])]


@pytest.mark.timeout(300)
def test_a_file_sink_that_was_put_back_from_an_older_copy_is_refused_and_the_way_back_is_exact(
    job: Job, tmp_path: Path
) -> None:
    job.put("a")
    job.run()
    shutil.copytree(job.out, tmp_path / "older")
    job.put("b")
    job.run()
    shutil.rmtree(job.out)
    shutil.copytree(tmp_path / "older", job.out)
    job.put("c")
    entries = sorted((tmp_path / "home" / "lines" / "journal").iterdir())
    with pytest.raises(Conflict, match="has batches up to 0, and the job resumes after batch 1"):
        job.run()
    assert sorted((tmp_path / "home" / "lines" / "journal").iterdir()) == entries, "not even claimed"
    job.run(from_checkpoint=1)
    assert job.read() == ["a", "b", "c"]


@pytest.mark.timeout(300)
def test_a_sink_that_says_its_position_and_was_put_back_is_refused_and_the_way_back_is_exact(
    job: Job, tmp_path: Path
) -> None:
    job.out.mkdir()

    def write(batch: DataFrame, number: int) -> None:
        if rows := batch.collect():
            (job.out / f"{number}.json").write_text("".join(f'{{"value": "{row.value}"}}\n' for row in rows))

    def build(spark: SparkSession) -> DataStreamWriter:
        return job.lines().writeStream.foreachBatch(write).trigger(availableNow=True)

    def position() -> int | None:
        return max((int(path.stem) for path in job.out.glob("*.json")), default=None)

    for line in "ab":
        job.put(line)
        job.run(build, sink_position=position)
    (job.out / "1.json").unlink()
    job.put("c")
    entries = sorted((tmp_path / "home" / "lines" / "journal").iterdir())
    with pytest.raises(Conflict, match=r"has batches up to 0, .*it had batch 1 when run") as refused:
        job.run(build, sink_position=position)
    assert "--from-checkpoint 1;" in (refused.value.hint or "")
    assert sorted((tmp_path / "home" / "lines" / "journal").iterdir()) == entries, "not even claimed"
    job.run(build, sink_position=position, from_checkpoint=1)
    assert job.read() == ["a", "b", "c"]


@pytest.mark.timeout(300)
def test_a_home_that_lost_the_newest_plan_is_refused_by_what_the_last_heartbeat_told(job: Job, tmp_path: Path) -> None:
    def build(spark: SparkSession) -> DataStreamWriter:
        return job.lines().writeStream.foreachBatch(lambda batch, number: None).trigger(availableNow=True)

    job.put("a")
    job.run(build, plans="require")
    store = LocalStore(tmp_path / "home").scoped("lines")
    beat = read_heartbeat(store)
    assert beat is not None
    assert beat.report is not None
    write_heartbeat(store, replace(beat, report=replace(beat.report, batch=BatchId(1))))
    shutil.rmtree(job.work)
    job.put("b")
    entries = sorted((tmp_path / "home" / "lines" / "journal").iterdir())
    with pytest.raises(Conflict, match="the home has no plan of batch 1, so Spark plans it again"):
        job.run(build, plans="require")
    assert sorted((tmp_path / "home" / "lines" / "journal").iterdir()) == entries, "not even claimed"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("batch", "why"), [(1, "could not read the plan"), (2, "the home has no plan of batch 1")])
def test_a_plan_that_is_damaged_or_missing_is_refused_before_the_claim(
    job: Job, tmp_path: Path, batch: int, why: str
) -> None:
    job.put("a")
    job.run(plans="require")
    store = LocalStore(tmp_path / "home").scoped("lines")
    store.put(plan_key(line_folder(JobState.of(read_entries(store))), BatchId(batch)), b"{")
    shutil.rmtree(job.work)
    job.put("b")
    entries = sorted((tmp_path / "home" / "lines" / "journal").iterdir())
    with pytest.raises(Conflict, match=why) as refused:
        job.run(plans="require")
    assert "put the plan back from a copy of the home" in (refused.value.hint or "")
    assert sorted((tmp_path / "home" / "lines" / "journal").iterdir()) == entries, "not even claimed"


def test_what_cannot_be_asked_is_said_to_be_unknown(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate").load()
    work = tmp_path / "work"
    asked = taken_by(rows.writeStream.foreachBatch(lambda batch, number: None), spark, work_directory(work), None)
    assert (asked.known, asked.planned) == (False, NO_BATCH)
    assert not taken_by(rows.writeStream.format("org.example.Unheard"), spark, work_directory(work), None).known
    kafka = taken_by(rows.writeStream.format("kafka"), spark, work_directory(work), None)
    assert (kafka.known, kafka.newest) == (True, None)


def test_the_log_of_the_file_sink_is_read_compacted_or_not(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    writer = spark.readStream.format("rate").load().writeStream.format("parquet").option("path", str(out))
    assert taken_by(writer, spark, work_directory(tmp_path), None).newest is None
    (out / "_spark_metadata").mkdir(parents=True)
    for name in ("8", "9.compact", "10", ".10.crc", "_other"):
        (out / "_spark_metadata" / name).write_text("v1")
    assert taken_by(writer, spark, work_directory(tmp_path), None).newest == 10
    (out / "_spark_metadata" / "19.compact").write_text("v1")
    taken = taken_by(writer, spark, work_directory(tmp_path), None)
    assert (taken.newest, taken.always_skips) == (19, True)


@pytest.mark.parametrize(("source", "path"), [("delta", "/data/out"), ("iceberg", "local.db.out")])
def test_a_table_whose_library_the_session_lacks_cannot_be_asked(
    spark: SparkSession, tmp_path: Path, source: str, path: str
) -> None:
    """That real ones are asked for the batches of the query's id: `tests/end_to_end/test_own_writer_kills.py`."""
    (tmp_path / "metadata").write_text('{"id":"the-id"}')
    writer = spark.readStream.format("rate").load().writeStream.format(source).option("path", path)
    assert not taken_by(writer, spark, work_directory(tmp_path), None).known


def test_a_batch_counts_as_planned_from_its_offsets_on(tmp_path: Path) -> None:
    assert newest_planned(work_directory(tmp_path)) == NO_BATCH
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1")
    assert newest_planned(work_directory(tmp_path)) == 0
