"""A driver that has nothing but an object store: source, home, work directory and output are there.

Settings come as JSON in the first argument. The output is Spark's own file sink, which knows batches by their id.
"""

import json
import logging
import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from holdfast.errors import HoldfastError
from holdfast.settings import Settings
from holdfast.spark.api import run
from tests.cluster.driver import let_small_things_be_large
from tests.end_to_end.driver import session, tell, windowed_counts


def main() -> int:
    given = json.loads(sys.argv[1])
    let_small_things_be_large()
    logging.basicConfig(level="INFO", stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("holdfast").setLevel("DEBUG")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    spark = session("rocksdb-v2", given["spark"])
    trigger = {"availableNow": True} if given["finish"] else {"processingTime": "0 seconds"}

    def counts(spark: SparkSession) -> DataStreamWriter:
        rows = windowed_counts(spark, given["source"], 50 if given["finish"] else 4)
        return rows.writeStream.format("parquet").option("path", given["output"]).trigger(**trigger)

    try:
        run(
            counts,
            job="counts",
            home=given["home"],
            settings=Settings(
                spark=spark,
                work=given["work"],
                plans="require",
                identity="counts-0",
                interval="1s",
                heartbeat="500ms",
                restart_delay="100ms",
            ),
        )
    except HoldfastError as error:
        tell(f"error {error.exit_code} {' '.join(str(error).splitlines())}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
