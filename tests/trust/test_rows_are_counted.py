"""R6: rows that Spark produced, rows in the files and rows in the ledger are equal, or the batch fails and says so."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError
from holdfast.identifiers import BatchId, FencingEpoch, JobName
from holdfast.sinks import Delta, Files, SinkContext
from holdfast.sinks.protocol import Step
from holdfast.sinks.staging import staged_files
from tests.trust import delta_sink


def part(path: Path, rows: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": range(rows)}), path)
    return path


def test_files_that_vanished_before_the_listing_fail_the_batch(tmp_path: Path) -> None:
    part(tmp_path / "batch" / "part-0.parquet", 3)
    with pytest.raises(HoldfastError, match="produced 5 rows, its 1 files there hold 3, so the ledger would say 3"):
        staged_files(tmp_path, tmp_path / "batch", 5)
    with pytest.raises(HoldfastError, match="Spark produced 5 rows, its 0 files there hold 0"):
        staged_files(tmp_path, tmp_path / "elsewhere", 5)


def test_a_file_too_many_fails_the_batch(tmp_path: Path) -> None:
    part(tmp_path / "batch" / "part-0.parquet", 3)
    part(tmp_path / "batch" / "part-1.parquet", 2)
    with pytest.raises(HoldfastError, match="Spark produced 3 rows, its 2 files there hold 5"):
        staged_files(tmp_path, tmp_path / "batch", 3)


def test_what_a_late_task_left_below_temporary_is_not_taken(tmp_path: Path) -> None:
    part(tmp_path / "batch" / "part-0.parquet", 3)
    part(tmp_path / "batch" / "_temporary" / "0" / "task_1" / "part-1.parquet", 3)
    part(tmp_path / "batch" / "city=x" / "part-2.parquet", 2)
    files = staged_files(tmp_path, tmp_path / "batch", 5)
    assert [file.path for file in files] == ["batch/city=x/part-2.parquet", "batch/part-0.parquet"]


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


def test_a_staged_file_of_another_size_is_not_published(tmp_path: Path) -> None:
    sink = delta_sink.opened(tmp_path)
    (staged,) = delta_sink.staged(sink, 1, 0)
    with (tmp_path / staged.files[0].path).open("ab") as file:
        file.write(b"more")
    with pytest.raises(HoldfastError, match="it was staged with"):
        sink.publish(BatchId(0), (staged,))
    assert delta_sink.rows(tmp_path) == []
