"""A query against the checkpoint it is to go on from, both made by the real Spark."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.checkpoint.compatibility import differences
from holdfast.checkpoint.difference import Difference
from holdfast.checkpoint.query_facts import QueryFacts
from holdfast.identifiers import BatchId
from holdfast.runtime.query.causes import FailureCause, failure_of_text
from holdfast.spark.query_facts import facts_of
from holdfast.workdir.barriers import newest_barrier
from holdfast.workdir.factory import work_directory
from holdfast.workdir.query_record import held_facts, write_record
from tests.spark.conftest import HDFS, ROCKSDB, STATE_FORMATS

ROWS = """{"at": "2026-01-01T00:00:01Z", "key": 1, "value": 10, "other": 5}
{"at": "2026-01-01T00:00:02Z", "key": 2, "value": 20, "other": 6}
"""


@dataclass(frozen=True)
class Lab:
    spark: SparkSession
    root: Path

    def events(self, name: str = "in") -> DataFrame:
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        (folder / "0.json").write_text(ROWS)
        return self.spark.readStream.schema("at TIMESTAMP, key INT, value LONG, other LONG").json(str(folder))

    def run(self, frame: DataFrame, mode: str = "append", work: str = "work") -> Path:
        """Let it process its input, with the record that a run of holdfast leaves."""
        directory = self.root / work
        facts = facts_of(frame, mode, {})
        writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(directory))
        query = writer.foreachBatch(lambda batch, _: batch.collect()).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        write_record(work_directory(directory), BatchId(0), facts)
        return directory

    def compare(self, directory: Path, frame: DataFrame, mode: str = "append") -> tuple[Difference, ...]:
        barrier = newest_barrier(work_directory(directory))
        assert barrier is not None
        held = held_facts(work_directory(directory), barrier)
        coming = facts_of(frame, mode, held.conf)
        assert held.operators is not None
        assert coming.operators is not None
        return differences(held, coming)


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> Lab:
    return Lab(spark, tmp_path)


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    before: dict[str, str | None] = {}

    def change(key: str, value: str) -> None:
        before.setdefault(key, spark.conf.get(key, None))
        spark.conf.set(key, value)

    yield change
    for key, value in before.items():
        spark.conf.set(key, value) if value is not None else spark.conf.unset(key)


def joined_and_counted(lab: Lab) -> DataFrame:
    """Three stateful operators: a join, deduplication, an aggregation by window."""
    left = lab.events().withWatermark("at", "1 second").alias("l")
    right = lab.events("other").withWatermark("at", "1 second").alias("r")
    pairs = left.join(right, F.expr("l.key = r.key AND l.at = r.at")).select("l.at", "l.key", "l.value")
    single = pairs.dropDuplicates(["at", "key"])
    return single.groupBy(F.window("at", "5 seconds"), "key").agg(F.sum("value"), F.avg("value"), F.count("*"))


def many_aggregates(lab: Lab) -> DataFrame:
    """Buffers of every shape; numbers that Spark gives anew each time; a limit, which is stateful too."""
    return (
        lab.events()
        .groupBy((F.col("key") % 3).alias("rest"))
        .agg(
            F.collect_list(F.struct("key", "value")),
            F.approx_count_distinct("value"),
            F.max(F.expr("named_struct('v', value, 'k', key)")),
            F.first("value", ignorenulls=True),
            F.stddev("value"),
            F.sum(F.col("value").cast("decimal(12,2)")),
            F.max(F.expr("aggregate(array(value), 0L, (x, y) -> x + y)")),
        )
    )


def session_windows(lab: Lab) -> DataFrame:
    return lab.events().withWatermark("at", "1 second").groupBy(F.session_window("at", "2 seconds"), "key").count()


def within_watermark(lab: Lab) -> DataFrame:
    return lab.events().withWatermark("at", "1 second").dropDuplicatesWithinWatermark(["key", "value"]).limit(10)


def stateless(lab: Lab) -> DataFrame:
    return lab.events().union(lab.events("other")).where("value > 5")


@pytest.mark.parametrize(
    ("build", "mode"),
    [
        (joined_and_counted, "append"),
        (many_aggregates, "complete"),
        (session_windows, "append"),
        (within_watermark, "append"),
        (stateless, "append"),
    ],
)
def test_the_same_query_has_no_difference(lab: Lab, build: Callable[[Lab], DataFrame], mode: str) -> None:
    directory = lab.run(build(lab), mode)
    assert lab.compare(directory, build(lab), mode) == ()


def totals(events: DataFrame, key: str = "key", *values: str) -> DataFrame:
    return (
        events.withColumn("key", F.expr(key))
        .groupBy("key")
        .agg(*(F.expr(value) for value in values or ("sum(value) AS total",)))
    )


def test_the_same_query_has_no_difference_in_any_state_format(lab: Lab, state_format: str) -> None:
    directory = lab.run(totals(lab.events()), "update")
    assert lab.compare(directory, totals(lab.events()), "update") == ()
    facts = held_facts(work_directory(directory), BatchId(0))
    assert [source.kind for source in facts.sources or ()] == ["files"]
    assert facts.conf["spark.sql.streaming.stateStore.checkpointFormatVersion"] == STATE_FORMATS[state_format][2]


def test_what_changed_is_found_before_the_start(lab: Lab, conf: Callable[[str, str], None]) -> None:
    """One checkpoint, many changed queries; none of them is run."""
    both = lab.events().union(lab.events("other"))
    directory = lab.run(totals(both), "update")

    def found(frame: DataFrame, mode: str = "update") -> dict[str, Difference]:
        return {difference.subject: difference for difference in lab.compare(directory, frame, mode)}

    def refused(frame: DataFrame) -> list[str]:
        return [subject for subject, difference in found(frame).items() if difference.refused]

    assert found(totals(lab.events().union(lab.events("other")))) == {}
    aggregation = "aggregation (operator 0)"

    assert refused(totals(lab.events())) == ["sources"]
    assert refused(totals(both.union(lab.events("third")))) == ["sources"]
    assert "another order" in found(totals(lab.events("other").union(lab.events())))["sources"].why
    assert refused(totals(lab.events().union(lab.events("third")))) == ["source 1"]
    rate = (
        lab.spark.readStream.format("rate")
        .load()
        .selectExpr("timestamp AS at", "INT(value) AS key", "value", "value AS other")
    )
    assert refused(totals(lab.events().union(rate))) == ["source 1"]

    assert refused(totals(both.dropDuplicates(["key"]))) == ["stateful operators"]
    assert refused(both.select("key")) == ["stateful operators"]
    assert refused(both.dropDuplicates(["key"])) == ["stateful operators"]

    wider = found(totals(both, "BIGINT(key)"))[f"{aggregation}: key"]
    assert (wider.refused, wider.checkpoint, wider.query) == (True, "key integer", "key long")
    added = found(totals(both, "key", "sum(value) AS total", "count(*) AS n"))[f"{aggregation}: value"]
    assert (added.refused, added.checkpoint, added.query) == (True, "-", "count long")
    assert refused(totals(both, "key", "sum(value * 1.5D) AS total")) == [f"{aggregation}: value"]

    # Equal types: Spark would go on, and mix what was summed with what is summed now.
    assert refused(totals(both, "key", "sum(other) AS total")) == [f"{aggregation}: computes"]
    assert refused(totals(both, "INT(other)")) == [f"{aggregation}: computes"]
    renamed = both.withColumnRenamed("key", "customer").groupBy("customer").agg(F.sum("value"))
    assert refused(renamed) == [f"{aggregation}: key"]
    assert found(totals(both, "key", "sum(value) AS other_name")) == {}
    assert found(totals(both.where("value > 3"))) == {}

    conf("spark.sql.shuffle.partitions", "5")
    conf("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    conf("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
    conf("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    changed = found(totals(both), "complete")
    assert {subject: difference.refused for subject, difference in changed.items()} == dict.fromkeys(
        ("shuffle partitions", "state store provider", "state checkpoint format", "changelog", "output mode"), False
    )
    assert (changed["shuffle partitions"].checkpoint, changed["shuffle partitions"].query) == ("2", "5")
    assert changed["state store provider"].checkpoint == HDFS.rpartition(".")[2]


def test_another_grouping_into_keys_of_the_same_form_is_refused(lab: Lab) -> None:
    def grouped(window: str, divisor: int) -> DataFrame:
        events = lab.events().withWatermark("at", "1 second")
        return events.groupBy(F.window("at", window), F.col("key") % divisor).count()

    directory = lab.run(grouped("5 seconds", 3), "update")
    assert lab.compare(directory, grouped("5 seconds", 3), "update") == ()
    (other_rest,) = lab.compare(directory, grouped("5 seconds", 4), "update")
    assert (other_rest.refused, other_rest.checkpoint, other_rest.query) == (True, "(key % 3)", "(key % 4)")
    (other_window,) = lab.compare(directory, grouped("10 seconds", 3), "update")
    assert other_window.refused
    assert "10000000" in other_window.query


def test_what_is_only_told_does_not_hinder_spark(lab: Lab, conf: Callable[[str, str], None]) -> None:
    """Other partitions, provider and format: Spark keeps the checkpoint's, as the table says."""
    directory = lab.run(totals(lab.events()), "update")
    (lab.root / "in" / "1.json").write_text(ROWS)
    conf("spark.sql.shuffle.partitions", "5")
    conf("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    conf("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
    lab.run(totals(lab.events()), "update")
    assert newest_barrier(work_directory(directory)) == 1
    held = held_facts(work_directory(directory), BatchId(1))
    assert held.conf["spark.sql.shuffle.partitions"] == "2"
    assert held.conf["spark.sql.streaming.stateStore.providerClass"] == HDFS
    assert held.conf["spark.sql.streaming.stateStore.checkpointFormatVersion"] == "1"


@pytest.mark.parametrize(
    "changed",
    [
        lambda lab: totals(lab.events(), "BIGINT(key)"),
        lambda lab: totals(lab.events(), "key", "sum(value) AS total", "count(*) AS n"),
        lambda lab: totals(lab.events().dropDuplicates(["key"])),
        lambda lab: totals(lab.events().union(lab.events("other"))),
        lambda lab: lab.events().select("key"),
    ],
    ids=["key type", "value column", "operator", "source", "stateless"],
)
def test_what_is_refused_is_what_spark_breaks_on(lab: Lab, changed: Callable[[Lab], DataFrame]) -> None:
    """And when it is started all the same, the failure is known for what it is: no restart, no blame for the state."""
    lab.run(totals(lab.events()), "update")
    (lab.root / "in" / "1.json").write_text(ROWS)
    with pytest.raises(Exception) as failure:  # noqa: PT011
        lab.run(changed(lab), "update")
    assert failure_of_text(str(failure.value)).cause is FailureCause.INCOMPATIBLE, failure.value


def test_a_writer_of_the_users_own_is_looked_at_too(lab: Lab) -> None:
    writer = totals(lab.events()).writeStream.outputMode("update")
    facts = facts_of(writer, "append", {})
    assert facts.output_mode == "update"
    assert [operator.name for operator in facts.operators or ()] == ["stateStoreSave"]
    assert [source.place for source in facts.sources or ()] == [str(lab.root / "in")]


def test_no_secret_of_a_source_is_kept(lab: Lab) -> None:
    options = {"password": "hunter2", "rowsPerSecond": "3"}
    frame = lab.spark.readStream.format("rate").options(**options).load()
    facts = facts_of(frame, "append", {})
    assert isinstance(facts, QueryFacts)
    assert "hunter2" not in repr(facts)
