"""kill -9 of a driver whose query has a writer of its own, with its disk wiped: Spark's file sink has every row once.

Two kills take about two minutes; `make torture` has more.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import PATIENCE

KILLS = int(os.environ.get("HOLDFAST_KILLS", "4")) // 2
SEED = int(os.environ.get("HOLDFAST_SEED", str(random.SystemRandom().randrange(1 << 32))))


class Driver:
    def __init__(self, root: Path, kind: str) -> None:
        self._root = root
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": _SUBMIT}
        self._log = (root / "driver.log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.end_to_end.own_writer_driver", str(root), kind],
            stdout=self._log,
            stderr=self._log,
            env=environment,
            start_new_session=True,
        )

    def wait_for(self, happened: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE
        while not happened():
            assert self._process.poll() is None, (self._root / "driver.log").read_text()[-3000:]
            assert time.monotonic() < ends, (self._root / "driver.log").read_text()[-3000:]
            time.sleep(0.05)

    def end(self, how: signal.Signals) -> None:
        """The whole group for a kill: the JVM dies with its driver."""
        if how is signal.SIGKILL:
            os.killpg(self._process.pid, how)
        else:
            self._process.send_signal(how)
        self._process.wait(PATIENCE)
        self._log.close()


_SUBMIT = (
    "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1 "
    "--conf spark.sql.streaming.stateStore.providerClass="
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider pyspark-shell"
)


def batches(root: Path) -> int:
    """How many the sink has."""
    names = (path.name.partition(".")[0] for path in (root / "out" / "_spark_metadata").glob("[0-9]*"))
    return max((int(name) + 1 for name in names), default=0)


def completed(root: Path) -> int:
    return sum(b"checkpoint-completed" in path.read_bytes() for path in (root / "home").glob("numbers/journal/*"))


def rows(root: Path) -> list[int]:
    """What readers of the sink see: the files of its log, each once."""
    log = root / "out" / "_spark_metadata"
    files: dict[str, None] = {}
    for entry in log.glob("[0-9]*"):
        for line in entry.read_text().splitlines()[1:]:
            files[json.loads(line)["path"]] = None
    lines = [line for path in files for line in Path(path.removeprefix("file://")).read_text().splitlines()]
    return sorted(json.loads(line)["value"] for line in lines)


@pytest.mark.long
@pytest.mark.timeout(1200 + 240 * KILLS)
@pytest.mark.parametrize("kind", ["stateful", "stateless"])
def test_every_row_once(tmp_path: Path, kind: str) -> None:
    print(f"HOLDFAST_SEED={SEED}")  # noqa: T201
    chance = random.Random(SEED)
    (tmp_path / "home").mkdir()
    for _ in range(KILLS):
        before, had = completed(tmp_path), batches(tmp_path)
        driver = Driver(tmp_path, kind)
        driver.wait_for(lambda: completed(tmp_path) > before)  # noqa: B023
        beyond = batches(tmp_path) + chance.randrange(1, 12)
        driver.wait_for(lambda: batches(tmp_path) >= beyond)  # noqa: B023
        time.sleep(chance.random() * 0.3)
        driver.end(signal.SIGKILL)
        assert batches(tmp_path) > had
        shutil.rmtree(tmp_path / "work")
    had = batches(tmp_path)
    driver = Driver(tmp_path, kind)
    driver.wait_for(lambda: batches(tmp_path) > had + 2)
    driver.end(signal.SIGTERM)
    found = rows(tmp_path)
    assert found == list(range(found[-1] + 1))
    assert "repeating" in (tmp_path / "driver.log").read_text()
