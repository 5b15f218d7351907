"""A signal stops a run at any time: by unwinding its start, by the job's own stop when it runs.

A main thread that cannot hear is one that waits inside of C, as for a frozen mount or in a client written in Rust: here
in `write(2)` to a pipe that nobody empties, with the signals going to other threads.
"""

import os
import signal
import subprocess
import sys
import threading

import pytest

from holdfast.errors import StopAsked
from holdfast.spark.stop_signals import stopping_on_signals, take_signals_back
from tests.patience import PATIENCE

_DEAF = """
import ctypes, signal
from holdfast.job_log import begin_step
from holdfast.spark.stop_signals import stopping_on_signals

with stopping_on_signals({limit}):
    begin_step("restoring checkpoint 7")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    ctypes.CDLL(None).write(1, b"deaf\\n" * 1000000, 5000000)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_unwinds_it(number: signal.Signals) -> None:
    with pytest.raises(StopAsked), stopping_on_signals(PATIENCE):
        os.kill(os.getpid(), number)


def test_a_signal_where_nothing_can_be_raised_unwinds_the_start_a_moment_later() -> None:
    """As in a finalizer, or in a hook of `fork()` when PySpark starts its JVM. Python prints what is raised there."""

    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    def start() -> None:
        Finalized()
        threading.Event().wait(PATIENCE)

    with pytest.raises(StopAsked), stopping_on_signals(PATIENCE):
        start()


def test_a_signal_while_logging_releases_its_lock_leaves_it_released() -> None:
    """The first instruction after `fork()` is one of a hook of logging."""
    in_logging: dict[str, object] = {"__name__": "logging", "os": os, "signal": signal, "lock": threading.Lock()}
    exec("def release():\n    os.kill(os.getpid(), signal.SIGTERM)\n    lock.release()", in_logging)
    lock, release = in_logging["lock"], in_logging["release"]
    assert isinstance(lock, type(threading.Lock()))
    assert callable(release)

    def start() -> None:
        lock.acquire()
        release()
        threading.Event().wait(PATIENCE)

    with pytest.raises(StopAsked), stopping_on_signals(PATIENCE):
        start()
    assert not lock.locked()


def test_what_else_cannot_be_raised_is_reported_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: reported.append(unraisable.exc_type))

    class Finalized:
        def __del__(self) -> None:
            raise ZeroDivisionError

    with stopping_on_signals(PATIENCE):
        Finalized()
    Finalized()
    assert reported == [ZeroDivisionError, ZeroDivisionError]


def test_nobody_who_handles_failures_takes_it_for_one() -> None:
    assert not issubclass(StopAsked, Exception)


def test_a_signal_to_a_running_job_asks_it_to_stop() -> None:
    asked: list[str] = []
    with stopping_on_signals(PATIENCE) as signals:
        signals.stop_with(lambda: asked.append("stop"))
        os.kill(os.getpid(), signal.SIGTERM)

    assert asked == ["stop"]


def test_the_handler_that_spark_puts_in_between_is_taken_back() -> None:
    asked: list[str] = []
    with stopping_on_signals(PATIENCE) as signals:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signals.stop_with(lambda: asked.append("stop"))
        os.kill(os.getpid(), signal.SIGINT)

    assert asked == ["stop"]


def test_a_second_signal_kills_at_once() -> None:
    with stopping_on_signals(PATIENCE) as signals:
        signals.stop_with(lambda: None)
        os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_handlers_of_before_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stopping_on_signals(PATIENCE):
        pass

    assert signal.getsignal(signal.SIGTERM) is before


def ended(limit: float, *signals: signal.Signals) -> tuple[int, str]:
    """Exit code and words of a start that hears nothing and is sent these."""
    command = [sys.executable, "-c", _DEAF.format(limit=limit)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "deaf\n"
        for number in signals:
            process.send_signal(number)
        process.wait(PATIENCE)
        return process.returncode, process.stderr.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_start_that_hears_nothing_ends_at_the_deadline_and_names_what_it_was_at(number: signal.Signals) -> None:
    code, said = ended(1.0, number)

    assert code == 1
    assert "unfinished: restoring checkpoint 7" in said
    assert "Traceback" not in said


def test_a_second_signal_ends_a_start_that_hears_nothing() -> None:
    code, said = ended(PATIENCE, signal.SIGTERM, signal.SIGINT)

    assert code in (128 + signal.SIGTERM, 128 + signal.SIGINT), "the kernel may turn the two around"
    assert "Traceback" not in said


def test_who_runs_inside_takes_part_in_it() -> None:
    """`holdfast run` listens from its first instruction on; what it calls does not listen a second time."""
    with stopping_on_signals(PATIENCE) as outer, stopping_on_signals(PATIENCE) as inner:
        assert inner is outer


def test_a_handler_that_spark_puts_while_it_starts_is_taken_back() -> None:
    with stopping_on_signals(PATIENCE):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        take_signals_back()
        with pytest.raises(StopAsked):
            os.kill(os.getpid(), signal.SIGINT)
