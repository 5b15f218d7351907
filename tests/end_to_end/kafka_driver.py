"""One driver process with one job from a topic to files, with a login. Settings come as JSON in the first argument.

Tells each alarm, and is stopped by a signal.
"""

import json
import logging
import sys

from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast.alarm import Alarm
from holdfast.errors import HoldfastError
from holdfast.sinks import Files
from tests.end_to_end.connectors import kafka_jars
from tests.end_to_end.driver import session, tell


def main() -> None:
    given = json.loads(sys.argv[1])
    logging.basicConfig(level="DEBUG", stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    spark = session("rocksdb-changelog", {"spark.jars": ",".join(map(str, kafka_jars()))})

    def records(spark: SparkSession) -> DataFrame:
        reader = spark.readStream.format("kafka").option("startingOffsets", "earliest").options(**given["reader"])
        return reader.load().selectExpr("partition AS part", "CAST(CAST(value AS STRING) AS LONG) AS number")

    def heard(alarm: Alarm) -> None:
        tell(f"alarm {json.dumps([alarm.code, alarm.change, alarm.message, alarm.hint])}")

    try:
        holdfast.run(
            records,
            job="records",
            home=given["home"],
            sink=Files(given["output"]),
            spark=spark,
            work=given["work"],
            alarms=[heard],
            **{"interval": "300ms", "trigger": "200ms", "restart_delay": "100ms", **given["options"]},
        )
    except HoldfastError as error:
        tell(f"error {error.exit_code} {' '.join(str(error).splitlines())}")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
