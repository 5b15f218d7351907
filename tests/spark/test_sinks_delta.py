"""The Delta sink against real Spark and real tables."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from holdfast.errors import Fenced, HoldfastError, InvalidSettings
from holdfast.identifiers import BatchId, FencingEpoch, JobName
from holdfast.sinks import Delta, Sink, SinkContext, StagedBatch
from holdfast.sinks.delta_log import Commit, DeltaLog
from holdfast.sinks.protocol import Step, no_step
from holdfast.testing.sinks import Row, SinkConformance
from tests.outside import OutsideOfDirectory


class TestDeltaConforms(OutsideOfDirectory, SinkConformance):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "a table"

    def replace(self) -> None:
        schema = DeltaTable(str(self.path)).schema()
        self.empty()
        DeltaTable.create(str(self.path), schema)

    def rewrite(self) -> None:
        DeltaTable(str(self.path)).optimize.compact()

    def make_sink(self, step: Step = no_step) -> Sink:
        return Delta(self.path, step=step)

    def read_rows(self, spark: SparkSession) -> list[Row]:
        table = DeltaTable(str(self.path)).to_pyarrow_table()
        return [(row["id"], row["text"]) for row in table.to_pylist()]


def opened(
    spark: SparkSession, path: Path, schema: str, *, epoch: int = 1, step: Step = no_step, **options: object
) -> Delta:
    sink = Delta(path, step=step, **options)  # type: ignore[arg-type]
    context = SinkContext(JobName("orders"), FencingEpoch(epoch), "home-1")
    sink.open(context, spark, spark.createDataFrame([], schema).schema)
    return sink


def log_entries(path: Path) -> list[dict[str, object]]:
    """Every action of the table's log, oldest first; fails when one is not JSON."""
    logs = sorted((path / "_delta_log").glob("*.json"))
    return [json.loads(line) for log in logs for line in log.read_text().splitlines()]


def ids(path: Path) -> list[int]:
    return sorted(DeltaTable(str(path)).to_pyarrow_table().column("id").to_pylist())


@pytest.mark.parametrize("other_app", ["holdfast:orders", "somebody", None])
def test_deltalake_without_retries_never_rebases_a_commit(tmp_path: Path, other_app: str | None) -> None:
    DeltaTable.create(str(tmp_path), Schema.from_json(StructType([StructField("id", LongType())]).json()))
    log = DeltaLog(tmp_path)
    first, second = log.load(), log.load()
    assert log.try_commit(first, Commit({other_app: 1} if other_app else {})) is None
    assert isinstance(log.try_commit(second, Commit({"holdfast:orders": 1})), CommitFailedError)
    assert log.load().version() == 1


def test_commits_of_other_writers_in_between_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    others = iter([100, 101])

    def another_writer(step: str) -> None:
        if step == "publish: planned" and (value := next(others, None)) is not None:
            write_deltalake(str(path), pa.table({"id": pa.array([value], pa.int64())}), mode="append")

    sink = opened(spark, path, "id BIGINT", step=another_writer)
    sink.publish(BatchId(0), (sink.stage(spark.range(3), BatchId(0)),))
    assert ids(path) == [0, 1, 2, 100, 101]
    assert sink.published() == 0


