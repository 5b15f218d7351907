"""A real cluster, one master and two workers: executors copy, and neither their death nor the driver's costs anything.

One start of the cluster serves all lives of the driver and, in `make torture`, the application beside it.
"""

import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.standalone import Cluster, Daemon, is_descendant, standalone_cluster, writer_below
from tests.end_to_end.harness import TORTURE, WARM_JVM, Driver, Pipeline
from tests.end_to_end.warm_jvm import WarmJvm
from tests.patience import PATIENCE
from tests.stores.hdfs_server import running_hdfs

SLOW, ENDLESS = "8KB/s", "100B/s"
"""A copy of this small state takes seconds, or minutes."""
HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


class OnCluster(Pipeline):
    def __init__(self, root: Path, cluster: Cluster, *, files: int) -> None:
        super().__init__(root, files=files)
        self.cluster = cluster
        self.blind = root / "blind"
        self.blind.mkdir()
        self.hidden = _can_hide()
        """Whether the first worker sees another directory in its place; that needs root."""

    def run(self, *, jvm: WarmJvm | None = None, **changes: Any) -> Driver:
        """Who copies is not set."""
        given = {
            "source": str(self.source),
            "home": self.home_url,
            "work": str(self.work),
            "output": str(self.output),
            "state_format": "rocksdb-changelog",
            "files_per_batch": 1,
            "spark": self._application(cores=2) | {"spark.scheduler.mode": "FAIR", "spark.task.maxFailures": "8"},
            **changes,
        }
        options = {"interval": "300ms", "heartbeat": "500ms", "restart_delay": "100ms", "bandwidth": SLOW}
        given["options"] = {**options, **changes.get("options", {})}
        return Driver(given, self.log, jvm, program="tests.cluster.driver")

    def run_another_application(self) -> Driver:
        given = {"work": "", "state_format": "hdfs", "spark": self._application(cores=1), "alone": True}
        return Driver(given, self.root / "another.log", program="tests.cluster.driver")

    def _application(self, cores: int) -> dict[str, str]:
        return {
            **HERE,
            "spark.master": self.cluster.url,
            "spark.cores.max": str(cores),
            "spark.executor.memory": "512m",
        }

    def copying_worker(self, driver: Driver) -> Daemon:
        """The worker below which a process is uploading to the home right now, once there is one."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            writers = (writer_below(self.home / "counts" / folder) for folder in ("blobs", "packs"))
            if (writer := next(filter(None, writers), None)) is not None:
                assert not is_descendant(writer, driver.process.pid), "the driver copies"
                return next(worker for worker in self.cluster.workers if is_descendant(writer, worker.process.pid))
            assert driver.process.poll() is None, f"the driver ended: see {self.log}"
            time.sleep(0.01)
        raise AssertionError("nobody uploads")

    def wait_until_nobody_copies(self) -> None:
        """The executors of a driver that died end by themselves."""
        deadline = time.monotonic() + PATIENCE
        while writer_below(self.home) is not None:
            assert time.monotonic() < deadline, "an executor outlives its driver"
            time.sleep(0.05)


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[OnCluster]:
    with standalone_cluster(tmp_path) as cluster:
        pipeline = OnCluster(tmp_path, cluster, files=20)
        cluster.add_worker(cores=2, blind_to=pipeline.blind if pipeline.hidden else None)
        cluster.add_worker(cores=2)
        yield pipeline


def _can_hide() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.long
def test_executors_copy_and_may_die_and_so_may_the_driver(pipeline: OnCluster) -> None:
    # Without a cluster the driver copies. What it leaves is in the home alone.
    pipeline.hold_back(17)
    once = {"trigger": "available-now", "bandwidth": None, "interval": "1h"}
    assert ended(pipeline.run(jvm=WARM_JVM, spark=HERE, files_per_batch=20, options=once)) == 0
    (kept,) = pipeline.state().completed.values()
    before = pipeline.visible()
    shutil.rmtree(pipeline.work)
    pipeline.feed(17)

    first = pipeline.run(blind=str(pipeline.blind) if pipeline.hidden else None, options={"bandwidth": ENDLESS})
    another = pipeline.run_another_application() if TORTURE else None
    if pipeline.hidden:
        # A work directory that one worker does not see is refused; nothing is left behind.
        refusal = first.next_starting("refused ")
        assert f"work='{pipeline.blind}' is not valid: executors on" in refusal
        assert "do not see it (No such file or directory)" in refusal
        assert "mounted at the same path" in refusal
        # So is a sink there: what that worker writes would be lost.
        refusal = first.next_starting("refused ")
        assert f"sink='delta:{pipeline.blind}/table' is not valid: executors on" in refusal
        assert "have another directory there (No such file or directory): what they write would be lost" in refusal
        assert list(pipeline.blind.iterdir()) == []

    # On a cluster executors copy. Meanwhile batches go on: of the job, of its neighbour, of another application.
    if another:
        another.next_starting("neighbour ")
    uploading = pipeline.copying_worker(first)
    wait_for_each(first, {"step batch.ledger": 3, "neighbour": 3})
    if another:
        wait_for_each(another, {"neighbour": 3})
        another.kill()
    assert pipeline.copying_worker(first) == uploading
    assert pipeline.state().completed == {kept.id: kept}

    # The driver dies while an executor copies.
    first.kill()
    pipeline.wait_until_nobody_copies()
    assert pipeline.visible() == before
    resumed = f"resuming at batch {kept.barrier_batch_id} from checkpoint {kept.id}"
    assert pipeline.log.read_text().count(resumed) == 1

    # The machine of an executor dies while it copies.
    second = pipeline.run(files_per_batch=20, options={"trigger": "available-now"})
    pipeline.copying_worker(second).kill()
    second.wait_for("step checkpoint.journal")
    assert ended(second) >= 1
    pipeline.require_exact()


def wait_for_each(driver: Driver, wanted: dict[str, int]) -> None:
    """Until it has told each of these so many times from now on; of others than steps, the first word counts."""
    driver.drain()
    left = Counter(wanted)
    for line in driver.lines():
        left -= Counter([line if line.startswith("step") else line.partition(" ")[0]])
        if not left:
            return
    raise AssertionError(f"it ended before {left}")


def ended(driver: Driver) -> int:
    """How many jobs Spark ran to copy, in a life that ends well by itself."""
    code, last = driver.end()
    assert code == 0, f"exit {code}: {last}"
    return int(last.removeprefix("jobs "))


if TORTURE:

    def test_executors_copy_from_a_work_directory_on_hdfs(pipeline: OnCluster, tmp_path: Path) -> None:
        with running_hdfs(tmp_path / "hdfs", datanodes=2) as hdfs:
            options = {"trigger": "available-now", "bandwidth": None}
            driver = pipeline.run(work=f"{hdfs.address}/work", files_per_batch=5, options=options)
            assert ended(driver) >= 1
        pipeline.require_exact()
        assert "shards were copied by process" in pipeline.log.read_text()
        assert "the driver copies by itself" not in pipeline.log.read_text()
