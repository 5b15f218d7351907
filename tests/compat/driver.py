"""One life of a driver process in which every query that is asked for is a job of its own, under any PySpark.

Settings come as JSON in the first argument. A life takes a checkpoint of each job as soon as that has got beyond where
it began, goes on, and waits to be killed; with `finish` it processes what is left and ends by itself.
"""

import json
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast.errors import HoldfastError
from holdfast.sinks import Delta, Files
from holdfast.spark.running import RunningJob
from tests.compat.plans import INTO_FILES
from tests.end_to_end.driver import session, tell
from tests.end_to_end.operators import CASES, DELAY, SCHEMA
from tests.end_to_end.operators_driver import ONCE
from tests.patience import PATIENCE


class Life:
    def __init__(self, given: dict[str, Any], spark: SparkSession) -> None:
        self._root = Path(given["root"])
        self._work = given["work"]
        self._finish = bool(given["finish"])
        self._spark = spark

    def start(self, name: str) -> RunningJob:
        case, output = CASES[name], self._root / "output" / name

        def build(spark: SparkSession) -> Any:
            return case.build(lambda: self._read(spark), output)

        return holdfast.start(
            build,
            job=name,
            home=f"file://{self._root / 'home'}",
            sink=Files(output) if name in INTO_FILES else Delta(output),
            spark=self._spark,
            work=self._work,
            interval="1h",
            trigger="1s" if not self._finish else "once" if name in ONCE else "available-now",
        )

    def _read(self, spark: SparkSession) -> DataFrame:
        events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 10 if self._finish else 2)
        return events.json(str(self._root / "source")).withWatermark("at", DELAY)


def wait_for_batch(name: str, job: RunningJob, after: int) -> None:
    """Until the job has committed a batch after that one."""
    deadline = time.monotonic() + PATIENCE
    while (barrier := job.status().barrier) is None or barrier <= after:
        assert time.monotonic() < deadline, f"{name} does not get beyond batch {after}"
        job.await_termination("20ms")


@contextmanager
def told_when_refused(name: str) -> Iterator[None]:
    """One query that cannot go on is no reason not to go on with the others."""
    try:
        yield
    except HoldfastError as error:
        tell(f"refused {name} {' '.join(str(error).splitlines())}")


def go_on(life: Life, began: dict[str, int]) -> None:
    jobs = {}
    for name, after in began.items():  # one after the other: first batches take all that the machine has
        with told_when_refused(name):
            job = life.start(name)
            wait_for_batch(name, job, after)
            jobs[name] = job
            tell(f"started {name}")
    for job in jobs.values():
        job.checkpoint("60s")
    committed = {name: job.status().barrier for name, job in jobs.items()}  # at least what the checkpoint holds
    tell("checkpointed")
    for name, job in jobs.items():
        wait_for_batch(name, job, committed[name] or 0)
    tell("beyond")
    for job in jobs.values():
        job.await_termination()


def finish(life: Life, names: Sequence[str]) -> None:
    for name in names:
        with told_when_refused(name):
            life.start(name).await_termination()
            tell(f"ended {name}")


def main() -> None:
    given = json.loads(sys.argv[1])
    logging.basicConfig(level="INFO", stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    life = Life(given, session(given["state_format"]))
    if given["finish"]:
        finish(life, list(given["began"]))
    else:
        go_on(life, given["began"])


if __name__ == "__main__":
    main()