def test_one_commit_shows_a_checkpoint_whole(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(spark, tmp_path, "id BIGINT")
    ledger = tuple(sink.stage(spark.range(n * 10, n * 10 + 2), BatchId(n)) for n in range(3))
    before = DeltaTable(str(tmp_path)).version()
    sink.publish(BatchId(2), ledger)
    assert DeltaTable(str(tmp_path)).version() == before + 1
    assert {"txn": {"appId": "holdfast:orders", "version": 2}} in log_entries(tmp_path)


def test_what_is_published_survives_a_checkpoint_of_the_log(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(spark, tmp_path, "id BIGINT")
    sink.publish(BatchId(0), (sink.stage(spark.range(3), BatchId(0)),))
    sink.rewind(None)
    sink.publish(BatchId(0), (sink.stage(spark.range(3), BatchId(0)),))
    DeltaTable(str(tmp_path)).create_checkpoint()
    newer = opened(spark, tmp_path, "id BIGINT", epoch=2)
    assert newer.published() == 0
    with pytest.raises(Fenced, match="run 2"):
        sink.publish(BatchId(1), ())


def test_after_optimize_nothing_is_deleted_and_a_rewind_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(spark, tmp_path, "id BIGINT")
    for n in range(2):
        sink.publish(BatchId(n), (sink.stage(spark.range(n, n + 1), BatchId(n)),))
    version = DeltaTable(str(tmp_path)).version()
    DeltaTable(str(tmp_path)).optimize.compact()
    newer = opened(spark, tmp_path, "id BIGINT", epoch=2)
    newer.discard(())
    assert ids(tmp_path) == [0, 1]
    assert sorted(DeltaTable(str(tmp_path), version=version).to_pyarrow_table().column("id").to_pylist()) == [0, 1]
    with pytest.raises(HoldfastError, match="OPTIMIZE"):
        newer.rewind(BatchId(0))
    assert ids(tmp_path) == [0, 1]


def test_files_taken_back_stay_for_readers_of_older_versions(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(spark, tmp_path, "id BIGINT")
    sink.publish(BatchId(0), (sink.stage(spark.range(3), BatchId(0)),))
    version = DeltaTable(str(tmp_path)).version()
    sink.rewind(None)
    sink.discard(())
    assert ids(tmp_path) == []
    assert DeltaTable(str(tmp_path), version=version).to_pyarrow_table().num_rows == 3


def test_discard_leaves_no_directory_of_unpublished_batches(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(spark, tmp_path, "id BIGINT")
    sink.stage(spark.range(3), BatchId(0))
    staged = sink.stage(spark.range(3), BatchId(0))
    sink.publish(BatchId(0), (staged,))
    sink.stage(spark.range(3), BatchId(1))
    sink.discard(())
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("part-*.parquet")}
    assert left == {file.path for file in staged.files}


def test_a_rewind_of_an_append_only_table_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(spark, tmp_path, "id BIGINT")
    sink.publish(BatchId(0), (sink.stage(spark.range(3), BatchId(0)),))
    DeltaTable(str(tmp_path)).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(HoldfastError, match="could not rewind"):
        sink.rewind(None)
    assert ids(tmp_path) == [0, 1, 2]
    assert sink.published() == 0


def test_a_staged_file_that_is_gone_is_reported_and_nothing_published(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(spark, tmp_path, "id BIGINT")
    staged = sink.stage(spark.range(3), BatchId(0))
    (tmp_path / staged.files[0].path).unlink()
    with pytest.raises(HoldfastError, match="neither staged nor published"):
        sink.publish(BatchId(0), (staged,))
    assert ids(tmp_path) == []


def test_a_table_that_was_replaced_while_the_job_ran_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = opened(spark, path, "id BIGINT")
    shutil.rmtree(path)
    DeltaTable.create(str(path), Schema.from_json(StructType([StructField("id", LongType())]).json()))
    with pytest.raises(HoldfastError, match="replaced"):
        sink.publish(BatchId(0), ())


def test_columns_that_do_not_fit_are_all_named(spark: SparkSession, tmp_path: Path) -> None:
    opened(spark, tmp_path, "id BIGINT, text STRING, price DOUBLE")
    with pytest.raises(InvalidSettings) as error:
        opened(spark, tmp_path, "id STRING, text STRING, city STRING", epoch=2)
    for line in ("id: string in the query, long in the table", "city: the query has it", "price: the table has it"):
        assert line in str(error.value)
    assert "text:" not in str(error.value)


@pytest.mark.parametrize("key", ["delta.setTransactionRetentionDuration", "delta.constraints.positive"])
def test_a_table_with_demands_that_cannot_be_met_is_refused(spark: SparkSession, tmp_path: Path, key: str) -> None:
    schema = Schema.from_json(StructType([StructField("id", LongType())]).json())
    value = "interval 1 days" if "Duration" in key else "id > 0"
    DeltaTable.create(str(tmp_path), schema, configuration={key: value}, raise_if_key_not_exists=False)
    with pytest.raises(InvalidSettings, match=key):
        opened(spark, tmp_path, "id BIGINT")


def test_partitions_with_any_value(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    schema = "id BIGINT, city STRING, day DATE"
    rows: list[tuple[int, str | None, date | None]] = [
        (0, "a:b/c d%", date(2024, 2, 29)),
        (1, "Köln", date(1969, 1, 1)),
        (2, None, None),
        (3, "x=y", date(2024, 2, 29)),
    ]
    sink = opened(spark, path, schema, partition_by=["city", "day"])
    staged = sink.stage(spark.createDataFrame(rows, schema).coalesce(1), BatchId(0))
    sink.publish(BatchId(0), (staged,))
    table = DeltaTable(str(path))
    assert sorted((r["id"], r["city"], r["day"]) for r in table.to_pyarrow_table().to_pylist()) == rows
    assert matching(table, pc.field("city") == "Köln") == [1]
    assert matching(table, pc.field("day") == date(2024, 2, 29)) == [0, 3]
    assert matching(table, pc.field("city").is_null()) == [2]
    assert opened(spark, path, schema, epoch=2)._partition_by == ("city", "day")
    with pytest.raises(InvalidSettings, match="partitioned by city, day"):
        opened(spark, path, schema, epoch=2, partition_by="city")
    newer = opened(spark, path, schema, epoch=2)
    newer.rewind(None)
    newer.discard(())
    assert ids(path) == []


def test_a_text_that_spark_writes_for_null_is_another_partition_than_null(spark: SparkSession, tmp_path: Path) -> None:
    schema = "id BIGINT, city STRING"
    rows = [(0, None), (1, "__HIVE_DEFAULT_PARTITION__"), (2, "n"), (3, "v")]
    sink = opened(spark, tmp_path, schema, partition_by="city")
    staged = sink.stage(spark.createDataFrame(rows, schema).coalesce(1), BatchId(0))
    sink.publish(BatchId(0), (staged,))
    table = DeltaTable(str(tmp_path)).to_pyarrow_table().sort_by("id")
    assert [(row["id"], row["city"]) for row in table.to_pylist()] == rows


@pytest.mark.parametrize(
    ("partition_by", "rule"), [("nope", "no such column"), ("at", "its type must be"), (["id", "at"], "its type")]
)
def test_partition_columns_are_checked_before_anything_is_created(
    spark: SparkSession, tmp_path: Path, partition_by: str | list[str], rule: str
) -> None:
    with pytest.raises(InvalidSettings, match=rule):
        opened(spark, tmp_path / "t", "id BIGINT, at TIMESTAMP", partition_by=partition_by)
    assert not (tmp_path / "t").exists()


PLAIN = """id, CAST(id AS STRING) AS text, CAST(id AS FLOAT) / 3 AS real, CAST(id AS DECIMAL(10,2)) AS price,
    DATE'2024-02-28' + CAST(id AS INT) AS day, TIMESTAMP_MICROS(1600000000123456 + id) AS at, id % 2 = 0 AS even,
    CAST(TIMESTAMP_MICROS(1600000000123456 + id) AS TIMESTAMP_NTZ) AS local, IF(id = 0, NULL, id) AS gap,
    CAST(NULL AS INT) AS never, CONCAT(REPEAT('z', 100), id) AS long, CAST(id AS TINYINT) AS tiny,
    CAST('b' AS BINARY) AS bytes, ARRAY(id) AS list, MAP('k', id) AS pairs"""


def published_table(spark: SparkSession, path: Path, columns: str) -> tuple[DeltaTable, dict[str, Any]]:
    frame = spark.sql(f"SELECT {columns} FROM RANGE(4)").coalesce(1)
    sink = Delta(path)
    sink.open(SinkContext(JobName("orders"), FencingEpoch(1), "home-1"), spark, frame.schema)
    staged = sink.stage(frame, BatchId(0))
    sink.publish(BatchId(0), (staged,))
    return DeltaTable(str(path)), json.loads(staged.files[0].stats)


def test_statistics_are_bounds_and_hide_no_row_from_a_filter(spark: SparkSession, tmp_path: Path) -> None:
    table, stats = published_table(spark, tmp_path, PLAIN)
    low, high, nulls = stats["minValues"], stats["maxValues"], stats["nullCount"]
    assert stats["numRecords"] == 4
    assert (low["at"], high["at"]) == ("2020-09-13T12:26:40.123Z", "2020-09-13T12:26:40.124Z")
    assert (low["local"], high["local"]) == ("2020-09-13T12:26:40.123", "2020-09-13T12:26:40.124")
    assert (low["day"], high["day"], low["price"], high["price"]) == ("2024-02-28", "2024-03-02", 0, 3)
    assert low["long"] < "z" * 100 + "0" <= "z" * 100 + "3" < high["long"]
    assert (nulls["gap"], nulls["never"]) == (1, 4)
    rows = table.to_pyarrow_table().to_pylist()
    for column in (name for name in low if name != "id"):
        for row in rows:
            if row[column] is not None:
                assert row["id"] in matching(table, pc.field(column) == pa.scalar(row[column])), column
    assert matching(table, pc.field("gap").is_null()) == [0]
    assert matching(table, pc.field("never").is_null()) == [0, 1, 2, 3]
    assert matching(table, pc.field("id") > 3) == []


def matching(table: DeltaTable, condition: pc.Expression) -> list[int]:
    return sorted(table.to_pyarrow_dataset().to_table(filter=condition).column("id").to_pylist())


@pytest.mark.parametrize(
    ("unbounded", "condition"),
    [
        ("IF(id = 3, DOUBLE('NaN'), id) AS x", pc.field("x") == 2.0),
        ("IF(id = 3, DOUBLE('NaN'), id) AS x", pc.is_nan(pc.field("x"))),
        ("NAMED_STRUCT('y', id) AS x", pc.field("x", "y") == 2),
        ("id AS `a.b`", pc.field("a.b") == 2),
        ("CAST(id AS DECIMAL(38,20)) / 3 + 0.00000000001 AS x", pc.field("id") == 2),
    ],
)
def test_columns_without_bounds_hide_no_row_from_a_filter(
    spark: SparkSession, tmp_path: Path, unbounded: str, condition: pc.Expression
) -> None:
    table, stats = published_table(spark, tmp_path, f"id, {unbounded}")
    assert "minValues" not in stats
    assert matching(table, condition) != []


def test_a_streaming_query_stages_and_timestamps_keep_their_microseconds(spark: SparkSession, tmp_path: Path) -> None:
    stream = (
        spark.readStream.format("rate-micro-batch")
        .options(rowsPerBatch=4, startTimestamp=1_600_000_000_000)
        .load()
        .selectExpr("value AS id", "timestamp + INTERVAL '0.000001' SECOND AS at")
    )
    sink = Delta(tmp_path / "t")
    sink.open(SinkContext(JobName("orders"), FencingEpoch(1), "home-1"), spark, stream.schema)
    ledger: list[StagedBatch] = []
    query = (
        stream.writeStream.foreachBatch(lambda batch, number: ledger.append(sink.stage(batch, BatchId(number))))
        .option("checkpointLocation", str(tmp_path / "work"))
        .start()
    )
    try:
        while len(ledger) < 2 and query.exception() is None:
            query.awaitTermination(0.1)
    finally:
        query.stop()
    sink.publish(BatchId(1), tuple(ledger[:2]))
    rows = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().sort_by("id").to_pylist()
    assert [row["id"] for row in rows] == list(range(8))
    assert rows[0]["at"] == datetime(2020, 9, 13, 12, 26, 40, 1, tzinfo=UTC)
