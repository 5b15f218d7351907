"""A forked driver is a process like any other: its arguments, environment, log, exit code and death are its own."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.forked_drivers import ForkedDrivers
from tests.patience import PATIENCE

_DRIVERS = """
import os, signal, sys
import numpy

def command_line(arguments):
    print(os.environ["NAME"], *arguments, os.getpgid(0) == os.getpid(), flush=True)
    if arguments == ["wait"]:
        signal.pause()
    sys.exit(len(arguments))
"""


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[ForkedDrivers]:
    (tmp_path / "drivers.py").write_text(_DRIVERS)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    made = ForkedDrivers(sys.executable, ["drivers"], {**os.environ, "PYTHONPATH": path})
    yield made
    made.end()


def test_each_has_its_own_environment_log_and_exit_code(drivers: ForkedDrivers, tmp_path: Path) -> None:
    for name, arguments in (("first", ["a"]), ("second", ["a", "b"])):
        driver = drivers.start(arguments, {"NAME": name}, tmp_path / name)
        assert driver.wait(PATIENCE) == len(arguments)
        assert driver.poll() == len(arguments)
        assert (tmp_path / name).read_text().split() == [name, *arguments, "True"]


def test_one_that_is_killed_dies_alone(drivers: ForkedDrivers, tmp_path: Path) -> None:
    driver = drivers.start(["wait"], {"NAME": "killed"}, tmp_path / "log")
    assert driver.poll() is None
    driver.send_signal(signal.SIGKILL)
    assert driver.wait(PATIENCE) == -signal.SIGKILL
    assert drivers.start([], {"NAME": "next"}, tmp_path / "log").wait(PATIENCE) == 0
