"""Clicks per page and minute, by event time: a watermark, a window, a file source, and plain Parquet files as output.

    python examples/windowed_clicks.py

or `spark-submit examples/windowed_clicks.py`, in an environment with holdfast.

It creates some input, counts it, and ends, because of the trigger: the next start counts what has arrived since.
"""

import json
import logging
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import functions as F

import holdfast
from holdfast.sinks import Files

PLACE = Path(tempfile.gettempdir()) / "holdfast-examples"


def windowed_clicks(spark):
    # State lives in RocksDB; with the changelog a batch writes what it changed, and a checkpoint copies only that.
    rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", rocksdb)
    spark.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    spark.conf.set("spark.sql.shuffle.partitions", "2")

    clicks = spark.readStream.schema("at TIMESTAMP, page STRING").json(str(PLACE / "clicks"))
    # A minute is counted when the watermark has passed its end. The files hold each row exactly once.
    return (
        clicks.withWatermark("at", "30 seconds")
        .groupBy(F.window("at", "1 minute").alias("minute"), "page")
        .count()
        .selectExpr("minute.start AS minute", "page", "count AS clicks")
    )


def _ten_minutes_of_clicks(directory):
    directory.mkdir(parents=True, exist_ok=True)
    begin = datetime(2026, 1, 5, 9, 0, tzinfo=UTC) + timedelta(minutes=10) * len(list(directory.glob("*.json")))
    times = [begin + timedelta(seconds=second) for second in range(600)]
    lines = [json.dumps({"at": at.isoformat(), "page": f"/{at.second % 3}"}) for at in times]
    (directory / f"{begin:%H%M}.json").write_text("\n".join(lines))


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("holdfast").setLevel(logging.INFO)
    home = PLACE / "home"
    home.mkdir(parents=True, exist_ok=True)
    _ten_minutes_of_clicks(PLACE / "clicks")
    holdfast.run(
        windowed_clicks,
        job="windowed-clicks",
        home=f"file://{home}",
        sink=Files(PLACE / "clicks-per-minute"),
        trigger="available-now",  # leave it out, and the job runs until it is stopped
        interval="5s",
    )
