"""A stateful query of sixteen partitions with its checkpoint directory on S3, under plain Spark or holdfast. Settings
come as JSON in the first argument."""

import json
import sys
from typing import Any

from holdfast.settings import Settings
from holdfast.sinks import Delta
from holdfast.spark.api import run
from tests.end_to_end.driver import session, windowed_counts

PARTITIONS = 16


def main(given: dict[str, Any]) -> None:
    bucket = "spark.hadoop.fs.s3a.bucket.holdfast"
    conf = {
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.streaming.minBatchesToRetain": "100",
        "spark.sql.streaming.stateStore.maintenanceInterval": "1h",
    }
    if given["plain"]:
        conf |= {f"{bucket}.endpoint": given["endpoint"], f"{bucket}.path.style.access": "true"}
        conf |= {f"{bucket}.endpoint.region": "us-east-1"}
    spark = session("rocksdb-v2", conf)

    if given["plain"]:
        counts = windowed_counts(spark, given["source"], 1)
        writer = counts.writeStream.format("noop").outputMode("append").trigger(availableNow=True)
        writer.option("checkpointLocation", given["work"]).start().awaitTermination()
        return
    run(
        lambda spark: windowed_counts(spark, given["source"], 1),
        job="counts",
        home=given["home"],
        sink=Delta(given["output"]),
        settings=Settings(spark=spark, work=given["work"], trigger="available-now", interval="1h"),
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
