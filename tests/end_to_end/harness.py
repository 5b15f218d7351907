"""Runs `driver.py` as a real process, and knows the right answer by another way."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from holdfast.repository.entries import AnyEntry
from holdfast.repository.journal import read_entries
from holdfast.repository.state import JobState
from holdfast.storage.interface import ObjectStore
from holdfast.storage.urls import open_store
from holdfast.workdir.factory import work_directory
from tests.end_to_end.warm_jvm import WarmJvm
from tests.patience import PATIENCE
from tests.torture import TORTURE

START = datetime(2026, 1, 1, tzinfo=UTC)
WARM_JVM = WarmJvm()
Row = tuple[datetime, int, int, int]
Event = tuple[datetime, int, int]
_PROGRAM = "tests.end_to_end.driver"


class Driver:
    """One life of the driver process."""

    def __init__(
        self,
        given: dict[str, Any],
        log: Path,
        jvm: WarmJvm | None = None,
        *,
        launcher: Sequence[str] = (),
        python: str = sys.executable,
        program: str = _PROGRAM,
    ) -> None:
        """`launcher` is a command that starts the command behind it."""
        self._log = log
        self._jvm = jvm
        command = [*launcher, python, "-m", program, json.dumps(given)]
        environment = {**os.environ, **(jvm.environment() if jvm else {})}
        with log.open("ab") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stdout:
            for line in stdout:
                self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def lines(self) -> Iterator[str]:
        """Lines as they come, until the process ends or nothing comes for too long."""
        while (line := self._next_line()) is not None:
            yield line

    def _next_line(self) -> str | None:
        try:
            line = self._lines.get(timeout=PATIENCE)
        except queue.Empty:
            self.process.kill()
            if self._jvm:
                self._jvm.discard(self._log)
            raise AssertionError(f"nothing from the driver for {PATIENCE:g} s: see {self._log}") from None
        if line is None:  # for whoever asks again
            self._lines.put(None)
        return line

    def drain(self) -> None:
        """Forget what it has told so far."""
        while not self._lines.empty():
            if self._lines.get() is None:
                self._lines.put(None)
                return

    def next_starting(self, beginning: str) -> str:
        for line in self.lines():
            if line.startswith(beginning):
                return line
        raise AssertionError(f"the driver ended before {beginning!r}: see {self._log}")

    def wait_for(self, wanted: str, times: int = 1) -> None:
        for line in self.lines():
            if line == wanted:
                times -= 1
                if times == 0:
                    return
        raise AssertionError(f"the driver ended before {wanted!r}: see {self._log}")

    def wait_for_steps(self, count: int) -> None:
        for number, _ in enumerate(self.lines(), start=1):
            if number == count:
                return
        raise AssertionError(f"the driver ended before it had taken {count} steps: see {self._log}")

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def wait_until_frozen(self) -> None:
        os.waitpid(self.process.pid, os.WUNTRACED)

    def end(self) -> tuple[int, str]:
        """Wait for the end: exit code and the last line."""
        last = ""
        for last in self.lines():  # noqa: B007
            pass
        code = self.process.wait(PATIENCE)
        if self._jvm:
            self._jvm.clear()
        return code, last

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)


class Pipeline:
    """Input, home, work directory and output of one pipeline in a temporary directory."""

    def __init__(
        self,
        root: Path,
        *,
        files: int,
        sink: str = "delta",
        state_format: str = "rocksdb-changelog",
        home_url: str | None = None,
        work_url: str | None = None,
        own_jvms: bool = False,
    ) -> None:
        self.root = root
        self._jvm = None if own_jvms or TORTURE else WARM_JVM
        self.sink = sink
        self.source, self.home, self.work, self.output = (root / n for n in ("source", "home", "work", "output"))
        self.log = root / "driver.log"
        self.home.mkdir()
        self.home_url = home_url or f"file://{self.home}"
        self.work_url = work_url or str(self.work)
        self._held_back: list[Path] = []
        self._state_format = state_format
        self._events = write_input(self.source, files)

    def start(
        self,
        *,
        crash_at: str | None = None,
        freeze_at: str | None = None,
        damage_at: str | None = None,
        hang_at: str | None = None,
        alarms_hang: bool = False,
        alarm_urls: Sequence[str] = (),
        files_per_batch: int = 1,
        log_level: str = "INFO",
        launcher: Sequence[str] = (),
        own_jvm: bool = False,
        **options: Any,
    ) -> Driver:
        given = {
            "source": str(self.source),
            "home": self.home_url,
            "work": self.work_url,
            "output": str(self.output),
            "sink": self.sink,
            "state_format": self._state_format,
            "crash_at": crash_at,
            "freeze_at": freeze_at,
            "damage_at": damage_at,
            "hang_at": hang_at,
            "alarms_hang": alarms_hang,
            "alarm_urls": list(alarm_urls),
            "files_per_batch": files_per_batch,
            "log_level": log_level,
            "options": {"interval": "300ms", "heartbeat": "500ms", "restart_delay": "100ms", **options},
        }
        return Driver(given, self.log, None if own_jvm else self._jvm, launcher=launcher)

    def finish(self, damage_at: str | None = None, log_level: str = "INFO", **options: Any) -> None:
        """Let one run process what is left and end by itself, with everything durable."""
        driver = self.start(
            damage_at=damage_at, files_per_batch=20, log_level=log_level, trigger="available-now", **options
        )
        code, last = driver.end()
        assert code == 0, f"exit {code}: {last}; see {self.log}"

    def stop(self, driver: Driver) -> None:
        """A clean stop, with a last checkpoint."""
        driver.send(signal.SIGTERM)
        code, last = driver.end()
        assert code == 0, f"exit {code}: {last}; see {self.log}"

    def hold_back(self, files: int) -> None:
        """Before the start: keep the last files of the input from the pipeline until they are fed."""
        for path in sorted(self.source.iterdir())[-files:]:
            self._held_back.append(path.rename(self.root / path.name))

    def feed(self, files: int) -> None:
        for path in self._held_back[:files]:
            path.rename(self.source / path.name)
        del self._held_back[:files]

    def wipe_work(self) -> None:
        work_directory(self.work_url).remove_tree()

    def expected(self) -> list[Row]:
        return counted(self._events)

    def visible(self) -> list[Row]:
        """What a reader of the sink sees, through a reader that knows nothing of holdfast."""
        table = _read_delta(self.output) if self.sink == "delta" else _read_files(self.output)
        return sorted((r["start"].astimezone(UTC), r["key"], r["n"], r["total"]) for r in table)

    def require_nothing_wrong(self) -> None:
        """At any time: no row twice, no row that is not in the answer."""
        visible = self.visible()
        assert len(visible) == len(set(visible)), "a row is visible twice"
        assert set(visible) <= set(self.expected()), "a visible row is not in the answer"

    def require_exact(self) -> None:
        assert self.visible() == self.expected()
        if self.log.exists():  # not where only commands ran
            assert "Exception in thread holdfast" not in self.log.read_text(), f"see {self.log}"

    def store(self) -> ObjectStore:
        return open_store(self.home_url).scoped("counts")

    def entries(self) -> list[AnyEntry]:
        return list(read_entries(self.store()))

    def state(self) -> JobState:
        return JobState.of(self.entries())


def write_input(source: Path, files: int) -> list[Event]:
    """One file per second of event time, in order; two last ones far in the future close every window."""
    source.mkdir()
    events = []
    for number in range(files):
        events += (rows := events_of_second(number))
        _write(source, number, rows)
    for number, rows in enumerate(closing_events(), files):
        _write(source, number, rows)
    return events


def events_of_second(number: int) -> list[Event]:
    second = START + timedelta(seconds=number)
    return [(second + timedelta(milliseconds=40 * n), n % 3, number * 100 + n) for n in range(20)]


def closing_events() -> list[list[Event]]:
    """Of two last files, far in the future."""
    return [[(START + timedelta(days=days), 0, 0)] for days in (1, 2)]


def counted(events: Iterable[Event]) -> list[Row]:
    """What the query must give for them, by another way."""
    windows: dict[tuple[datetime, int], list[int]] = defaultdict(list)
    for at, key, value in events:
        start = START + timedelta(seconds=(at - START).total_seconds() // 5 * 5)
        windows[start, key].append(value)
    return sorted((start, key, len(values), sum(values)) for (start, key), values in windows.items())


def as_json_lines(rows: Iterable[Event]) -> bytes:
    lines = [msgspec.json.encode({"at": at, "key": key, "value": value}) for at, key, value in rows]
    return b"\n".join(lines) + b"\n"


def _write(source: Path, number: int, rows: list[Event]) -> None:
    path = source / f"{number:05d}.json"
    path.write_bytes(as_json_lines(rows))
    # The file source takes files by age.
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def _read_delta(output: Path) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(str(output)):
        return []
    rows: list[dict[str, Any]] = DeltaTable(str(output)).to_pyarrow_table().to_pylist()
    return [row for row in rows if row["start"] < START.replace(year=2026) + timedelta(hours=12)]


def _read_files(output: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = []
    for path in sorted(output.glob("*.parquet")):
        rows += pq.read_table(path).to_pylist()
    return [row for row in rows if row["start"].astimezone(UTC) < START + timedelta(hours=12)]
