"""R6: rows that Spark produced, rows in the files and rows in the ledger are equal, or the batch fails and says so."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError
from holdfast.identifiers import BatchId, FencingEpoch, JobName
from holdfast.sinks import Delta, Files, SinkContext
from holdfast.sinks.committed import Written, write_parquet
from holdfast.sinks.protocol import Step
from holdfast.sinks.staging import staged_files
from tests.trust import delta_sink


def part(path: Path, rows: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": range(rows)}), path)
    return path


def answered(rows: int, *paths: Path) -> Written:
    return Written(rows, {path: path.stat().st_size for path in paths})


def test_files_that_vanished_after_the_write_fail_the_batch(tmp_path: Path) -> None:
    kept, gone = part(tmp_path / "batch" / "part-0.parquet", 3), part(tmp_path / "batch" / "part-1.parquet", 2)
    written = answered(5, kept, gone)
    gone.unlink()
    with pytest.raises(HoldfastError, match="produced 5 rows, its 1 files there hold 3, so the ledger would say 3"):
        staged_files(tmp_path, tmp_path / "batch", written)
    with pytest.raises(HoldfastError, match="Spark produced 5 rows, its 0 files there hold 0"):
        staged_files(tmp_path, tmp_path / "elsewhere", Written(5, {}))


def test_another_file_cannot_stand_in_for_one_that_is_missing(tmp_path: Path) -> None:
    """The rows add up, and they are not those of the batch."""
    kept, gone = part(tmp_path / "batch" / "part-0.parquet", 3), part(tmp_path / "batch" / "part-1.parquet", 2)
    written = answered(5, kept, gone)
    gone.unlink()
    part(tmp_path / "batch" / "part-2.parquet", 2)
    with pytest.raises(HoldfastError, match=r"1 of 2 are not there as they were written, .*part-1\.parquet is one"):
        staged_files(tmp_path, tmp_path / "batch", written)


def test_nor_can_another_file_under_its_name(tmp_path: Path) -> None:
    path = part(tmp_path / "batch" / "part-0.parquet", 2)
    written = answered(2, path)
    pq.write_table(pa.table({"id": range(2), "more": ["x"] * 2}), path)
    with pytest.raises(HoldfastError, match="1 of 1 are not there as they were written"):
        staged_files(tmp_path, tmp_path / "batch", written)


def test_more_rows_than_spark_produced_fail_the_batch(tmp_path: Path) -> None:
    paths = part(tmp_path / "batch" / "part-0.parquet", 3), part(tmp_path / "batch" / "part-1.parquet", 2)
    with pytest.raises(HoldfastError, match="Spark produced 3 rows, its 2 files there hold 5"):
        staged_files(tmp_path, tmp_path / "batch", answered(3, *paths))


def test_what_no_committed_task_has_answered_with_is_not_taken(tmp_path: Path) -> None:
    """A late or a repeated task wrote it. It would lie beside the others as long as they do."""
    batch = tmp_path / "batch"
    answers = part(batch / "part-0.parquet", 3), part(batch / "city=x" / "part-2.parquet", 2)
    late = part(batch / "part-1.parquet", 3), part(batch / "city=y" / "part-2.parquet", 2)
    files = staged_files(tmp_path, batch, answered(5, *answers))
    assert [file.path for file in files] == ["batch/city=x/part-2.parquet", "batch/part-0.parquet"]
    assert not any(path.exists() for path in late)


def opened(spark: SparkSession, kind: Any, place: Path, step: Step, schema: str = "id BIGINT") -> Any:
    sink = kind(place, step=step)
    context = SinkContext(JobName("orders"), FencingEpoch(1), "home-1")
    sink.open(context, spark, spark.createDataFrame([], schema).schema)
    return sink


def delete_a_file(place: Path) -> None:
    max(place.rglob("part-*.parquet")).unlink()


def delete_the_directory(place: Path) -> None:
    shutil.rmtree(max(place.rglob("part-*.parquet")).parent)


@pytest.mark.parametrize("kind", [Delta, Files])
@pytest.mark.parametrize("vanish", [delete_a_file, delete_the_directory])
def test_spark_counts_and_a_batch_that_lost_files_is_not_staged(
    spark: SparkSession, tmp_path: Path, kind: Any, vanish: Callable[[Path], None]
) -> None:
    """Two small writes, less than a second."""
    disturbed = [True]

    def outside(step: str) -> None:
        if step == "written" and disturbed:
            disturbed.clear()
            vanish(tmp_path)

    sink = opened(spark, kind, tmp_path, outside)
    with pytest.raises(HoldfastError, match="Spark produced 6 rows"):
        sink.stage(spark.range(0, 6, 1, 2), BatchId(0))
    staged = sink.stage(spark.range(0, 6, 1, 2), BatchId(0))
    assert sum(file.rows for file in staged.files) == 6
    assert sink.stage(spark.range(6).where("id < 0"), BatchId(1)).files == ()
    assert sink.stage(spark.range(6).where("false"), BatchId(1)).files == ()


def test_the_committed_tasks_say_what_they_wrote(spark: SparkSession, tmp_path: Path) -> None:
    """One small write. Names come back as they are on the disk, whatever Hadoop made of them."""
    (tmp_path / "a").mkdir()
    directory = tmp_path / "a" / ".." / "100% #1"
    batch = spark.range(0, 6, 1, 2).selectExpr("id", "IF(id % 2 = 0, 'x%2F y', '') AS city")
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    written = write_parquet(batch, directory, ("city",))
    assert written.rows == 6
    assert set(written.files) == set(directory.rglob("part-*.parquet"))
    assert {path.stat().st_size for path in written.files} == set(written.files.values())
    assert sum(file.rows for file in staged_files(directory.parent, directory, written)) == 6
    assert not (directory / "_spark_metadata").exists()
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == before


def test_a_staged_file_of_another_size_is_not_published(tmp_path: Path) -> None:
    sink = delta_sink.opened(tmp_path)
    (staged,) = delta_sink.staged(sink, 1, 0)
    with (tmp_path / staged.files[0].path).open("ab") as file:
        file.write(b"more")
    with pytest.raises(HoldfastError, match="it was staged with"):
        sink.publish(BatchId(0), (staged,))
    assert delta_sink.rows(tmp_path) == []


def test_a_batch_calls_the_jvm_a_few_times_only(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call delays the batch: what is the same for all batches is made once. Objects are given back besides."""
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    write_parquet(spark.range(0, 10, 1, 2).toDF("id"), tmp_path / "first")
    frame = spark.range(0, 7, 1, 2).toDF("id")
    sent, calls = ClientServerConnection.send_command, list[str]()

    def counted(self: ClientServerConnection, command: str) -> str:
        calls.append(command)
        return str(sent(self, command))

    monkeypatch.setattr(ClientServerConnection, "send_command", counted)
    written = write_parquet(frame, tmp_path / "second")
    monkeypatch.undo()
    assert written.rows == 7
    assert len([call for call in calls if not call.startswith("m\nd")]) <= 16
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == before
