"""One driver and three workers that share nothing but an S3 server: no disk, no directory, no address of one another's
loopback. Executors and drivers are killed; the output is exact.

Only `make torture` runs it, with as many kills as `HOLDFAST_KILLS` says, from a directory that is not below `/tmp`.
Each driver starts on another island: what the last one had on its disk is gone.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from holdfast.repository.journal import read_entries
from holdfast.repository.state import JobState
from holdfast.storage.urls import open_store
from tests.cluster.islands import Sea, sea_of_islands
from tests.cluster.standalone import Cluster, Daemon, is_descendant, standalone_cluster
from tests.end_to_end.harness import (
    START,
    Driver,
    Event,
    Row,
    as_json_lines,
    closing_events,
    counted,
    events_of_second,
)
from tests.patience import PATIENCE
from tests.stores.hadoop_aws import hadoop_aws, submit_arguments
from tests.stores.s3 import BUCKET, S3Server, s3_server
from tests.torture import TORTURE

KILLS = int(os.environ.get("HOLDFAST_KILLS", "4"))
SEED = int(os.environ.get("HOLDFAST_SEED", str(random.SystemRandom().randrange(1 << 32))))
EVERY_S = 0.5
"""Between two files of the input."""


class Job:
    def __init__(self, root: Path, sea: Sea, cluster: Cluster, server: S3Server) -> None:
        self.sea = sea
        self.cluster = cluster
        self.server = server
        self.log = root / "driver.log"
        self.bucket = open_store(server.home())
        self.fed: list[Event] = []
        self._drivers: list[Driver] = []
        self._files = 0

    def start(self, *, finish: bool = False) -> Driver:
        seat = self.sea.island()
        given = {
            "source": f"s3a://{BUCKET}/source",
            "output": f"s3a://{BUCKET}/output",
            "home": self.server.home("home"),
            "work": self.server.work("work"),
            "finish": finish,
            "spark": {
                "spark.master": self.cluster.url,
                "spark.driver.host": seat.host,
                "spark.driver.bindAddress": seat.host,
                "spark.executor.memory": "512m",
                "spark.executor.extraClassPath": ":".join(map(str, hadoop_aws())),
                "spark.scheduler.mode": "FAIR",
                "spark.task.maxFailures": "16",
                # Others read the default as times of no zone.
                "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
                "spark.sql.streaming.minBatchesToRetain": "100",
                f"spark.hadoop.fs.s3a.bucket.{BUCKET}.endpoint": self.server.endpoint,
                f"spark.hadoop.fs.s3a.bucket.{BUCKET}.endpoint.region": "us-east-1",
                f"spark.hadoop.fs.s3a.bucket.{BUCKET}.path.style.access": "true",
            },
        }
        environment = ("env", f"SPARK_LOCAL_IP={seat.host}")
        launcher = (*seat.launcher, *environment)
        self._drivers.append(Driver(given, self.log, launcher=launcher, program="tests.cluster.store_driver"))
        return self._drivers[-1]

    def close(self) -> None:
        for driver in self._drivers:
            if driver.process.poll() is None:
                driver.kill()

    @contextlib.contextmanager
    def fed_meanwhile(self) -> Iterator[None]:
        over = threading.Event()

        def feed() -> None:
            second = 0
            while not over.wait(EVERY_S):
                self.fed += (rows := events_of_second(second))
                self._put(rows)
                second += 1

        feeding = threading.Thread(target=feed)
        feeding.start()
        try:
            yield
        finally:
            over.set()
            feeding.join()

    def close_windows(self) -> None:
        for rows in closing_events():
            self._put(rows)

    def _put(self, rows: list[Event]) -> None:
        self.bucket.put(f"source/{self._files:05d}.json", as_json_lines(rows))
        self._files += 1

    def newest_completed(self) -> int:
        entries = list(read_entries(open_store(self.server.home("home")).scoped("counts")))
        return max(JobState.of(entries).completed, default=0) if entries else 0

    def wait_for_checkpoint(self, after: int, driver: Driver) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.newest_completed() <= after:
            assert driver.process.poll() is None, f"the driver ended: {driver.end()}; see {self.log}"
            assert time.monotonic() < deadline, f"no checkpoint after {after}: see {self.log}"
            time.sleep(0.2)

    def visible(self) -> list[Row]:
        """By the log of Spark's file sink, as other engines read it, from the server's own disk."""
        output = self.server.directory / BUCKET / "output"
        rows: list[Row] = []
        for path in listed_by_sink(output):
            for row in pq.read_table(output / path.rpartition("/")[2]).to_pylist():
                start = row["start"].astimezone(UTC)
                if start < START + timedelta(hours=12):
                    rows.append((start, row["key"], row["n"], row["total"]))
        return sorted(rows)


def listed_by_sink(output: Path) -> list[str]:
    """Paths of the files that Spark's readers see."""
    log = output / "_spark_metadata"
    if not log.is_dir():
        return []
    compacted = [int(path.stem) for path in log.glob("*.compact")]
    newest = max(compacted, default=-1)
    pages = [log / f"{newest}.compact"] if compacted else []
    pages += sorted(path for path in log.iterdir() if path.name.isdigit() and int(path.name) > newest)
    return [json.loads(line)["path"] for page in pages for line in page.read_text().splitlines()[1:]]


