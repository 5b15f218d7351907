"""A signal stops a run at any time: by unwinding its start, by the job's own stop when it runs."""

import os
import signal

import pytest

from holdfast.errors import StopAsked
from holdfast.spark.stop_signals import stopping_on_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_unwinds_it(number: signal.Signals) -> None:
    with pytest.raises(StopAsked), stopping_on_signals():
        os.kill(os.getpid(), number)


def test_nobody_who_handles_failures_takes_it_for_one() -> None:
    assert not issubclass(StopAsked, Exception)


def test_a_signal_to_a_running_job_asks_it_to_stop() -> None:
    asked: list[str] = []
    with stopping_on_signals() as signals:
        signals.stop_with(lambda: asked.append("stop"))
        os.kill(os.getpid(), signal.SIGTERM)

    assert asked == ["stop"]


def test_the_handler_that_spark_puts_in_between_is_taken_back() -> None:
    asked: list[str] = []
    with stopping_on_signals() as signals:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signals.stop_with(lambda: asked.append("stop"))
        os.kill(os.getpid(), signal.SIGINT)

    assert asked == ["stop"]


def test_a_second_signal_kills_at_once() -> None:
    with stopping_on_signals() as signals:
        signals.stop_with(lambda: None)
        os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_handlers_of_before_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stopping_on_signals():
        pass

    assert signal.getsignal(signal.SIGTERM) is before
