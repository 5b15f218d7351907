"""A driver whose query has a writer of its own: numbers, without duplicates, into one of the sinks that people have.
Or into holdfast's, which then shows every batch: the writers `ours` and `our_files`.

python -m tests.end_to_end.own_writer_driver ROOT WRITER stateless|stateful rate|files
python -m tests.end_to_end.own_writer_driver ROOT WRITER stateless|stateful rate|files plainly
python -m tests.end_to_end.own_writer_driver ROOT WRITER read

The second is plain Spark, without holdfast. The last prints what readers of the sink see.
"""

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import holdfast
from holdfast.sinks import Delta, Files
from tests.end_to_end.connectors import DELTA_SETTINGS, SMALL_JVM, delta_jars, iceberg_jars
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
    if writer == "iceberg":
        catalog = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": str(root / "out")}
        named = {f"spark.sql.catalog.local{key}": value for key, value in catalog.items()}
        extensions = {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"}
        return common | named | extensions | {"spark.jars": _listed(iceberg_jars())}
    if writer in ("delta", "merge", "transaction"):
        quick = {"spark.databricks.delta.snapshotPartitions": "1"}
        return common | DELTA_SETTINGS | quick | {"spark.jars": _listed(delta_jars())}
    return common


def _listed(jars: list[Path]) -> str:
    return ",".join(map(str, jars))


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

    def position(self) -> int | None:
        """Of `transaction`."""
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self._out):
            return None
        return DeltaTable(self._out).transaction_version(APP)

    def read(self, writer: str) -> list[int]:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.getOrCreate()
        if writer == "our_files":
            rows = spark.read.parquet(self._out)
        elif writer == "iceberg":
            rows = spark.read.format("iceberg").load(TABLE)
        else:
            rows = spark.read.format("json" if writer == "files" else "delta").load(self._out)
        return sorted(row.value for row in rows.select("value").collect())


def main(root: Path, writer: str, kind: str, source: str, *plainly: str) -> None:
    writers = Writers(root)

    def numbers(spark: Any) -> Any:
        reader = spark.readStream
        if source == "rate":
            rows = reader.format("rate").option("rowsPerSecond", 50).load()
        else:
            rows = reader.format("json").schema(SCHEMA).option("maxFilesPerTrigger", 2).load(str(root / "in"))
        if kind == "stateful":
            rows = rows.withWatermark("timestamp", "10 seconds").dropDuplicatesWithinWatermark(["value"])
        built = getattr(writers, writer)(rows)
        return built.trigger(processingTime="0 seconds") if hasattr(built, "trigger") else built

    if plainly:
        from pyspark.sql import SparkSession

        plain = numbers(SparkSession.builder.getOrCreate()).option("checkpointLocation", str(root / "checkpoints"))
        plain.start().awaitTermination()
        return
    holdfast.run(
        numbers,
        job="numbers",
        home=f"file://{root / 'home'}",
        work=root / "work",
        interval="3s",
        identity="the-only-one",
        plans="require",
        **writers.options_of(writer),
    )


if __name__ == "__main__":
    logging.basicConfig()
    logging.getLogger("holdfast").setLevel(logging.INFO)
    place, *rest = sys.argv[1:]
    if rest[1] == "read":
        sys.stdout.write(json.dumps(Writers(Path(place)).read(rest[0])) + "\n")
    else:
        main(Path(place), *rest)