def executors_of(worker: Daemon) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            named = b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes()
        except OSError:
            continue
        if named and is_descendant(int(process.name), worker.process.pid):
            found.append(int(process.name))
    return found


def kill_an_executor(cluster: Cluster, chance: random.Random) -> None:
    deadline = time.monotonic() + PATIENCE
    while not (running := [pid for worker in cluster.workers for pid in executors_of(worker)]):
        assert time.monotonic() < deadline, "no executor runs"
        time.sleep(0.1)
    os.kill(chance.choice(running), signal.SIGKILL)


@pytest.fixture
def sea(tmp_path: Path) -> Iterator[Sea]:
    with sea_of_islands(tmp_path) as sea:
        yield sea


@pytest.fixture
def job(tmp_path: Path, sea: Sea, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", submit_arguments())
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with s3_server(tmp_path, host=sea.host) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        with standalone_cluster(tmp_path, sea.host) as cluster:
            for _ in range(3):
                cluster.add_worker(seat=sea.island())
            with contextlib.closing(Job(tmp_path, sea, cluster, server)) as job:
                yield job


def require_nothing_shared(sea: Sea) -> None:
    one, another = sea.island(), sea.island()

    def within(seat_launcher: tuple[str, ...], script: str) -> int:
        return subprocess.run([*seat_launcher, "sh", "-c", script], capture_output=True, check=False).returncode

    first, second = tuple(one.launcher), tuple(another.launcher)
    assert within(first, "touch /tmp/mine /run/mine /var/tmp/mine /dev/shm/mine") == 0
    assert within(second, "ls /tmp/mine || ls /run/mine || ls /var/tmp/mine || ls /dev/shm/mine") != 0
    assert within(first, f"touch {Path(__file__).parent}/mine || touch /mine || touch ~/mine") != 0
    assert within(first, f"ls {sea.hidden}/*") != 0, "nothing of what the test has"


if TORTURE:

    @pytest.mark.timeout(1800 + 600 * KILLS)
    def test_executors_and_drivers_are_killed_and_the_output_is_exact(sea: Sea, job: Job) -> None:
        print(f"HOLDFAST_SEED={SEED}")  # noqa: T201
        chance = random.Random(SEED)
        require_nothing_shared(sea)
        done = {"executor": 0, "driver": 0}
        with job.fed_meanwhile():
            driver = job.start()
            for number in range(KILLS):
                before = job.newest_completed()
                job.wait_for_checkpoint(before, driver)
                time.sleep(chance.random() * 2)
                # Starting a driver takes longest.
                victim = "driver" if number % 3 == 2 else "executor"
                done[victim] += 1
                if victim == "executor":
                    kill_an_executor(job.cluster, chance)
                else:
                    driver.kill()
                    driver = job.start()
            job.wait_for_checkpoint(job.newest_completed(), driver)
            driver.kill()
        job.close_windows()
        code, last = job.start(finish=True).end()
        assert code == 0, f"exit {code}: {last}; see {job.log}"
        print(f"killed: {done}, {len(job.fed)} rows, {job.newest_completed()} checkpoints")  # noqa: T201
        assert job.visible() == counted(job.fed)
        assert "shards were copied by process" in job.log.read_text(), "executors copy"
