"""A driver whose query has a writer of its own: numbers, without duplicates, into one of the sinks that people have.
Or into holdfast's, which then shows every batch: the writers `ours` and `our_files`.

python -m tests.end_to_end.own_writer_driver ROOT WRITER KIND SOURCE [plainly] [without_plans] [accepting] [finish]
python -m tests.end_to_end.own_writer_driver ROOT WRITER KIND SOURCE replay FIRST LAST
python -m tests.end_to_end.own_writer_driver ROOT WRITER read FILE

KIND is stateless or stateful, SOURCE one of rate, files, kafka, transactions. `plainly` is plain Spark, without
holdfast; `finish` reads what there is and ends; `replay` runs these batches of the restored ROOT/checkpoints once more
into nothing. The last writes to FILE what readers of the sink see. The home is
ROOT/home, or where HOLDFAST_OWN_HOME says; the topic is that of HOLDFAST_TOPIC, for `transactions` read as far as they
are committed. `without_plans`: with holdfast, which keeps no plans of batches; `accepting`, too: and which is told that
the writer takes batch ids again.

Input has each number twice where the query is stateful: without its state, rows would come twice.
"""

import json
import logging
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import holdfast
from holdfast.cli.main import main as holdfast_command
from holdfast.sinks import Delta, Files
from tests.end_to_end.connectors import DELTA_SETTINGS, SMALL_JVM, delta_jars, iceberg_jars, kafka_jars
from tests.end_to_end.postgres import sql

