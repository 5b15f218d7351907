"""A real cluster, one master and two workers: executors copy, and neither their death nor the driver's costs anything.

One start of the cluster serves both lives of the driver.
"""

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.standalone import Cluster, Daemon, is_descendant, standalone_cluster, writer_below
from tests.end_to_end.harness import PATIENCE, Driver, Pipeline

SLOW, ENDLESS = "8KB/s", "100B/s"
"""A copy of this small state takes seconds, or minutes."""


class OnCluster(Pipeline):
    def __init__(self, root: Path, cluster: Cluster, *, files: int) -> None:
        super().__init__(root, files=files)
        self.cluster = cluster
        self.blind = root / "blind"
        self.blind.mkdir()
        self.hidden = _can_hide()
        """Whether the first worker sees another directory in its place; that needs root."""

    def run(self, **changes: Any) -> Driver:
        given = {
            "source": str(self.source),
            "home": self.home_url,
            "work": str(self.work),
            "output": str(self.output),
            "state_format": "rocksdb-changelog",
            "files_per_batch": 1,
            "spark": {
                "spark.master": self.cluster.url,
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.executor.memory": "512m",
                "spark.scheduler.mode": "FAIR",
                "spark.task.maxFailures": "8",
            },
            **changes,
        }
        options = {"interval": "300ms", "heartbeat": "500ms", "restart_delay": "100ms", "carrier": "executors"}
        given["options"] = {**options, "bandwidth": SLOW, **changes.get("options", {})}
        return Driver(given, self.log, program="tests.cluster.driver")

    def copying_worker(self, driver: Driver) -> Daemon:
        """The worker below which a process is uploading to the home right now, once there is one."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            writer = writer_below(self.home / "counts" / "packs")
            if writer is not None:
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
        cluster.add_worker(blind_to=pipeline.blind if pipeline.hidden else None)
        cluster.add_worker()
        yield pipeline


def _can_hide() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.timeout(300)
def test_executors_copy_and_may_die_and_so_may_the_driver(pipeline: OnCluster) -> None:
    first = pipeline.run(blind=str(pipeline.blind) if pipeline.hidden else None, options={"bandwidth": ENDLESS})
    if pipeline.hidden:
        # A work directory that one worker does not see is refused; nothing is left behind.
        refusal = first.next_starting("refused ")
        assert f"work='{pipeline.blind}' is not valid: executors on" in refusal
        assert "do not see it (No such file or directory)" in refusal
        assert "mounted at the same path" in refusal
        assert list(pipeline.blind.iterdir()) == []

    # While an executor copies, batches of the job and of its neighbour go on.
    uploading = pipeline.copying_worker(first)
    first.drain()
    waited_for = Counter({"step batch.ledger": 3, "neighbour": 3})
    for line in first.lines():
        waited_for -= Counter([line if line.startswith("step") else line.partition(" ")[0]])
        if not waited_for:
            break
    assert pipeline.copying_worker(first) == uploading
    assert pipeline.state().completed == {}

    # The driver dies while an executor copies.
    first.kill()
    pipeline.wait_until_nobody_copies()
    assert pipeline.visible() == []

    # The machine of an executor dies while it copies.
    second = pipeline.run(files_per_batch=20, options={"trigger": "available-now"})
    pipeline.copying_worker(second).kill()
    second.wait_for("step checkpoint.journal")
    code, last = second.end()
    assert code == 0, f"exit {code}: {last}; see {pipeline.log}"
    assert int(last.removeprefix("jobs ")) >= 1
    pipeline.require_exact()
