"""One life of a pipeline on Spark: `python -m bench.peers.systems.spark_life SYSTEM SETTING`. Tells each batch."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from bench.peers.pipeline import STRIDE
from bench.peers.setting import JOB, Setting
from bench.peers.systems.system import Progress

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STATE = "spark.sql.streaming.stateStore"
_PACED_S = 1
_LOOK_S = 0.05
_LOOK = timedelta(seconds=_LOOK_S)
_FULL_TIMEOUT = "5m"


def session(system: str, setting: Setting) -> SparkSession:
    master = "local-cluster[1,2,1024]" if setting.worker else "local[2]"
    builder = SparkSession.builder.master(master).appName(JOB)
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.executor.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(setting.local / "spark"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        f"{_STATE}.providerClass": _ROCKSDB,
    }
    if system != "plain":
        options[f"{_STATE}.rocksdb.changelogCheckpointing.enabled"] = "true"
    for key, value in options.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN" if setting.worker else "ERROR")
    return spark


def computed(spark: SparkSession, setting: Setting) -> DataFrame:
    shape = setting.shape
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", setting.rows_per_second * _PACED_S or shape.batch)
        .option("numPartitions", 2)
        .load()
        .select(F.col("value").alias("n"))
    )
    if setting.query == "keyed":
        keyed = numbers.groupBy((F.col("n") * STRIDE % shape.keys).alias("customer"))
        last = F.max(F.sha2(F.col("n").cast("string"), 512)).alias("last")
        return keyed.agg(F.count("*").alias("orders"), F.sum("n").alias("total"), last)
    happened = F.timestamp_millis(F.expr(f"n * 1000 div {shape.per_second}"))
    return (
        numbers.withColumn("event_time", happened)
        .withWatermark("event_time", f"{shape.delay} seconds")
        .groupBy(F.window("event_time", "1 second"), (F.col("n") % shape.window_keys).alias("customer"))
        .agg(F.count("*").alias("orders"), F.sum("n").alias("total"))
        .selectExpr("unix_seconds(window.start) AS second", "customer", "orders", "total")
    )


def written(frame: DataFrame, system: str, setting: Setting) -> DataStreamWriter:
    """By Spark itself or by a user's own function."""
    if setting.query == "keyed":
        writer = frame.writeStream.outputMode("update").format("noop")
    elif system == "own-writer":
        output = f"file://{setting.output}"

        def write(batch: DataFrame, batch_id: int) -> None:
            batch.write.mode("overwrite").parquet(f"{output}/batch={batch_id}")

        writer = frame.writeStream.foreachBatch(write)
    else:
        writer = frame.writeStream.format("parquet").option("path", f"file://{setting.output}")
    return writer.trigger(processingTime=f"{_PACED_S} second") if setting.rows_per_second else writer


class Teller:
    """Writes the progress of this life."""

    def __init__(self, setting: Setting) -> None:
        self._file = setting.progress.open("a")
        self._seen: tuple[str, int] = ("", -1)
        self.rows = 0

    def tell(self, query: StreamingQuery | None, restarts: int = 0) -> None:
        for progress in query.recentProgress if query is not None else ():
            place = (str(progress["runId"]), int(progress["batchId"]))
            if place[0] == self._seen[0] and place[1] <= self._seen[1]:
                continue
            self._seen = place
            if progress["numInputRows"]:
                self.rows += progress["numInputRows"]
                self._write(Progress(_ended(progress), self.rows, _commit_s(progress), restarts))

    def _write(self, progress: Progress) -> None:
        self._file.write(msgspec.json.encode(progress).decode() + "\n")
        self._file.flush()


def _ended(progress: Any) -> float:
    begun = datetime.fromisoformat(progress["timestamp"]).timestamp()
    return begun + float(progress["durationMs"].get("triggerExecution", 0)) / 1000


def _commit_s(progress: Any) -> float:
    """The log of the batch, its commit, and the commits of the state, which the two tasks do side by side."""
    durations = progress["durationMs"]
    state = sum(operator["commitTimeMs"] for operator in progress["stateOperators"]) / 2
    return float(durations.get("walCommit", 0) + durations.get("commitOffsets", 0) + state) / 1000


def alone(spark: SparkSession, system: str, setting: Setting) -> None:
    writer = written(computed(spark, setting), system, setting)
    writer = writer.option("checkpointLocation", f"file://{setting.store}")
    quick: AbstractContextManager[None] = nullcontext()
    if system == "tuned":
        # Loaded here: plain Spark loads nothing of holdfast.
        from holdfast.spark.checkpoint_files import quick_files

        quick = quick_files(spark)
    with quick:
        query = writer.start()
    teller = Teller(setting)
    while query.isActive:
        teller.tell(query)
        time.sleep(_LOOK_S)
    query.awaitTermination()


def under_holdfast(spark: SparkSession, system: str, setting: Setting) -> None:
    teller = Teller(setting)
    if setting.full_after:
        running = _started(spark, system, setting, "1h")
        _watch(running, teller, lambda: teller.rows >= setting.full_after)
        running.checkpoint(timeout=_FULL_TIMEOUT)
        running.stop(timeout=_FULL_TIMEOUT)
    running = _started(spark, system, setting, setting.interval)
    _watch(running, teller, lambda: False)


def _started(spark: SparkSession, system: str, setting: Setting, interval: str) -> Any:
    import holdfast
    from holdfast.sinks import Files

    given: dict[str, Any] = {"job": JOB, "home": f"file://{setting.store}", "work": setting.local / "work"}
    given |= {"spark": spark, "interval": interval}
    if setting.timeout is not None:
        given["timeout"] = setting.timeout
    if setting.rows_per_second:
        given["trigger"] = f"{_PACED_S}s"
    if system == "own-writer" or setting.query == "keyed":
        given.pop("trigger", None)
        return holdfast.start(written(computed(spark, setting), system, setting), **given)
    return holdfast.start(lambda spark: computed(spark, setting), sink=Files(setting.output), **given)


def _watch(running: Any, teller: Teller, enough: Callable[[], bool]) -> None:
    while not running.await_termination(timeout=_LOOK) and not enough():
        teller.tell(running.query, running.status().restarts)


def main() -> None:
    system, setting = sys.argv[1], msgspec.json.decode(sys.argv[2], type=Setting)
    spark = session(system, setting)
    if system in ("plain", "tuned"):
        alone(spark, system, setting)
    else:
        under_holdfast(spark, system, setting)


if __name__ == "__main__":
    main()
