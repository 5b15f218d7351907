"""kill -9 of a driver whose query has a writer of its own, with its disk wiped: the sink has every row once.

Spark's file sink, Delta's, Iceberg's, and functions that merge into Delta, append to it with a transaction id, and
upsert into PostgreSQL; and holdfast's own sinks where they show every batch, and take none back. Delta and Iceberg run
under the newest Spark that they exist for. A kill takes about half a minute on an idle machine. `make long` has a few,
`make torture` all: `HOLDFAST_KILLS` of each.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.compat.environments import interpreter_of
from tests.end_to_end.connectors import DELTA_SPARK, ICEBERG_SPARK
from tests.end_to_end.own_writer_driver import submit_arguments
from tests.end_to_end.postgres import postgres_server, sql
from tests.patience import PATIENCE
from tests.torture import TORTURE

KILLS = int(os.environ.get("HOLDFAST_KILLS", "2"))
SEED = int(os.environ.get("HOLDFAST_SEED", str(random.SystemRandom().randrange(1 << 32))))
EVERY_S = 0.3
"""Between two files of the source `files`."""
PER_FILE = 20

CASES = [
    ("files", "stateful", "rate"),
    ("files", "stateless", "rate"),
    ("postgres", "stateful", "files"),
    ("delta", "stateful", "rate"),
    ("ours", "stateful", "rate"),
]
if TORTURE:
    CASES += [
        ("files", "stateful", "files"),
        ("postgres", "stateless", "rate"),
        ("delta", "stateless", "files"),
        ("iceberg", "stateful", "rate"),
        ("iceberg", "stateless", "files"),
        ("merge", "stateful", "rate"),
        ("merge", "stateless", "files"),
        ("transaction", "stateful", "files"),
        ("transaction", "stateless", "rate"),
        ("ours", "stateless", "files"),
        ("our_files", "stateful", "files"),
    ]


def python_for(writer: str) -> str:
    if writer == "iceberg":
        return interpreter_of(ICEBERG_SPARK)
    return interpreter_of(DELTA_SPARK) if writer in ("delta", "merge", "transaction") else sys.executable


class Story:
    def __init__(
        self, root: Path, writer: str, kind: str, source: str, postgres: str, python: str | None = None
    ) -> None:
        self.root = root
        self.log = root / "driver.log"
        self.merges = writer == "merge"
        self._writer = writer
        self._arguments = [str(root), writer, kind, source]
        python = python or python_for(writer)
        self._python = python
        self._environment = os.environ | {
            "PYSPARK_PYTHON": python,
            "PYSPARK_SUBMIT_ARGS": submit_arguments(root, writer),
            "HOLDFAST_POSTGRES": postgres,
        }
        for name in ("home", "in"):
            (root / name).mkdir()
        self.postgres = postgres

    def _command(self, *arguments: str) -> list[str]:
        return [self._python, "-m", "tests.end_to_end.own_writer_driver", *arguments]

    def life(self, *more: str) -> "Driver":
        return Driver(self._command(*self._arguments, *more), self._environment, self.log)

    def planned(self) -> int:
        """The newest batch in the work directory."""
        names = (path.name for path in self.root.glob("work/numbers/*/offsets/[0-9]*"))
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def completed(self) -> int:
        journal = (self.root / "home").glob("numbers/journal/*")
        return sum(b"checkpoint-completed" in path.read_bytes() for path in journal)

    def rows(self) -> list[int]:
        """What readers of the sink see."""
        if self._writer == "ours":
            return sorted(DeltaTable(str(self.root / "out")).to_pyarrow_table()["value"].to_pylist())
        if self._writer == "postgres":
            return [int(line) for line in sql(self.postgres, "SELECT value FROM numbers ORDER BY value;").split()]
        command = self._command(str(self.root), self._writer, "read")
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=True)
        return list(json.loads(done.stdout.splitlines()[-1]))


class Driver:
    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self._path = log
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, env=environment, start_new_session=True
        )

    def wait_for(self, happened: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE
        while not happened():
            assert self._process.poll() is None, self._path.read_text()[-3000:]
            assert time.monotonic() < ends, self._path.read_text()[-3000:]
            time.sleep(0.05)

    def end(self, how: signal.Signals) -> None:
        """The whole group for a kill: the JVM dies with its driver."""
        if how is signal.SIGKILL:
            os.killpg(self._process.pid, how)
        else:
            self._process.send_signal(how)
        self._process.wait(PATIENCE)
        self._log.close()


@contextmanager
def writing_files(folder: Path) -> Iterator[None]:
    """Numbers, some of them twice, for the source `files`."""
    over = threading.Event()

    def write() -> None:
        number = 0
        while not over.wait(EVERY_S):
            first = number * PER_FILE
            now = datetime.now(UTC)
            rows = [(value, now + timedelta(milliseconds=value - first)) for value in range(first, first + PER_FILE)]
            lines = [json.dumps({"value": value, "timestamp": time.isoformat()}) for value, time in rows]
            hidden = folder / f".{number}"
            hidden.write_text("\n".join(lines))
            hidden.rename(folder / f"{number}.json")
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.long
@pytest.mark.timeout(1200 + 240 * KILLS)
@pytest.mark.parametrize(("writer", "kind", "source"), CASES, ids=lambda part: part)
def test_every_row_once(tmp_path: Path, writer: str, kind: str, source: str) -> None:
    print(f"HOLDFAST_SEED={SEED}")  # noqa: T201
    chance = random.Random(SEED)
    if writer != "postgres":
        _kill_again_and_again(Story(tmp_path, writer, kind, source, ""), chance)
        return
    with postgres_server(tmp_path / "postgres") as server:
        _kill_again_and_again(Story(tmp_path, writer, kind, source, server), chance)


def _kill_again_and_again(story: Story, chance: random.Random) -> None:
    with writing_files(story.root / "in"):
        for number in range(KILLS):
            before = story.completed()
            driver = story.life()
            # The first one may die before there is a checkpoint: then there are only plans.
            wanted = before if number == 0 and chance.random() < 0.5 else before + 1
            driver.wait_for(lambda: story.completed() >= wanted and story.planned() >= 0)  # noqa: B023
            beyond = story.planned() + chance.randrange(1, 12)
            driver.wait_for(lambda: story.planned() >= beyond)  # noqa: B023
            time.sleep(chance.random() * 0.3)
            driver.end(signal.SIGKILL)
            shutil.rmtree(story.root / "work")
        driver = story.life()
        driver.wait_for(lambda: story.planned() >= beyond + 2)
        driver.end(signal.SIGTERM)
    found = story.rows()
    assert found == list(range(found[-1] + 1))
    log = (story.root / "out" / "_delta_log").glob("*.json")
    taken_back = [path.name for path in log if '"remove"' in path.read_text()]
    assert story.merges or not taken_back, "rows were taken back from readers"
    assert "repeating" in story.log.read_text()
