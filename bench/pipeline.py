"""The measured pipeline, several times one after the other in one process: `python -m bench.pipeline`.

One JVM for all of them, since two JVMs that do the same work differ by more than what is to be measured.

A windowed aggregation with a constant amount of state: each batch brings `keys` new groups, the watermark closes as
many old ones, and these are written as Parquet. Batches follow each other without a pause, so time lost anywhere is
throughput lost. All variants run the same query on the same rows and differ in who writes the output:

    plain      foreachBatch that appends Parquet to a directory, as users do without holdfast: at least once
    tuned      the same, with Spark's quicker way of writing files, which holdfast chooses by itself
    file-sink  Spark's own file sink
    holdfast   the `Files` sink with a checkpoint every five seconds
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from bench import processor

Variant = Literal["plain", "tuned", "file-sink", "holdfast"]
VARIANTS: tuple[Variant, ...] = ("plain", "tuned", "file-sink", "holdfast")

JOB = "bench"
INTERVAL = "5s"
_LOOK_S = 0.25

SPARK = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # The default is a minute. More often, so that a short run sees the snapshots of the state that a long one sees.
    "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
}


class Load(msgspec.Struct, frozen=True):
    """How much one life of the pipeline does."""

    keys: int
    """New groups per batch; the state holds about `windows` + 2 times as many."""
    windows: int
    warm_up: int
    """Batches before the measurement, until the state is full."""
    batches: int

    @property
    def state_keys(self) -> int:
        return self.keys * (self.windows + 2)


class Life(msgspec.Struct, frozen=True):
    """What was measured."""

    variant: Variant
    batch_seconds: tuple[float, ...]
    """From the start of a batch to the start of the next one."""
    processor_seconds: float
    """Of Spark and Python together, during these batches."""
    others: float
    """Cores that other processes kept busy meanwhile, on average."""
    checkpoints: int = 0
    failed_checkpoints: int = 0

    @property
    def processor_per_batch(self) -> float:
        return self.processor_seconds / len(self.batch_seconds)


def aggregation(spark: SparkSession, load: Load) -> DataFrame:
    events = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 2 * load.keys)
        .option("numPartitions", 2)
        .option("advanceMillisPerBatch", 1000)
        .load()
    )
    return (
        events.withWatermark("timestamp", f"{load.windows} seconds")
        .groupBy(F.window("timestamp", "1 second"), (F.col("value") % load.keys).alias("customer"))
        .agg(F.count("*").alias("orders"), F.sum("value").alias("total"), F.max(F.md5(F.hex("value"))).alias("last"))
        .selectExpr("window.start AS start", "customer", "orders", "total", "last")
    )


def live(spark: SparkSession, variant: Variant, load: Load, place: Path) -> Life:
    """Run the pipeline for the batches of `load` below `place`, stop."""
    place.mkdir(parents=True)
    frame = aggregation(spark, load)
    if variant == "holdfast":
        return _with_holdfast(spark, frame, load, place)
    # Loaded here: a life of plain Spark in bench.recovery loads nothing of holdfast.
    from holdfast.spark.checkpoint_files import quick_files

    with quick_files(spark) if variant == "tuned" else nullcontext():
        query = _plain(variant, frame, place)
    life = _measured(variant, lambda: query, load)
    query.stop()
    return life


def _plain(variant: Variant, frame: DataFrame, place: Path) -> StreamingQuery:
    output = f"file://{place}/output"
    writer = frame.writeStream.option("checkpointLocation", f"file://{place}/checkpoint")
    if variant == "file-sink":
        return writer.format("parquet").option("path", output).start()

    def write(batch: DataFrame, _: int) -> None:
        batch.write.mode("append").parquet(output)

    return writer.foreachBatch(write).start()


def _with_holdfast(spark: SparkSession, frame: DataFrame, load: Load, place: Path) -> Life:
    import holdfast
    from holdfast.sinks import Files

    home_of(place).mkdir()
    running = holdfast.start(
        lambda _: frame,
        job=JOB,
        home=f"file://{home_of(place)}",
        sink=Files(place / "output"),
        interval=INTERVAL,
        work=place / "work",
        spark=spark,
    )
    life = _measured("holdfast", lambda: running.query, load)
    running.stop(timeout="60s")
    statistics = running.status().statistics
    return msgspec.structs.replace(life, checkpoints=statistics.completed, failed_checkpoints=statistics.failed)


def home_of(place: Path) -> Path:
    return place / "home"


def _measured(variant: Variant, query: Callable[[], StreamingQuery | None], load: Load) -> Life:
    """The batches after the warm-up. Spark's own record is read once, at the end, so that it disturbs nothing."""
    last = load.warm_up + load.batches
    wait_for(load.warm_up, query)
    begun = processor.now()
    running = wait_for(last, query)
    ended = processor.now()
    return Life(
        variant,
        batch_seconds(running, load),
        processor.own_between(begun, ended),
        processor.others_between(begun, ended),
    )


def batch_seconds(running: StreamingQuery, load: Load) -> tuple[float, ...]:
    """Of the batches after the warm-up: from the start of one to the start of the next."""
    starts = {entry["batchId"]: datetime.fromisoformat(entry["timestamp"]) for entry in running.recentProgress}
    return tuple((starts[n + 1] - starts[n]).total_seconds() for n in range(load.warm_up, load.warm_up + load.batches))


def wait_for(batch_id: int, query: Callable[[], StreamingQuery | None]) -> StreamingQuery:
    while True:
        running = query()
        assert running is not None
        if failure := running.exception():
            raise RuntimeError(f"the pipeline failed: {failure}")
        progress: Any = running.lastProgress
        if progress is not None and progress["batchId"] >= batch_id:
            return running
        time.sleep(_LOOK_S)


def session(options: Mapping[str, str]) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("holdfast bench")
    for key, value in options.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("place", type=Path)
    parser.add_argument("variants", nargs="+", choices=VARIANTS)
    parser.add_argument("--load", required=True, help="JSON")
    arguments = parser.parse_args()
    load = msgspec.json.decode(arguments.load, type=Load)
    spark = session(SPARK)
    for number, variant in enumerate(arguments.variants):
        life = live(spark, variant, load, arguments.place / str(number))
        # The file appears whole: it tells the parent process that this life is over.
        result = arguments.place / f"{number}.json"
        result.with_suffix(".part").write_bytes(msgspec.json.encode(life))
        result.with_suffix(".part").rename(result)


if __name__ == "__main__":
    main()
