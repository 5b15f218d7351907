"""The pipeline of `holdfast demo`: orders and takings per shop and minute, by event time."""

from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

ARRIVING = Path(__file__).parent / "input"


def orders(spark: Any) -> Any:
    rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", rocksdb)
    spark.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    spark.conf.set("spark.sql.shuffle.partitions", "2")

    arriving = spark.readStream.schema("at TIMESTAMP, shop STRING, cents BIGINT").option("maxFilesPerTrigger", 12)
    return (
        arriving.json(str(ARRIVING))
        .withWatermark("at", "1 minute")
        .groupBy(F.window("at", "1 minute").alias("minute"), "shop")
        .agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
        .selectExpr("minute.start AS minute", "shop", "orders", "cents")
    )
