"""The same query under plain Spark, beside the one under holdfast: the same input, the same deeds, another table.

Its `checkpointLocation` stands for one on S3: what happens to the home happens to it, and a lost disk leaves it alone.
It is started again after an act in which it died. What is said about it is what was seen.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import suppress

from holdfast.cli.demo.batch_answer import Row, committed_files, read_parquet
from holdfast.cli.demo.driver import environment, interrupts_noted, spark_settings
from holdfast.cli.demo.places import Places

_CAUSES = (re.compile(r"terminated with exception: (.{1,100})"), re.compile(r"Exception: (.{1,100})"))
"""Of a query that died, and of one that did not even start."""


class Plain:
    def __init__(self, places: Places) -> None:
        self._places = places
        places.plain_log.touch()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._files: tuple[str, ...] = ()
        self._log_read = 0
        self.deaths = 0
        self.rows: list[Row] = []

    def start(self) -> None:
        """Once more where one runs already: a second deployment."""
        settings = [word for name, value in spark_settings(self._places) for word in ("--conf", f"{name}={value}")]
        arguments = shlex.join(["--master", "local[2]", *settings, "pyspark-shell"])
        with self._places.plain_log.open("ab") as log, interrupts_noted() as noted:
            process = subprocess.Popen(
                [sys.executable, str(self._places.plain_program)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._places.root,
                env={**environment(), "PYSPARK_SUBMIT_ARGS": arguments},
                start_new_session=True,
            )
        self._processes.append(process)
        if noted:
            raise KeyboardInterrupt

    @property
    def running(self) -> int:
        return len(self._processes)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    @property
    def batch(self) -> int:
        """The newest one that is committed."""
        with suppress(OSError):
            names = os.listdir(self._places.plain_checkpoint / "commits")
            return max((int(name) for name in names if name.isdigit()), default=-1)
        return -1

    def look(self) -> bool:
        """Whether readers of the table see something else than at the last look."""
        living = [process for process in self._processes if process.poll() is None]
        self.deaths += len(self._processes) - len(living)
        self._processes = living
        files = committed_files(self._places.plain_table)
        if files == self._files:
            return False
        self._files, self.rows = files, read_parquet(files)
        return True

    def cause(self) -> str:
        """Why it died, since the last question."""
        with self._places.plain_log.open(errors="replace") as log:
            log.seek(self._log_read)
            said = log.read()
            self._log_read = log.tell()
        return cause(self._places.short(said))

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def store_away(self) -> None:
        """A file in its place: a directory that is missing, Spark would make anew and begin from scratch."""
        self._places.plain_checkpoint.rename(self._places.moved_plain_checkpoint)
        self._places.plain_checkpoint.touch()

    def store_back(self) -> None:
        if self._places.moved_plain_checkpoint.exists():
            self._places.plain_checkpoint.unlink()
            self._places.moved_plain_checkpoint.rename(self._places.plain_checkpoint)

    def _end(self, number: int) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._processes = []


def cause(said: str) -> str:
    """In Spark's words."""
    found = next((found for each in _CAUSES if (found := each.findall(said))), ["its log has no exception"])
    return str(found[-1]).strip()
