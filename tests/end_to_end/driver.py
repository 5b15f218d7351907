"""A real driver process: a stateful pipeline under holdfast, which reports each step it takes on standard output.

Settings come as JSON in the first argument. With `crash_at` = "step:n" it kills itself with SIGKILL at the n-th time
that it reaches the step; with `freeze_at` it stops there until SIGCONT; with `hang_at` the thread that reaches it never
goes on. With `damage_at` it overwrites every state file of the newest work directory instead, once. With
`alarms_hang` whoever is told of an alarm never comes back. Signals mean what they mean to `holdfast run`.
"""

import json
import logging
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.alarm import Alarm
from holdfast.errors import HoldfastError, StopAsked, StopOverdue
from holdfast.settings import Settings
from holdfast.sinks import Delta, Files
from holdfast.spark.api import start_stepwise
from holdfast.spark.stop_signals import stopping_on_signals
from holdfast.spark.uncaught import leave_at_once

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
STATE_FORMATS = {
    "hdfs": {"providerClass": HDFS},
    "rocksdb": {"providerClass": ROCKSDB},
    "rocksdb-changelog": {"providerClass": ROCKSDB, "rocksdb.changelogCheckpointing.enabled": "true"},
    "rocksdb-v2": {
        "providerClass": ROCKSDB,
        "rocksdb.changelogCheckpointing.enabled": "true",
        "checkpointFormatVersion": "2",
    },
}


# Nothing is ever merged: each file of a barrier belongs to all later ones.
NOTHING_MERGED = {
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "10000",
    "spark.sql.streaming.fileSource.log.compactInterval": "10000",
}
STATE_FORMATS["hdfs-unmerged"] = STATE_FORMATS["hdfs"]


def session(state_format: str, conf: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "1g")
    builder = builder.config("spark.sql.streaming.minBatchesToRetain", "6")
    # A life of seconds runs each plan a few times: generating and compiling code for it takes longer than that.
    builder = builder.config("spark.sql.codegen.wholeStage", "false").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    builder = builder.config("spark.sql.streaming.stateStore.maintenanceInterval", "2s")
    for key, value in STATE_FORMATS[state_format].items():
        builder = builder.config(f"spark.sql.streaming.stateStore.{key}", value)
    for key, value in NOTHING_MERGED.items() if state_format == "hdfs-unmerged" else ():
        builder = builder.config(key, value)
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def windowed_counts(spark: SparkSession, source: str, files_per_batch: int) -> DataFrame:
    events = (
        spark.readStream.schema("at TIMESTAMP, key INT, value LONG")
        .option("maxFilesPerTrigger", files_per_batch)
        .json(source)
    )
    counts = events.withWatermark("at", "1 second").groupBy(F.window("at", "5 seconds"), "key")
    return counts.agg(F.count("*").alias("n"), F.sum("value").alias("total")).selectExpr(
        "window.start AS start", "key", "n", "total"
    )


def tell(line: str) -> None:
    """In one piece, whatever other threads tell at the same time."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Steps:
    """Prints each step; at the chosen one, dies."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._seen: Counter[str] = Counter()
        self._damage_at = given.get("damage_at")
        self._hang_at = given.get("hang_at")
        self._work = Path(given["work"])
        self._lock = threading.Lock()
        self._signals = {
            signal.SIGKILL: given.get("crash_at"),
            signal.SIGSTOP: given.get("freeze_at"),
        }

    def __call__(self, name: str) -> None:
        with self._lock:
            self._seen[name] += 1
            tell(f"step {name}")
            for number, at in self._signals.items():
                if at == f"{name}:{self._seen[name]}":
                    os.kill(os.getpid(), number)
            if name == self._damage_at:
                self._damage_at = None
                damage_state(self._work)
            hangs = self._hang_at == f"{name}:{self._seen[name]}"
        if hangs:
            tell(f"hangs {name}")
            threading.Event().wait()


def newest_directory(work: Path) -> Path:
    """The work directory of the newest run."""
    directories = [path for path in work.glob("counts/[0-9]*-*") if path.is_dir()]
    return max(directories, key=lambda path: tuple(map(int, path.name.split("-"))))


def damage_state(work: Path) -> None:
    """Overwrite the state with as many other bytes; files are replaced, as linked ones belong to others too."""
    for file in newest_directory(work).glob("state/*/[0-9]*/*"):
        if file.is_file():
            size = file.stat().st_size
            file.unlink()
            file.write_bytes(b"\x55" * size)


def tell_alarm(alarm: Alarm) -> None:
    tell(f"alarm {alarm.code} {'over' if alarm.cleared else 'on'}")


def tell_alarm_and_hang(alarm: Alarm) -> None:
    tell_alarm(alarm)
    threading.Event().wait()


def main() -> int:
    given = json.loads(sys.argv[1])
    logging.basicConfig(
        level=given.get("log_level", "INFO"), stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.ERROR)
    steps = Steps(given)
    sink_kind = {"delta": Delta, "files": Files}[given.get("sink", "delta")]
    sink = sink_kind(given["output"], step=steps)
    spark = session(given.get("state_format", "rocksdb-changelog"))
    receiver = tell_alarm_and_hang if given.get("alarms_hang") else tell_alarm
    settings = Settings(
        spark=spark, work=given["work"], alarms=(receiver, *given.get("alarm_urls", ())), **given["options"]
    )
    try:
        with stopping_on_signals(settings.stop_timeout_s, to_the_end=True) as signals:
            running = start_stepwise(
                lambda spark: windowed_counts(spark, given["source"], given.get("files_per_batch", 1)),
                "counts",
                given["home"],
                sink,
                settings,
                steps,
            )
            signals.stop_with(running.begin_stop)
            tell("step started")
            while not running.await_termination("200ms"):
                pass
    except StopAsked:
        tell("stopped while it started")
    except HoldfastError as error:
        tell(f"error {error.exit_code} {' '.join(str(error).splitlines())}")
        if isinstance(error, StopOverdue):
            leave_at_once(error.exit_code)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
