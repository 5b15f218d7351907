"""One driver process with a job per source; two lives, like `operators_driver`.

Settings come as JSON in the first argument. Both lives write to the sources what they then read: portions of numbers.
"""

import json
import logging
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
from deltalake import write_deltalake
from py4j.java_gateway import JavaMember
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast.errors import HoldfastError
from holdfast.sinks import Files
from holdfast.spark.running import RunningJob
from tests.end_to_end.connectors import DELTA_SETTINGS, delta_jars, kafka_jars
from tests.end_to_end.driver import session, tell
from tests.end_to_end.operators_driver import checkpoint, wait_for_batch

FIRST, SECOND, THIRD = range(40), range(40, 70), range(70, 100)
"""Before the first life, after its checkpoint, and before the second."""
FAR = 1_000_000
"""Closes every window that the others are in."""
PARTS = 2
"""A number is in partition number % PARTS of the topic or table."""
WINDOW = 25
RATE = 20


@dataclass(frozen=True)
class Source:
    build: Callable[[SparkSession], DataFrame]
    feed: Callable[[Iterable[int]], None] = lambda numbers: None


class Kafka:
    def __init__(self, spark: SparkSession, servers: str, topic: str) -> None:
        self._spark = spark
        self._servers = servers
        self._topic = topic

    def read(self, spark: SparkSession, **options: str) -> DataFrame:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._servers)
        reader = reader.option("subscribe", self._topic).option("startingOffsets", "earliest")
        records = reader.option("maxOffsetsPerTrigger", 30).options(**options).load()
        return records.selectExpr("partition AS part", "CAST(CAST(value AS STRING) AS LONG) AS number")

    def send(self, numbers: Iterable[int]) -> None:
        rows = [(number % PARTS, str(number)) for number in numbers]
        records = self._spark.createDataFrame(rows, "partition INT, value STRING").coalesce(1)
        writer = records.write.format("kafka").option("kafka.bootstrap.servers", self._servers)
        writer.option("topic", self._topic).save()

    def delete_all(self) -> None:
        """What retention does, without waiting for it."""
        jvm: Any = self._spark._jvm
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create({"bootstrap.servers": self._servers})
        # Of two methods with this name py4j offers the other one.
        before = JavaMember(
            "beforeOffset", None, "z:org.apache.kafka.clients.admin.RecordsToDelete", jvm._gateway_client
        )
        everything = before(-1)
        partitions = [jvm.org.apache.kafka.common.TopicPartition(self._topic, part) for part in range(PARTS)]
        admin.deleteRecords(dict.fromkeys(partitions, everything)).all().get()
        admin.close()


class DeltaTable:
    def __init__(self, table: Path) -> None:
        self._table = table

    def read(self, spark: SparkSession) -> DataFrame:
        return spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(str(self._table))

    def append(self, numbers: Iterable[int]) -> None:
        """Several files in one version: a batch of one file ends in the midst of it."""
        found = list(numbers)
        rows = pyarrow.table({"number": found, "part": [number % PARTS for number in found]})
        write_deltalake(self._table, rows, mode="append", partition_by=["part"])


def sums(numbers: DataFrame) -> DataFrame:
    """State to which numbers of all portions contribute; nothing comes out before the far one."""
    timed = numbers.withColumn("at", F.timestamp_seconds("number")).withWatermark("at", "1 hour")
    grouped = timed.groupBy("part", F.window("at", f"{WINDOW} seconds"))
    found = grouped.agg(F.count("*").alias("n"), F.sum("number").alias("total"))
    return found.selectExpr("part", "unix_timestamp(window.start) AS start", "n", "total")


def rate(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").option("rowsPerSecond", RATE).load()


class Life:
    def __init__(self, given: dict[str, Any], spark: SparkSession) -> None:
        self._root = Path(given["root"])
        self._work = given["work"]
        self._finish = bool(given["finish"])
        self._spark = spark
        self._forgotten = forgotten = Kafka(spark, given["servers"], "forgotten")
        numbers, table = Kafka(spark, given["servers"], "numbers"), DeltaTable(self._root / "table")
        sources = {
            "kafka": Source(lambda spark: sums(numbers.read(spark)), numbers.send),
            "forgotten": Source(forgotten.read, forgotten.send),
            "delta": Source(lambda spark: sums(table.read(spark)), table.append),
            "rate": Source(rate),
        }
        self._sources = {name: sources[name] for name in given["jobs"]}

    def until_killed(self) -> None:
        self._feed(FIRST)
        jobs = {name: self._start(name, source.build) for name, source in self._sources.items()}
        wait_for_batch(jobs, dict.fromkeys(jobs, -1))
        at = checkpoint(jobs)
        tell("checkpointed")
        self._feed(SECOND)
        wait_for_batch(jobs, at)
        tell(f"lag {json.dumps({name: lag(job) for name, job in jobs.items()})}")
        for job in jobs.values():
            job.await_termination()

    def to_the_end(self) -> None:
        if "forgotten" in self._sources:
            self._forgotten.delete_all()
        self._feed((*THIRD, FAR))
        for name, source in self._sources.items():
            try:
                self._start(name, source.build).await_termination()
            except HoldfastError as error:
                tell(f"error {name} {error.exit_code} {' '.join(str(error).splitlines())}")
        if "forgotten" in self._sources:
            self._start("forgotten", self._what_is_left).await_termination()

    def _what_is_left(self, spark: SparkSession) -> DataFrame:
        return self._forgotten.read(spark, failOnDataLoss="false")

    def _feed(self, numbers: Iterable[int]) -> None:
        for source in self._sources.values():
            source.feed(numbers)

    def _start(self, name: str, build: Callable[[SparkSession], DataFrame]) -> RunningJob:
        return holdfast.start(
            build,
            job=name,
            home=f"file://{self._root / 'home'}",
            sink=Files(self._root / "output" / name),
            spark=self._spark,
            work=self._work,
            interval="1h",
            restart_delay="100ms",
            trigger="available-now" if self._finish else "200ms",
        )


def lag(job: RunningJob) -> dict[str, str]:
    """How far the newest batch is behind its source, as Spark says it."""
    assert job.query is not None
    progress = job.query.lastProgress
    return dict(progress["sources"][0]["metrics"]) if progress else {}


def connectors(jobs: Collection[str]) -> dict[str, str]:
    """Spark's settings for them."""
    if "kafka" in jobs:
        return {"spark.jars": ",".join(map(str, kafka_jars()))}
    if "delta" in jobs:
        return {"spark.jars": ",".join(map(str, delta_jars())), **DELTA_SETTINGS}
    return {}


def main() -> None:
    given = json.loads(sys.argv[1])
    logging.basicConfig(level="INFO", stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    life = Life(given, session("rocksdb-changelog", connectors(given["jobs"])))
    if given["finish"]:
        life.to_the_end()
    else:
        life.until_killed()


if __name__ == "__main__":
    main()
