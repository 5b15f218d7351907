"""Drivers that are forked by a process that has imported what they need: importing takes a second of processor time.

A life of a driver is then as short as what it does. `python -m tests.end_to_end.forked_drivers MODULE [MODULE …]` is
that process. It imports the modules, and for each line that it reads, with the arguments, the environment and the log
of a driver, it forks one that calls `command_line(arguments)` of the first module. It answers with the driver's id, and
with its exit code when it has ended. There is one driver at a time.
"""

import importlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class ForkedDriver:
    """Like a `Popen`, as far as its users need it."""

    def __init__(self, pid: int, host: "subprocess.Popen[bytes]") -> None:
        self.pid = pid
        self._host = host
        self._code: int | None = None

    def poll(self) -> int | None:
        assert self._host.stdout is not None
        if self._code is None and select.select([self._host.stdout], [], [], 0)[0]:
            self._code = int(self._host.stdout.readline())
        return self._code

    def wait(self, timeout: float) -> int:
        assert self._host.stdout is not None
        if self._code is None and not select.select([self._host.stdout], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a forked driver", timeout)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, signal: int) -> None:
        os.kill(self.pid, signal)


class ForkedDrivers:
    def __init__(self, python: str, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        command = [python, "-m", "tests.end_to_end.forked_drivers", *modules]
        single = {"OPENBLAS_NUM_THREADS": "1"}  # else NumPy, which PySpark 4.1 imports, starts threads
        self._host = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env={**environment, **single}
        )

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> ForkedDriver:
        assert self._host.stdin is not None
        assert self._host.stdout is not None
        wanted = {"arguments": list(arguments), "environment": dict(environment), "log": str(log)}
        self._host.stdin.write(json.dumps(wanted).encode() + b"\n")
        return ForkedDriver(int(self._host.stdout.readline()), self._host)

    def end(self) -> None:
        """No driver lives any more."""
        assert self._host.stdin is not None
        assert self._host.stdout is not None
        self._host.stdin.close()
        self._host.wait()
        self._host.stdout.close()


def main() -> None:
    drivers, *_ = [importlib.import_module(name) for name in sys.argv[1:]]
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{threads} threads: a fork may copy a lock that one of them holds"
    for line in sys.stdin:
        wanted = json.loads(line)
        if (pid := os.fork()) == 0:
            _become(wanted)
            drivers.command_line(wanted["arguments"])
            return
        _tell(pid)
        _, status = os.waitpid(pid, 0)
        _tell(os.waitstatus_to_exitcode(status))


def _become(wanted: Mapping[str, Any]) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(wanted["environment"])
    log = os.open(wanted["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for place, here in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(place, here)
    time.tzset()


def _tell(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
