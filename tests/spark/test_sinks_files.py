"""The Files sink against real Spark and real directories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from holdfast.errors import Fenced, HoldfastError, InvalidSettings, StorageError
from holdfast.identifiers import BatchId, FencingEpoch, JobName
from holdfast.sinks import Files, Sink, SinkContext
from holdfast.sinks.protocol import Step, no_step
from holdfast.testing.sinks import SCHEMA, Row, SinkConformance
from tests.outside import OutsideOfDirectory
from tests.trust.files_sink import compact, visible


class TestFilesConforms(OutsideOfDirectory, SinkConformance):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "some files"

    def replace(self) -> None:
        self.empty()
        self.path.mkdir()
        pq.write_table(pa.table({"id": [77], "text": ["theirs"]}), self.path / "part-0.parquet")

    def rewrite(self) -> None:
        compact(self.path, visible(self.path))

    def make_sink(self, step: Step = no_step) -> Sink:
        return Files(self.path, step=step)

    def read_rows(self, spark: SparkSession) -> list[Row]:
        return [(row.id, row.text) for row in spark.read.schema(SCHEMA).parquet(str(self.path)).collect()]


def opened(spark: SparkSession, path: Path, schema: str, *, epoch: int = 1) -> Files:
    sink = Files(path)
    context = SinkContext(JobName("orders"), FencingEpoch(epoch), "home-1")
    sink.open(context, spark, spark.createDataFrame([], schema).schema)
    return sink


def test_other_readers_skip_what_is_staged_as_well(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(spark, tmp_path, "id BIGINT")
    staged = sink.stage(spark.range(3), BatchId(0)), sink.stage(spark.range(3, 6), BatchId(1))
    sink.publish(BatchId(0), staged)
    for table in (ds.dataset(tmp_path).to_table(), pq.read_table(tmp_path)):
        assert sorted(table.column("id").to_pylist()) == [0, 1, 2]
    assert spark.read.parquet(str(tmp_path)).count() == 3


def test_nothing_but_visible_files_and_what_the_ledger_needs_remains_after_recovery(
    spark: SparkSession, tmp_path: Path
) -> None:
    older = opened(spark, tmp_path, "id BIGINT")
    staged = older.stage(spark.range(2).coalesce(1), BatchId(0))
    older.publish(BatchId(0), (staged,))
    older.stage(spark.range(2), BatchId(1))
    newer = opened(spark, tmp_path, "id BIGINT", epoch=2)
    newer.discard(())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(path.parent.name for path in files if path.suffix == ".json") == [
        "batches",
        "columns",
        "orders",
        "published",
        "schemas",
    ]
    assert [path.parent for path in files if path.suffix != ".json"] == [tmp_path]


def test_a_kept_file_that_became_visible_too_early_is_hidden_again(spark: SparkSession, tmp_path: Path) -> None:
    older = opened(spark, tmp_path, "id BIGINT")
    kept = older.stage(spark.range(3).coalesce(1), BatchId(0))
    (source, target), *_ = older._layout.moves(kept)
    source.rename(target)
    newer = opened(spark, tmp_path, "id BIGINT", epoch=2)
    newer.discard((kept,))
    assert not target.exists()
    newer.publish(BatchId(0), (kept,))
    assert pq.read_table(tmp_path).num_rows == 3


def test_a_column_may_come_or_go_but_not_change_its_type(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(spark, tmp_path, "id BIGINT, text STRING")
    opened(spark, tmp_path, "id STRING", epoch=2)  # nothing was written yet
    sink = opened(spark, tmp_path, "id BIGINT, text STRING", epoch=3)
    sink.publish(BatchId(0), (sink.stage(spark.range(1).selectExpr("id", "'x' AS text"), BatchId(0)),))
    opened(spark, tmp_path, "id BIGINT, price DOUBLE", epoch=4)  # nothing was written by it
    sink = opened(spark, tmp_path, "id BIGINT, price STRING", epoch=5)
    sink.publish(BatchId(1), (sink.stage(spark.range(1).selectExpr("id", "'x' AS price"), BatchId(1)),))
    with pytest.raises(InvalidSettings, match="text: double in the query, string in the table"):
        opened(spark, tmp_path, "id BIGINT, text DOUBLE", epoch=6)
    with pytest.raises(InvalidSettings, match="Price: in the query, price in the files"):
        opened(spark, tmp_path, "id BIGINT, Price STRING", epoch=6)


def test_a_staged_file_that_is_gone_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(spark, tmp_path, "id BIGINT")
    staged = sink.stage(spark.range(3), BatchId(0))
    (tmp_path / staged.files[0].path).unlink()
    with pytest.raises(HoldfastError, match="neither staged nor published"):
        sink.publish(BatchId(0), (staged,))
    assert sink.published() is None


def test_a_directory_that_was_replaced_while_the_job_ran_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "out"
    sink = opened(spark, path, "id BIGINT")
    shutil.rmtree(path)
    with pytest.raises(HoldfastError, match="replaced"):
        sink.publish(BatchId(0), ())


def test_a_run_that_died_while_opening_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(spark, tmp_path, "id BIGINT")
    sink.publish(BatchId(0), (sink.stage(spark.range(3), BatchId(0)),))

    def die(step: str) -> None:
        raise RuntimeError(step)

    dying = Files(tmp_path, step=die)
    with pytest.raises(RuntimeError, match="open: claimed"):
        dying.open(SinkContext(JobName("orders"), FencingEpoch(2), "home-1"), spark, spark.range(0).schema)
    assert opened(spark, tmp_path, "id BIGINT", epoch=3).published() == 0
    with pytest.raises(Fenced):
        sink.publish(BatchId(1), ())


def test_a_place_that_cannot_be_a_directory_is_a_storage_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="could not open files:"):
        opened(spark, tmp_path / "file" / "below", "id BIGINT")
