"""Whether it is alive is asked of the thread that decides: by systemd's watchdog, and by the probe of Kubernetes.

The whole loop with its real threads, without Spark; a real socket of the kind that systemd listens on.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.job_log import begin_step
from holdfast.repository.self_report import NAME as STATE_FILE
from holdfast.runtime.run.environment import Environment
from holdfast.runtime.run.preflight import preflight
from holdfast.settings import Settings
from holdfast.snapshot.carrier import copy_shards
from holdfast.spark import watchdog as watchdogs
from holdfast.spark.running import RunningJob
from holdfast.spark.watchdog import Watchdog
from holdfast.workdir.factory import work_directory
from tests.patience import PATIENCE
from tests.unit.churning_runs import JOB, ChurningQuery

_USEC = 40_000
_LONG = 10 * _USEC / 1_000_000


class Systemd:
    """Its end of the socket."""

    def __init__(self, socket: socket.socket, address: str) -> None:
        self._socket = socket
        self.environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": str(_USEC), "WATCHDOG_PID": str(os.getpid())}

    def hears(self, times: int = 3) -> None:
        self._socket.settimeout(PATIENCE)
        for _ in range(times):
            assert self._socket.recv(100) == b"WATCHDOG=1"

    def hears_nothing(self) -> None:
        """Nothing new: what was said before is passed over."""
        self._socket.setblocking(False)
        try:
            while self._socket.recv(100):
                pass
        except BlockingIOError:
            pass
        self._socket.settimeout(_LONG)
        with pytest.raises(TimeoutError):
            self._socket.recv(100)


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    with listening_at(str(tmp_path / "notify")) as systemd:
        yield systemd


@contextmanager
def listening_at(address: str) -> Iterator[Systemd]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(address.replace("@", "\0"))
        yield Systemd(listening, address)


@pytest.fixture
def running(systemd: Systemd, tmp_path: Path) -> Iterator[RunningJob]:
    (tmp_path / "home").mkdir()
    watchdog = Watchdog.of(systemd.environment, os.getpid())
    around = replace(Environment.real(), alive=watchdog.alive)
    work, home = tmp_path / "work", f"file://{tmp_path}/home"
    place = preflight(
        JOB, home, work_directory(work), Settings(heartbeat="100ms"), around, state_file=work / JOB / STATE_FILE
    )
    query: Any = ChurningQuery(1)
    running = RunningJob(place, query, copy_shards)
    yield running
    running.stop()


def probe(root: Path) -> int:
    return main(["status", "--live", "--home", f"file://{root}/home", "--job", JOB, "--work", str(root / "work")])


def test_a_loop_that_is_stuck_is_heard_of_by_nobody(
    running: RunningJob, systemd: Systemd, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    systemd.hears()
    while probe(tmp_path) != 0:
        pass
    stuck, freed = threading.Event(), threading.Event()
    running._items.put(lambda: stuck.set() or (freed.wait(PATIENCE) and None))  # type: ignore[func-returns-value]
    try:
        assert stuck.wait(PATIENCE)
        systemd.hears_nothing()
        while probe(tmp_path) != 1:
            pass
    finally:
        freed.set()
    systemd.hears()
    while probe(tmp_path) != 0:
        pass


def test_an_address_may_be_without_a_file(tmp_path: Path) -> None:
    with listening_at(f"@{tmp_path}") as systemd:
        Watchdog.of(systemd.environment, os.getpid()).alive()
        systemd.hears(1)


def test_a_start_that_gets_on_is_alive(systemd: Systemd) -> None:
    with Watchdog.of(systemd.environment, os.getpid()).while_it_starts():
        systemd.hears()
    systemd.hears_nothing()


def test_a_start_that_stands_still_is_not(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdogs, "START_STANDS_STILL_S", 0.0)
    with Watchdog.of(systemd.environment, os.getpid()).while_it_starts():
        systemd.hears_nothing()
    monkeypatch.setattr(watchdogs, "START_STANDS_STILL_S", PATIENCE)
    with Watchdog.of(systemd.environment, os.getpid()).while_it_starts():
        begin_step("restoring")
        systemd.hears()


@pytest.mark.parametrize(
    "changed",
    [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"}, {"NOTIFY_SOCKET": "vsock:2:1"}],
)
def test_nothing_is_said_to_whoever_does_not_watch_this_process(systemd: Systemd, changed: dict[str, str]) -> None:
    Watchdog.of(systemd.environment | changed, os.getpid()).alive()
    systemd.hears_nothing()


def test_nobody_listens(tmp_path: Path) -> None:
    Watchdog(str(tmp_path / "nowhere"), 0.0).alive()
