r"""Clicks per page and ten seconds, from a Kafka topic into Parquet files.

    CLICKS_SERVERS=broker:9092 holdfast run examples/kafka_clicks.py --home file:///var/lib/holdfast \
        --sink files:/data/clicks --commit-offsets-to clicks-lag

`make kafka-example` starts a broker and a producer for it, runs it, and shows its lag.
"""

import os

from pyspark.sql import functions as F

SERVERS = os.environ.get("CLICKS_SERVERS", "localhost:9092")
TOPIC = os.environ.get("CLICKS_TOPIC", "clicks")


def clicks(spark):
    rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", rocksdb)
    spark.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    spark.conf.set("spark.sql.shuffle.partitions", "2")

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", SERVERS)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 5000)
        .load()
    )
    # A record is a page; its time is when the producer sent it.
    return (
        records.selectExpr("timestamp AS at", "CAST(value AS STRING) AS page")
        .withWatermark("at", "5 seconds")
        .groupBy(F.window("at", "10 seconds").alias("time"), "page")
        .count()
        .selectExpr("time.start AS since", "page", "count AS clicks")
    )
