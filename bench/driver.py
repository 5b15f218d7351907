"""A process that runs Spark, tells what it does in lines, and is killed with its JVM when that was seen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import msgspec

_PATIENCE_S = 400.0


class Driver:
    """A process group: the JVM dies with Python, and both with the block that they were needed for."""

    def __init__(self, place: str, module: str, life: msgspec.Struct) -> None:
        command = [sys.executable, "-m", module, msgspec.json.encode(life).decode()]
        self._log = Path(place) / "log.txt"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )

    def wait_for(self, wanted: str) -> list[str]:
        """The words behind that one, of the first line that begins with it."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + _PATIENCE_S
        for line in self._process.stdout:
            if line.startswith(wanted):
                return line.split()[1:]
            if time.monotonic() > deadline:
                break
        tail = self._log.read_text(errors="replace").splitlines()[-15:]
        raise RuntimeError("\n".join([f"the pipeline did not come to {wanted!r}:", *tail]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
