"""Spark queries broken on purpose, and the logs that they wrote: `python -m tests.doctor.real.spark_runs DIRECTORY`.

The full disk is a small tmpfs, so that scenario needs the right to mount.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.doctor.real.trimming import trim

_PATIENCE_S = 120
_LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""

_DRIVER = """
import sys
from pyspark.sql import SparkSession
checkpoint, master, *settings = sys.argv[1:]
builder = SparkSession.builder.master(master).appName("orders").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.host", "127.0.0.1")
for setting in settings:
    builder = builder.config(*setting.split("=", 1))
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("INFO")
numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3000).load()
orders = numbers.selectExpr("value % 3000 AS customer", "repeat(string(value), 20) AS payload")
counts = orders.groupBy("customer", "payload").count()
query = counts.writeStream.outputMode("update").format("noop").option("checkpointLocation", checkpoint)
query.queryName("orders").trigger(processingTime="300 milliseconds").start().awaitTermination()
"""


class Spark:
    """Drivers, and a directory for what they write."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir(parents=True)
        (place / "driver.py").write_text(_DRIVER)
        (place / "log4j2.properties").write_text(_LOGGING)

    @contextmanager
    def query(
        self, log: Path, checkpoint: Path, master: str = "local[2]", **settings: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Ends with the block, however it ends, and its executors with it."""
        given = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
        command = [sys.executable, "driver.py", str(checkpoint), master, *given]
        quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JDK_JAVA_OPTIONS": f"{quick} -Dlog4j2.configurationFile={self.place}/log4j2.properties",
        }
        with (
            log.open("ab") as output,
            subprocess.Popen(
                command, cwd=self.place, env=environment, stdout=output, stderr=output, start_new_session=True
            ) as process,
        ):
            try:
                yield process
            finally:
                with _no_longer_there():
                    os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _no_longer_there() -> Iterator[None]:
    try:
        yield
    except ProcessLookupError:
        return


def until(log: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    """Waits for the text in the log, or the end of the process."""
    deadline = time.monotonic() + _PATIENCE_S
    while text not in log.read_text(errors="replace") and process.poll() is None:
        assert time.monotonic() < deadline, f"{text!r} did not come up in {log}"
        time.sleep(0.1)


def committed(checkpoint: Path, batch: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not (checkpoint / "commits" / str(batch)).exists():
        assert process.poll() is None, "the query ended"
        assert time.monotonic() < deadline, f"batch {batch} was not committed"
        time.sleep(0.1)


def full_disk(spark: Spark, log: Path) -> None:
    disk = spark.place / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)], check=True)
    try:
        with spark.query(log, disk / "checkpoint") as process:
            process.wait(_PATIENCE_S)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def two_deployments(spark: Spark, log: Path) -> None:
    checkpoint, other = spark.place / "checkpoint", log.with_suffix(".other")
    with spark.query(other, checkpoint) as first:
        committed(checkpoint, 1, first)
        with spark.query(log, checkpoint) as second:
            deadline = time.monotonic() + _PATIENCE_S
            while first.poll() is None and second.poll() is None:
                assert time.monotonic() < deadline, "neither noticed the other"
                time.sleep(0.1)


def corrupt_state(spark: Spark, log: Path) -> None:
    checkpoint, before = spark.place / "checkpoint", log.with_suffix(".before")
    with spark.query(before, checkpoint) as first:
        committed(checkpoint, 2, first)
    for delta in checkpoint.glob("state/0/*/*.delta"):
        delta.write_bytes(delta.read_bytes()[:100])
        delta.with_name(f".{delta.name}.crc").unlink(missing_ok=True)
    for checksum in checkpoint.glob("state/0/*/*.crc"):
        checksum.unlink()
    with spark.query(log, checkpoint) as second:
        second.wait(_PATIENCE_S)


def killed_worker(spark: Spark, log: Path) -> None:
    checkpoint = spark.place / "checkpoint"
    with spark.query(log, checkpoint, "local-cluster[2,1,512]", spark_executor_memory="512m") as driver:
        committed(checkpoint, 1, driver)
        os.kill(_executors(driver.pid)[0], signal.SIGKILL)
        until(log, "Lost executor", driver)


def tiny_timeout(spark: Spark, log: Path) -> None:
    """An executor that stands still, and a driver that waits three seconds for its heartbeat."""
    checkpoint = spark.place / "checkpoint"
    settings = {"spark_network_timeout": "3s", "spark_network_timeoutInterval": "1s"}
    settings |= {"spark_executor_heartbeatInterval": "500ms", "spark_executor_memory": "512m"}
    with spark.query(log, checkpoint, "local-cluster[2,1,512]", **settings) as driver:
        committed(checkpoint, 1, driver)
        os.kill(_executors(driver.pid)[0], signal.SIGSTOP)
        until(log, "with no recent heartbeats", driver)


def _executors(session: int) -> list[int]:
    """Processes of executors in the driver's session."""
    listed = subprocess.run(["ps", "-s", str(session), "-o", "pid=,args="], capture_output=True, text=True, check=True)
    rows = (line.split(None, 1) for line in listed.stdout.splitlines())
    return sorted(int(pid) for pid, command in rows if "CoarseGrainedExecutorBackend" in command)


SCENARIOS: dict[str, Callable[[Spark, Path], None]] = {
    "full-disk": full_disk,
    "two-deployments": two_deployments,
    "corrupt-state": corrupt_state,
    "killed-worker": killed_worker,
    "tiny-timeout": tiny_timeout,
}


def main() -> None:
    to = Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or SCENARIOS:
        place = Path(tempfile.mkdtemp(prefix="holdfast-spark-"))
        log = to / f"spark-{pyspark.__version__}-{name}.log"
        try:
            log.touch()
            SCENARIOS[name](Spark(place / "run"), log)
            trim(log)
        finally:
            shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