SCHEMA = "timestamp TIMESTAMP, value BIGINT"
TABLE = "local.numbers.out"
APP = "numbers"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def settings(root: Path, writer: str) -> dict[str, str]:
    """Of Spark."""
    common = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    }
    common |= {"spark.jars": _listed(found)} if (found := jars(writer)) else {}
    if writer == "iceberg":
        catalog = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": str(root / "out")}
        named = {f"spark.sql.catalog.local{key}": value for key, value in catalog.items()}
        extensions = {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"}
        return common | named | extensions
    if writer in ("delta", "merge", "transaction"):
        quick = {"spark.databricks.delta.snapshotPartitions": "1"}
        return common | DELTA_SETTINGS | quick
    return common


def jars(writer: str) -> list[Path]:
    if writer == "iceberg":
        return iceberg_jars()
    return delta_jars() if writer in ("delta", "merge", "transaction") else []


def jars_of_all(writers: Iterable[str]) -> str:
    """For a JVM that serves several of them, each with any source."""
    return _listed([*dict.fromkeys(jar for writer in writers for jar in jars(writer)), *kafka_jars()])


def _listed(jars: list[Path]) -> str:
    return ",".join(map(str, jars))


def session(root: Path, writer: str) -> Any:
    """The JVM may be one that has served others: it has the jars, and nothing else that this writer needs."""
    from pyspark.sql import SparkSession

    given = {key: value for key, value in settings(root, writer).items() if key != "spark.jars"}
    return SparkSession.builder.master("local[2]").config(map=given).getOrCreate()


def submit_arguments(root: Path, writer: str) -> str:
    given = " ".join(f"--conf {key}={value}" for key, value in settings(root, writer).items())
    quick = " ".join(option for option in SMALL_JVM if not option.startswith("-Xmx"))
    return f'--master local[2] --driver-java-options "{quick}" {given} pyspark-shell'


class Writers:
    """Each begins the output where there is none, and gives the options of `holdfast.run` that it needs."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._out = str(root / "out")

    def files(self, frame: Any) -> Any:
        return frame.writeStream.format("json").option("path", self._out)

    def delta(self, frame: Any) -> Any:
        return frame.writeStream.format("delta").option("path", self._out)

    def iceberg(self, frame: Any) -> Any:
        frame.sparkSession.sql(f"CREATE TABLE IF NOT EXISTS {TABLE} ({SCHEMA}) USING iceberg")
        return frame.writeStream.format("iceberg").option("path", TABLE)

    def merge(self, frame: Any) -> Any:
        frame.sparkSession.sql(f"CREATE TABLE IF NOT EXISTS delta.`{self._out}` ({SCHEMA}) USING delta")

        def write(batch: Any, number: int) -> None:
            batch.createOrReplaceTempView("batch")
            batch.sparkSession.sql(
                f"MERGE INTO delta.`{self._out}` AS held USING batch ON held.value = batch.value "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )

        return frame.writeStream.foreachBatch(write)

    def transaction(self, frame: Any) -> Any:
        def write(batch: Any, number: int) -> None:
            rows = batch.write.format("delta").mode("append").option("txnAppId", APP).option("txnVersion", number)
            rows.save(self._out)

        return frame.writeStream.foreachBatch(write)

    def postgres(self, frame: Any) -> Any:
        server = os.environ["HOLDFAST_POSTGRES"]
        sql(server, "CREATE TABLE IF NOT EXISTS numbers (value BIGINT PRIMARY KEY, batch INTEGER NOT NULL);")

        def write(batch: Any, number: int) -> None:
            rows = "".join(f"{row.value}\t{number}\n" for row in batch.select("value").collect())
            sql(
                server,
                "CREATE TEMPORARY TABLE batch (value BIGINT, batch INTEGER) ON COMMIT DROP;\n"
                f"COPY batch FROM stdin;\n{rows}\\.\n"
                "INSERT INTO numbers SELECT * FROM batch ON CONFLICT (value) DO UPDATE SET batch = excluded.batch;\n",
            )

        return frame.writeStream.foreachBatch(write)

    def ours(self, frame: Any) -> Any:
        return frame

    our_files = ours

    def options_of(self, writer: str) -> dict[str, Any]:
        """Of `holdfast.run`."""
        if writer == "transaction":
            return {"sink_position": self.position}
        if writer in ("ours", "our_files"):
            return {"publish": "batch", "sink": Delta(self._out) if writer == "ours" else Files(self._out)}
        return {}

    def options_of_run(self, writer: str, how: Sequence[str]) -> dict[str, Any]:
        options = self.options_of(writer) | {"plans": "off" if "without_plans" in how else "require"}
        if "accepting" in how:
            options["repeats"] = "accept"
        if "finish" in how and writer in ("ours", "our_files"):
            options["trigger"] = "available-now"
        return options

    def position(self) -> int | None:
        """Of `transaction`."""
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self._out):
            return None
        return DeltaTable(self._out).transaction_version(APP)

    def read(self, writer: str) -> list[int]:
        spark = session(self._root, writer)
        if writer == "our_files":
            rows = spark.read.parquet(self._out)
        elif writer == "iceberg":
            rows = spark.read.format("iceberg").load(TABLE)
        else:
            rows = spark.read.format("json" if writer == "files" else "delta").load(self._out)
        return sorted(row.value for row in rows.select("value").collect())


def _read(spark: Any, source: str, root: Path, files: int) -> Any:
    reader = spark.readStream
    if source == "rate":
        return reader.format("rate").option("rowsPerSecond", 50).load()
    if source == "files":
        return reader.format("json").schema(SCHEMA).option("maxFilesPerTrigger", files).load(str(root / "in"))
    topic, _, servers = os.environ["HOLDFAST_TOPIC"].partition("@")
    reader = reader.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    if source == "transactions":
        reader = reader.option("kafka.isolation.level", "read_committed")
    return (
        reader.option("startingOffsets", "earliest")
        .load()
        .selectExpr("timestamp", "CAST(CAST(value AS STRING) AS LONG) AS value")
    )


def main(root: Path, writer: str, kind: str, source: str, *how: str) -> None:
    writers, spark = Writers(root), session(root, writer)

    def query(spark: Any) -> Any:
        rows = _read(spark, source, root, files=50 if "finish" in how else 2)
        if kind == "stateful":
            if source == "rate":
                rows = rows.selectExpr("timestamp", "value div 2 AS value")
            rows = rows.withWatermark("timestamp", "10 seconds").dropDuplicatesWithinWatermark(["value"])
        return rows

    def numbers(spark: Any) -> Any:
        built = getattr(writers, writer)(query(spark))
        if not hasattr(built, "trigger"):
            return built
        return built.trigger(availableNow=True) if "finish" in how else built.trigger(processingTime="0 seconds")

    if "replay" in how:
        first, last = map(int, how[-2:])
        _replay(query(spark), root, first, last)
        return
    if "plainly" in how:
        plain = numbers(spark).option("checkpointLocation", str(root / "checkpoints"))
        plain.start().awaitTermination()
        return
    holdfast.run(
        numbers,
        job="numbers",
        home=os.environ.get("HOLDFAST_OWN_HOME") or f"file://{root / 'home'}",
        work=root / "work",
        interval=os.environ.get("HOLDFAST_OWN_INTERVAL", "3s"),
        identity="the-only-one",
        spark=spark,
        **writers.options_of_run(writer, how),
    )


def _replay(query: Any, root: Path, first: int, last: int) -> None:
    """The steps that `holdfast restore` prints for a query with state, for these batches."""
    directory, out = str(root / "checkpoints"), str(root / "out")
    for batch in range(first, last + 1):
        if batch > first:
            command = ["restore", "numbers", directory, "--plan", str(batch), "--sink", out]
            assert holdfast_command([*command, "--home", f"file://{root / 'home'}"]) == 0
        nothing = query.writeStream.foreachBatch(
            lambda rows, number: rows.write.format("noop").mode("overwrite").save()
        )
        nothing.option("checkpointLocation", directory).trigger(once=True).start().awaitTermination()


def command_line(arguments: Sequence[str]) -> None:
    logging.basicConfig()
    logging.getLogger("holdfast").setLevel(logging.INFO)
    place, *rest = arguments
    if rest[1] == "read":
        Path(rest[2]).write_text(json.dumps(Writers(Path(place)).read(rest[0])))
    else:
        main(Path(place), *rest)


if __name__ == "__main__":
    command_line(sys.argv[1:])
