"""A thousand checkpoints in one process, then a stop: memory, threads, descriptors and files stay level.

    python -m tests.endurance [--checkpoints 1000] [--plain]

Real Spark, a stateful query on a source that never ends, a Delta table. What grows with the output itself (its data and
Delta's log) is shown and not judged. Ends with exit code 1 when something else grew from the middle to the end.

Of the JVM, what lives after a collection is judged: what is resident is also what the heap has once reached, and that
moves up to its limit without anything being kept. `--plain` runs as many batches of the same query under Spark alone.

A `StackOverflowError` in `java.util.regex` may be printed at the stop. It is Spark's: `StreamExecution` asks whether a
batch in `foreachBatch` was interrupted by the stop with a regular expression that recurs for each character of the
Python traceback. The query has ended by then, and its batch runs again.
"""

import argparse
import gc
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast.sinks import Delta
from tests.end_to_end.driver import session

_MIB = 1 << 20
_MAY_GROW = {"python MiB": 1.15, "jvm heap live MiB": 1.1, "jvm classes, code MiB": 1.1}
"""By what factor between the middle and the end: memory is taken in steps."""
_SHOWN_ONLY = ("table data", "table log", "jvm resident MiB")
_OTHERS = 1.25
"""What is counted moves within a checkpoint: packs come and go, one is under way or not."""


def counts(spark: SparkSession) -> DataFrame:
    events = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
    keyed = events.withColumn("key", F.col("value") % 50)
    counted = keyed.withWatermark("timestamp", "1 second").groupBy(F.window("timestamp", "1 second"), "key").count()
    return counted.selectExpr("window.start AS start", "key", "count AS n")


def measured(spark: SparkSession, home: Path, work: Path, table: Path) -> dict[str, float]:
    figures = _of_the_processes(spark)
    figures["threads of ours"] = len(_ours())
    folders = Counter(path.relative_to(home / "counts").parts[0] for path in _files(home / "counts"))
    for folder in ("journal", "manifests", "packs", "blobs", "folds"):
        figures[f"home {folder}"] = folders[folder]
    figures["work"] = sum(1 for _ in _files(work))
    figures["work directories"] = _count(work / "counts")
    figures["table ours"] = sum(1 for _ in _files(table / "_holdfast"))
    figures["table log"] = sum(1 for _ in _files(table / "_delta_log"))
    figures["table data"] = len(list(table.rglob("*.parquet"))) - len(list((table / "_delta_log").rglob("*.parquet")))
    return figures


def _of_the_processes(spark: SparkSession) -> dict[str, float]:
    gc.collect()
    java: Any = spark.sparkContext._jvm
    java.java.lang.System.gc()
    memory = java.java.lang.management.ManagementFactory.getMemoryMXBean()
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    return {
        "python MiB": _resident(os.getpid()) / _MIB,
        "jvm heap live MiB": memory.getHeapMemoryUsage().getUsed() / _MIB,
        "jvm classes, code MiB": memory.getNonHeapMemoryUsage().getUsed() / _MIB,
        "jvm resident MiB": _resident(jvm) / _MIB,
        "python threads": _lowest(f"/proc/{os.getpid()}/task"),
        "python descriptors": _lowest("/proc/self/fd"),
        "jvm threads": _count(f"/proc/{jvm}/task"),
        "jvm descriptors": _count(f"/proc/{jvm}/fd"),
    }


def _resident(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def _count(folder: str | Path) -> int:
    return len(os.listdir(folder))


def _lowest(folder: str) -> int:
    """Of some looks: while Delta's log is read, each of its files has a thread and a descriptor."""
    counts = []
    for _ in range(5):
        counts.append(_count(folder))
        time.sleep(0.5)
    return min(counts)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []


def grown(middle: dict[str, float], end: dict[str, float]) -> list[str]:
    return [
        f"{name}: {middle[name]:.0f} -> {end[name]:.0f}"
        for name in end
        if name not in _SHOWN_ONLY and end[name] > middle[name] * _MAY_GROW.get(name, _OTHERS) + 8
    ]


def show(columns: dict[str, dict[str, float]]) -> None:
    sys.stdout.write("".join(f"{heading:>12}" for heading in ("", *columns)).replace(" " * 12, " " * 24, 1) + "\n")
    for name in next(iter(columns.values())):
        sys.stdout.write(f"{name:<24}" + "".join(f"{column[name]:>12.0f}" for column in columns.values()) + "\n")
    sys.stdout.flush()


def endured(checkpoints: int, root: Path) -> list[str]:
    home, work, table = (root / name for name in ("home", "work", "table"))
    home.mkdir()
    spark = _session()
    settings: dict[str, Any] = {"interval": "100ms", "trigger": "100ms", "heartbeat": "1s", "grace": "10s"}
    began = time.monotonic()
    running = holdfast.start(
        counts, job="counts", home=f"file://{home}", sink=Delta(table), spark=spark, work=str(work), **settings
    )
    columns: dict[str, dict[str, float]] = {}
    for wanted in _looks(checkpoints):
        while running.status().statistics.completed < wanted:
            if running.await_termination("500ms"):
                raise AssertionError("it ended by itself")
        columns[str(wanted)] = measured(spark, home, work, table)
        show({str(wanted): columns[str(wanted)]})
    failed = running.status().statistics.failed
    stop_began = time.monotonic()
    running.stop()
    now = time.monotonic()
    sys.stdout.write(f"{now - began:.0f} s, of which the stop {now - stop_began:.1f} s; {failed} failed\n")
    _until_ours_have_ended()
    columns["stopped"] = measured(spark, home, work, table)
    show(columns)
    left = [f"a thread of ours after the stop: {thread.name}" for thread in _ours()]
    return [*grown(columns[str(checkpoints // 2)], columns[str(checkpoints)]), *left]


def endured_by_spark_alone(batches: int, root: Path) -> list[str]:
    """The same query, with rows written as plain Parquet: how much of a growth is Spark's own."""
    spark = _session()

    def write(batch: DataFrame, _: int) -> None:
        batch.write.mode("append").parquet(str(root / "table"))

    writer = counts(spark).writeStream.foreachBatch(write).trigger(processingTime="100 milliseconds")
    query = writer.option("checkpointLocation", str(root / "work")).start()
    columns: dict[str, dict[str, float]] = {}
    for wanted in _looks(batches):
        while (query.lastProgress or {"batchId": -1})["batchId"] < wanted:
            if query.awaitTermination(1):
                raise AssertionError("it ended by itself")
        columns[str(wanted)] = _of_the_processes(spark)
        show({str(wanted): columns[str(wanted)]})
    query.stop()
    show(columns)
    return grown(columns[str(batches // 2)], columns[str(batches)])


def _session() -> SparkSession:
    return session("rocksdb-changelog", {"spark.sql.streaming.numRecentProgressUpdates": "10"})


def _looks(count: int) -> list[int]:
    return sorted({count // 10, count // 2, count})


def _ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("holdfast")]


def _until_ours_have_ended() -> None:
    deadline = time.monotonic() + 60
    while _ours() and time.monotonic() < deadline:
        time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", type=int, default=1000)
    parser.add_argument("--plain", action="store_true", help="Spark alone, for comparison")
    given = parser.parse_args()
    run = endured_by_spark_alone if given.plain else endured
    with tempfile.TemporaryDirectory(prefix="holdfast-endurance-") as folder:
        wrong = run(given.checkpoints, Path(folder))
    for line in wrong:
        sys.stdout.write(f"grew: {line}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
