"""The lives of one job whose query has a writer of its own: its places, its input, its driver processes, its output."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from deltalake import DeltaTable

from tests.compat.environments import interpreter_of
from tests.end_to_end.connectors import DELTA_SPARK, ICEBERG_SPARK
from tests.end_to_end.forked_drivers import ForkedDrivers
from tests.end_to_end.own_writer_driver import submit_arguments
from tests.end_to_end.postgres import sql
from tests.end_to_end.warm_jvm import WarmJvm
from tests.patience import PATIENCE

EVERY_S = 0.3
"""Between two portions of the input."""
PORTION = 20
AGAIN = 5
"""So many of a portion come again at the beginning of the next, where the query takes duplicates out."""
OF_DELTA = ("delta", "merge", "transaction")
DRIVER = "tests.end_to_end.own_writer_driver"
SETTLED = ("ours", "postgres", *OF_DELTA)
"""What these show is read without Spark, so after each life."""


def python_for(writer: str) -> str:
    if writer == "iceberg":
        return interpreter_of(ICEBERG_SPARK)
    return interpreter_of(DELTA_SPARK) if writer in OF_DELTA else sys.executable


class Died(AssertionError):
    """The driver ended by itself."""

    def __init__(self, code: int, log: str) -> None:
        super().__init__(log)
        self.code = code


class Story:
    def __init__(
        self,
        root: Path,
        writer: str,
        kind: str,
        source: str,
        postgres: str = "",
        python: str | None = None,
        *,
        jvm: WarmJvm | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
        home: Path | None = None,
        plainly: bool = False,
        forked: ForkedDrivers | None = None,
    ) -> None:
        """`jvm` serves all drivers, which without it have one each; `forked` has them forked. `home`: its files, where
        the `environment` names another home than usual. `plainly`: without holdfast."""
        self.root = root
        self.log = root / "driver.log"
        self.merges = writer == "merge"
        self.writer = writer
        self.kind = kind
        self.source = source
        self.postgres = postgres
        self._arguments = [str(root), writer, kind, source, *(("plainly",) if plainly else ())]
        self._python = python or python_for(writer)
        self._jvm = jvm
        self._forked = forked
        self._home = home or root / "home"
        self.checkpoint = root / "checkpoints"
        """Spark's, without holdfast."""
        self._environment = {
            **os.environ,
            "PYSPARK_PYTHON": self._python,
            "PYSPARK_SUBMIT_ARGS": submit_arguments(root, writer),
            "HOLDFAST_POSTGRES": postgres,
            **environment,
        }
        for name in ("home", "in"):
            (root / name).mkdir()

    def life(self, *more: str) -> "Driver":
        return self._driver(*self._arguments, *more)

    def _driver(self, *arguments: str) -> "Driver":
        environment = self._environment | (self._jvm.environment() if self._jvm else {})
        if self._forked is not None:
            return Driver(self._forked.start(arguments, environment, self.log), self.log, self._jvm)
        command = [self._python, "-m", DRIVER, *arguments]
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        return Driver(process, self.log, self._jvm)

    def planned(self) -> int:
        """The newest batch in the work directory."""
        places = (*self.root.glob("work/numbers/*/offsets"), self.checkpoint / "offsets")
        names = (path.name for place in places for path in place.glob("[0-9]*"))
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def completed(self) -> int:
        journal = self._home.glob("numbers/journal/[0-9]*")
        return sum(b"checkpoint-completed" in path.read_bytes() for path in journal)

    def wipe(self) -> None:
        """A thread of a JVM that lives on may still end what it does there."""
        while (self.root / "work").exists():
            shutil.rmtree(self.root / "work", ignore_errors=True)

    def rows(self) -> list[int]:
        """What readers of the sink see."""
        if self.writer in ("ours", *OF_DELTA):
            if not DeltaTable.is_deltatable(str(self.root / "out")):
                return []
            return sorted(DeltaTable(str(self.root / "out")).to_pyarrow_table()["value"].to_pylist())
        if self.writer == "postgres":
            return [int(line) for line in sql(self.postgres, "SELECT value FROM numbers ORDER BY value;").split()]
        told = self.root / "rows.json"
        self._driver(str(self.root), self.writer, "read", str(told)).finish()
        return list(json.loads(told.read_text()))

    def taken_back(self) -> list[str]:
        """Versions of a Delta table in which readers lost rows that they saw."""
        log = (self.root / "out" / "_delta_log").glob("*.json")
        return [] if self.merges else [path.name for path in log if '"remove"' in path.read_text()]


class Process(Protocol):
    """Of a driver."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float) -> int: ...
    def send_signal(self, signal: int, /) -> None: ...


class Driver:
    def __init__(self, process: Process, log: Path, jvm: WarmJvm | None) -> None:
        self._process = process
        self._path = log
        self._jvm = jvm

    def wait_for(self, happened: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE
        while not happened():
            if (code := self._process.poll()) is not None:
                self._over()
                raise Died(code, self._path.read_text()[-3000:])
            assert time.monotonic() < ends, self._path.read_text()[-3000:]
            time.sleep(0.05)

    def finish(self) -> None:
        """Until it ends by itself."""
        code = self._process.wait(PATIENCE)
        self._over()
        if code != 0:
            raise Died(code, self._path.read_text()[-3000:])

    def end(self, how: signal.Signals) -> None:
        """The whole group for a kill: a JVM of its own dies with its driver."""
        if how is signal.SIGKILL:
            os.killpg(self._process.pid, how)
        else:
            self._process.send_signal(how)
        self._process.wait(PATIENCE)
        self._over()

    def _over(self) -> None:
        if self._jvm is not None:
            self._jvm.clear()


class Feed:
    """The input of the sources that are not `rate`: numbers in rising order."""

    def __init__(self, send: Callable[[int, list[int]], None], *, twice: bool) -> None:
        """`send` gets the number of the portion, too."""
        self._send = send
        self._twice = twice
        self._portions = 0
        self._over = threading.Event()
        self._sending = threading.Thread(target=self._run)

    @property
    def answer(self) -> list[int]:
        """What a batch query over all of it gives."""
        return list(range(self._portions * PORTION))

    @contextmanager
    def running(self) -> Iterator["Feed"]:
        self._sending.start()
        try:
            yield self
        finally:
            self.stop()

    def stop(self) -> None:
        """The portion under way is sent whole."""
        self._over.set()
        self._sending.join()

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            first = self._portions * PORTION
            again = AGAIN if self._twice and first else 0
            self._send(self._portions, list(range(first - again, first + PORTION)))
            self._portions += 1


def into_files(folder: Path) -> Callable[[int, list[int]], None]:
    def send(portion: int, numbers: list[int]) -> None:
        now = datetime.now(UTC)
        rows = [(number, now + timedelta(milliseconds=at)) for at, number in enumerate(numbers)]
        hidden = folder / f".{portion}"
        lines = [json.dumps({"value": number, "timestamp": time.isoformat()}) for number, time in rows]
        hidden.write_text("\n".join(lines))
        hidden.rename(folder / f"{portion}.json")

    return send
