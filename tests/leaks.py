"""What tests may not leave behind: threads, processes, sockets and temporary files, of ours or of the tests.

Looked at after each module: fixtures that serve a module are gone by then. What serves all modules is shared: whatever
comes into being while such a fixture is set up, the JVMs that many tests use, and the servers in `SHARED`.
"""

import contextlib
import functools
import gc
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

RUN = "HOLDFAST_TEST_RUN"
"""In the environment of every process that these tests start, wherever it ends up in the tree of processes."""
SHARED: list[Callable[[], Iterable[int]]] = []
"""Ask these for the ids of processes that live on."""
_ENDS_WITHIN = 60.0
"""Seconds for what has been told to end, on a busy machine."""
_THIRD_PARTIES = ("execnet", "py4j", "pyspark", "pytest_timeout", "xdist")
_TEMPORARIES_OF_OTHERS = ("pymp-", "uv-", "holdfast-traceback-")
"""Where the server of `multiprocessing` listens; locks of uv; what a person is to send, made once per process."""
_shared: dict[str, str] = {}


def held() -> dict[str, str]:
    """Everything that could be left, each with a word on what it is."""
    return {**_threads(), **_sockets(), **_temporaries(), **_processes()}


def share(those: Iterable[str]) -> None:
    _shared.update(dict.fromkeys(those, ""))


class WhatIsShared:
    """A plugin of pytest: what a fixture for all modules brings stays. (In a conftest.py it would not be asked.)"""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> object:
        if fixturedef.scope != "session":
            return (yield)
        before = held()
        try:
            return (yield)
        finally:
            share(held().keys() - before.keys())


def left_since(before: dict[str, str]) -> dict[str, str]:
    """What has come since and does not go."""
    deadline, pause = time.monotonic() + _ENDS_WITHIN, 0.0
    while True:
        time.sleep(pause)
        gc.collect()
        left = {name: what for name, what in held().items() if name not in before and name not in _shared}
        if not left or time.monotonic() > deadline:
            return left
        pause = min(2 * pause + 0.05, 2.0)


def _threads() -> dict[str, str]:
    living = {thread: _origin(thread) for thread in threading.enumerate()}
    return {
        # A new thread may get the number of one that has ended.
        f"thread {thread.ident}, {thread.name}": f"{thread.name}, of {origin}"
        for thread, origin in living.items()
        if not origin.startswith(_THIRD_PARTIES)
    }


def _origin(thread: threading.Thread) -> str:
    """The module of what it runs."""
    target = getattr(thread, "_target", None)
    return str(getattr(target, "__module__", None) or type(thread).__module__)


def _sockets() -> dict[str, str]:
    """Those of Python but for PySpark's, which stays connected. Clients in Rust have pools of their own."""
    open_ones = set(_open_sockets())
    if not open_ones:  # to look at every object takes as long as many a module
        return {}
    found, others = {}, set()
    for thing in gc.get_objects():
        kind = type(thing)
        if issubclass(kind, socket.socket):
            found[id(thing)] = thing
        elif _is_of_pyspark(kind):
            with contextlib.suppress(Exception):
                others |= {id(getattr(thing, name, None)) for name in ("socket", "server_socket", "request")}
    return {f"socket {n}": repr(thing) for n, thing in found.items() if n not in others and thing.fileno() in open_ones}


@functools.cache
def _is_of_pyspark(kind: type) -> bool:
    return str(kind.__module__).startswith(("py4j", "pyspark"))


def _open_sockets() -> Iterator[int]:
    """The descriptors."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                yield int(name)


def _temporaries() -> dict[str, str]:
    with contextlib.suppress(FileNotFoundError):  # a session that is interrupted takes it away first
        found = os.listdir(tempfile.gettempdir())
        return {f"temporary file {name}": "" for name in found if not name.startswith(_TEMPORARIES_OF_OTHERS)}
    return {}


def _processes() -> dict[str, str]:
    """All that carry this run's mark, orphans too, but for what is shared and what is below that."""
    marked, parents = _marked()
    shared = {os.getpid(), *_serving(), *(pid for ask in SHARED for pid in ask())}
    return {
        f"process {pid}": what for pid, what in marked.items() if not shared & {pid, *_above(pid, parents, os.getpid())}
    }


def _marked() -> tuple[dict[int, str], dict[int, int]]:
    mark = f"{RUN}={os.environ[RUN]}".encode()
    marked, parents = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(path.name)] = _parent(path)
            environment = (path / "environ").read_bytes().split(b"\0")
            if mark in environment:
                marked[int(path.name)] = f"{_command(path)}, of {_test_in(environment)}"
    return marked, parents


def _parent(path: Path) -> int:
    state, parent = (path / "stat").read_text().rpartition(")")[2].split()[:2]
    if state == "Z":
        raise ProcessLookupError("it has ended")
    return int(parent)


def _above(pid: int, parents: dict[int, int], top: int) -> Iterator[int]:
    while (pid := parents.get(pid, 0)) not in (0, top):
        yield pid


def _command(path: Path) -> str:
    return (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]


def _test_in(environment: list[bytes]) -> str:
    name = b"PYTEST_CURRENT_TEST="
    return next((line.removeprefix(name).decode() for line in environment if line.startswith(name)), "no test")


def _serving() -> Iterator[int]:
    """The servers of `multiprocessing`, and the JVMs that many tests use."""
    yield getattr(multiprocessing.forkserver._forkserver, "_forkserver_pid", None) or 0
    yield getattr(multiprocessing.resource_tracker._resource_tracker, "_pid", None) or 0
    contexts = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    warm = getattr(sys.modules.get("tests.end_to_end.harness"), "WARM_JVM", None)
    for gateway in (getattr(contexts, "_gateway", None), getattr(warm, "_gateway", None)):
        if gateway is not None and getattr(gateway, "proc", None) is not None:
            yield gateway.proc.pid
