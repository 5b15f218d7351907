"""One life of a pipeline with much state: `python -m bench.recovery_life JSON`. Tells each batch that it commits.

    plain     Spark alone, on the checkpoint directory that the life before left
    tuned     the same, with Spark's quicker way of writing files, which holdfast chooses by itself
    holdfast  the same query under holdfast; whether it finds its work directory is the parent's business

The query keeps one row of incompressible bytes per key, in RocksDB without changelog: the state is in SSTs. Its output
goes nowhere: what is measured is how a life begins.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from bench.pipeline import session

JOB = "recovery"
BYTES_PER_KEY = 1024
LOOK_S = 0.02
_HASH = 64

SPARK = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


class Life(msgspec.Struct, frozen=True):
    variant: Literal["plain", "tuned", "holdfast"]
    place: str
    rows: int
    """Per batch."""
    growing: bool = False
    """One batch and no more; under holdfast with a checkpoint after it, whose end is told."""


def writer(spark: SparkSession, life: Life) -> DataStreamWriter:
    made = keyed(spark, life.rows).writeStream.outputMode("update").format("noop")
    return made.trigger(processingTime="1 hour") if life.growing else made


def keyed(spark: SparkSession, rows_per_batch: int) -> DataFrame:
    """One row of state for each row of input."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows_per_batch)
    hashes = [F.unhex(F.sha2(F.concat(F.col("value").cast("string"), F.lit(n)), 512)) for n in range(_per_key())]
    payload = F.concat(*hashes).alias("payload")
    kept = rows.option("numPartitions", 2).load().select("value", payload)
    return kept.groupBy("value").agg(F.max("payload"))


def _per_key() -> int:
    return BYTES_PER_KEY // _HASH


def main() -> None:
    life = msgspec.json.decode(sys.argv[1], type=Life)
    spark = session(SPARK | {"spark.local.dir": f"{life.place}/local"})
    made = writer(spark, life)
    if life.variant == "holdfast":
        _under_holdfast(spark, made, life)
    else:
        _alone(spark, made, life)


def _alone(spark: SparkSession, made: DataStreamWriter, life: Life) -> None:
    writer = made.option("checkpointLocation", f"file://{life.place}/checkpoint")
    if life.variant == "tuned":
        # Loaded here: plain Spark loads nothing of holdfast.
        from holdfast.spark.checkpoint_files import quick_files

        with quick_files(spark):
            query = writer.start()
    else:
        query = writer.start()
    _tell_batches(lambda: query, lambda: None)


def _under_holdfast(spark: SparkSession, made: DataStreamWriter, life: Life) -> None:
    import holdfast

    home = Path(life.place) / "home"
    home.mkdir(exist_ok=True)
    running = holdfast.start(
        made,
        job=JOB,
        home=f"file://{home}",
        work=Path(life.place) / "work",
        spark=spark,
        interval="1h",
    )

    def committed() -> None:
        if life.growing:
            running.checkpoint(timeout="10m")
            _tell("checkpoint")

    _tell_batches(lambda: running.query, committed)


def _tell_batches(query: Callable[[], StreamingQuery | None], committed: Callable[[], None]) -> None:
    """For ever: the parent kills."""
    told = -1
    while True:
        running = query()
        progress: Any = running.lastProgress if running is not None else None
        if running is not None and (failure := running.exception()):
            raise RuntimeError(f"the pipeline failed: {failure}")
        if progress is not None and progress["batchId"] > told and progress["numInputRows"] > 0:
            told = progress["batchId"]
            _tell(f"batch {told}")
            committed()
        time.sleep(LOOK_S)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
