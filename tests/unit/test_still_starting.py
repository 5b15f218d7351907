"""A start that does not get on goes on saying what it is at."""

import threading
import time

import pytest

from holdfast.job_log import about, begin_step, enter_step
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.progress import still_saying
from tests.patience import PATIENCE


def test_what_takes_long_is_said_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="holdfast")
    with about("orders"), still_saying(SystemClock(), after_s=0.01):
        begin_step("starting Spark")
        wait_for("orders: still starting Spark, for ", 2, caplog)
        enter_step("building the query")
        wait_for("orders: still building the query, for ", 1, caplog)
        begin_step("starting the query")
        wait_for("orders: still starting the query, for ", 1, caplog)
    assert "holdfast-still" not in {thread.name for thread in threading.enumerate()}


def wait_for(beginning: str, times: int, caplog: pytest.LogCaptureFixture) -> None:
    deadline = time.monotonic() + PATIENCE
    while sum(message.startswith(beginning) for message in caplog.messages) < times:
        assert time.monotonic() < deadline, caplog.messages
        time.sleep(0.001)
