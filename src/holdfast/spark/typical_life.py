"""A short life of Spark that loads what a streaming query needs: `python -m holdfast.spark.typical_life PLACE`."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.spark.checkpoint_files import quick_files

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STATE_STORE = "spark.sql.streaming.stateStore"


def live(place: Path) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config(f"{_STATE_STORE}.providerClass", _ROCKSDB)
        .config(f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    spark.range(100).selectExpr("current_timestamp() AS at", "id").write.json(str(place / "source"))
    events = spark.readStream.schema("at TIMESTAMP, id LONG").json(str(place / "source"))
    counts = events.withWatermark("at", "1 second").groupBy(F.window("at", "5 seconds"), "id").count()

    def written(batch: DataFrame, _: int) -> None:
        batch.write.mode("append").parquet(str(place / "output"))

    with quick_files(spark):
        writer = counts.writeStream.option("checkpointLocation", str(place / "checkpoint"))
        query = writer.foreachBatch(written).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    live(Path(sys.argv[1]))
