"""One driver process in which every query of `operators` is a job of its own.

Settings come as JSON in the first argument. The first life takes a checkpoint of each job, runs on beyond it and waits
to be killed; with `finish` a life processes what is left and ends by itself.
"""

import json
import logging
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast.errors import HoldfastError, InvalidSettings
from holdfast.sinks import Delta
from holdfast.spark.query import trigger_of
from holdfast.spark.running import RunningJob
from tests.end_to_end.driver import session, tell
from tests.end_to_end.operators import CASES, DELAY, SCHEMA, Case
from tests.patience import PATIENCE

ONCE = {"stateless", "processor-ttl"}
"""With processing time Spark always wants one more batch, so that available-now would never end."""
SETTINGS = {
    # What happens every now and then in a long life happens in this short one: logs are compacted and cleaned, deltas
    # become snapshots.
    "spark.sql.streaming.fileSource.log.compactInterval": "2",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "1ms",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
}


class Jobs:
    def __init__(self, given: dict[str, Any], spark: SparkSession) -> None:
        self._root = Path(given["root"])
        self._work = given["work"]
        self._finish = bool(given.get("finish"))
        self._spark = spark
        self._cases = {name: CASES[name] for name in given["cases"]}

    def start_all(self) -> dict[str, RunningJob]:
        """One after the other: Spark gives a worker in Python ten seconds to start, and a first batch takes a core."""
        jobs = {}
        for name, case in self._cases.items():
            try:
                jobs[name] = self._start(name, case)
            except InvalidSettings as error:
                tell(f"refused {name} {' '.join(str(error).splitlines())}")
            else:
                wait_for_batch({name: jobs[name]}, {name: -1})
                tell(f"started {name}")
        return jobs

    def run_all_to_the_end(self) -> None:
        for name, case in self._cases.items():
            with suppress(InvalidSettings):
                self._start(name, case).await_termination()
                tell(f"ended {name}")

    def _start(self, name: str, case: Case) -> RunningJob:
        output = self._root / "output" / name
        # Without a pause all these queries would look for new files all the time.
        trigger = "1s" if not self._finish else "once" if name in ONCE else "available-now"

        def build(spark: SparkSession) -> Any:
            built = case.build(lambda: self._read(spark), output)
            return built if case.columns else built.trigger(**trigger_of(trigger))

        return holdfast.start(
            build,
            job=name,
            home=f"file://{self._root / 'home'}",
            sink=Delta(output) if case.columns else None,
            spark=self._spark,
            work=self._work,
            interval="1h",
            trigger=trigger,
            # What these writers write twice does no harm.
            repeats="refuse" if case.columns else "accept",
        )

    def _read(self, spark: SparkSession) -> DataFrame:
        events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 10 if self._finish else 2)
        return events.json(str(self._root / "source")).withWatermark("at", DELAY)


def wait_for_batch(jobs: dict[str, RunningJob], after: dict[str, int]) -> None:
    """Until each job has committed a batch after the one named."""
    deadline = time.monotonic() + PATIENCE
    for name, job in jobs.items():
        while (barrier := job.status().barrier) is None or barrier <= after[name]:
            assert time.monotonic() < deadline, f"{name} does not get beyond batch {after[name]}"
            job.await_termination("20ms")


def checkpoint(jobs: dict[str, RunningJob]) -> dict[str, int]:
    """One of each job, all at the same time; the batches committed by then, which are at least those that they hold."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(lambda job: job.checkpoint(f"{PATIENCE:g}s"), jobs.values()))
    return {name: job.status().barrier or 0 for name, job in jobs.items()}


def checkpoint_and_go_on(jobs: dict[str, RunningJob]) -> None:
    wait_for_batch(jobs, dict.fromkeys(jobs, 0))
    at = checkpoint(jobs)
    tell("checkpointed")
    wait_for_batch(jobs, at)
    tell("beyond")
    for job in jobs.values():
        job.await_termination()


def main() -> int:
    given = json.loads(sys.argv[1])
    logging.basicConfig(level="INFO", stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    spark = session(given["state_format"], SETTINGS | {"spark.sql.shuffle.partitions": str(given["partitions"])})
    try:
        jobs = Jobs(given, spark)
        if given.get("finish"):
            jobs.run_all_to_the_end()
        else:
            checkpoint_and_go_on(jobs.start_all())
    except HoldfastError as error:
        tell(f"error {error.exit_code} {' '.join(str(error).splitlines())}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
