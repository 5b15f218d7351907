"""A driver on a cluster: first a start that must be refused, then the job, beside another query of the same session.

Settings come as JSON in the first argument, as for the driver of tests/end_to_end; besides them `blind`, a
directory that some executors do not see, neither for work nor for output. With `alone` nothing but the other query
runs, as an application of its own.
"""

import json
import logging
import signal
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from holdfast.errors import HoldfastError, InvalidSettings
from holdfast.settings import Settings
from holdfast.sinks import Delta
from holdfast.spark import carrying
from holdfast.spark.api import start_stepwise
from tests.end_to_end.driver import Steps, session, tell, windowed_counts


def neighbour(spark: SparkSession) -> StreamingQuery:
    """A query that holdfast does not know; tells each batch, which needs tasks on executors."""

    def count(batch: DataFrame, number: int) -> None:
        batch.count()
        tell(f"neighbour {number}")

    events = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    return events.writeStream.foreachBatch(count).trigger(processingTime="100 milliseconds").start()


def let_small_things_be_large() -> None:
    """Who copies is chosen as ever, but for how much makes it worth while, and how large a cluster must be for it."""
    carrying.WORTH_A_TASK = 0
    carrying.SLOTS = 2


def main() -> int:
    given = json.loads(sys.argv[1])
    let_small_things_be_large()
    logging.basicConfig(level="INFO", stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("holdfast").setLevel("DEBUG")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    steps = Steps(given)
    spark = session(given["state_format"], given["spark"])
    if given.get("alone"):
        neighbour(spark).awaitTermination()

    def start(work: str, output: str = given["output"]) -> object:
        return start_stepwise(
            lambda spark: windowed_counts(spark, given["source"], given["files_per_batch"]),
            "counts",
            given["home"],
            Delta(output, step=steps),
            Settings(spark=spark, work=work, **given["options"]),
            steps,
        )

    if given.get("blind"):
        for work, output in ((given["blind"], given["output"]), (given["work"], f"{given['blind']}/table")):
            try:
                start(work, output)
            except InvalidSettings as error:
                tell(f"refused {error}".replace("\n", " "))
    beside = neighbour(spark)
    try:
        running = start(given["work"])
        tell("step started")
        signal.signal(signal.SIGTERM, lambda *_: running.begin_stop())  # type: ignore[attr-defined]
        while not running.await_termination("200ms"):  # type: ignore[attr-defined]
            pass
    except HoldfastError as error:
        tell(f"error {error.exit_code} {error}")
        return error.exit_code
    beside.stop()  # before the last line is told
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("holdfast: counts")
    tell(f"jobs {len(jobs)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
