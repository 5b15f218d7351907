"""Processes that were started with a variable nobody else has, and what they have started since."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MARK = "HOLDFAST_STARTS_JVM"


@contextmanager
def none_left_behind() -> Iterator[None]:
    """A block that raises leaves no process that was started in it.

    PySpark removes the directory in which its JVM is to tell its port when it stops waiting. The JVM dies of that in
    its main thread only, prints a trace, and would stay for ever.
    """
    mark = uuid.uuid4().hex
    os.environ[_MARK] = mark
    try:
        yield
    except BaseException:
        kill_started_with(f"{_MARK}={mark}")
        raise
    finally:
        del os.environ[_MARK]


def started_with(variable: str) -> Iterator[int]:
    """`variable` is `NAME=value`."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                yield int(process.name)


def kill_started_with(variable: str) -> None:
    """Until none is left: one of them may have started another one meanwhile."""
    while living := [pid for pid in started_with(variable) if pid != os.getpid()]:
        for pid in living:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
