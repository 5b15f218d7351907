"""Receivers of alarms are the user's code. Whatever they do, they hold up nobody else."""

import threading
from collections.abc import Iterator

import pytest

from holdfast.alarm import Alarm, Receiver
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.reports.alarms import Alarms, InThread
from tests.patience import PATIENCE


class Receivers:
    """One that hangs until it is let go, and one that hears."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self._told: list[Alarms] = []
        self.heard: list[Alarm] = []
        self.hears = threading.Event()

    def alarms(self, *receivers: Receiver) -> Alarms:
        told = Alarms("orders", receivers, SystemClock(), InThread)
        self._told.append(told)
        return told

    def end(self) -> None:
        self.let_go.set()
        for told in self._told:
            told.close(PATIENCE)

    def hang(self, alarm: Alarm) -> None:
        self.let_go.wait()

    def fail(self, alarm: Alarm) -> None:
        raise RuntimeError("the receiver is broken")

    def hear(self, alarm: Alarm) -> None:
        self.heard.append(alarm)
        self.hears.set()


@pytest.fixture
def receivers() -> Iterator[Receivers]:
    receivers = Receivers()
    yield receivers
    receivers.end()


def test_a_receiver_that_never_returns_holds_up_neither_the_caller_nor_the_others(receivers: Receivers) -> None:
    told = receivers.alarms(receivers.hang, receivers.fail, receivers.hear)

    for number in range(500):
        told.raise_alarm(f"code-{number}", "critical", "it burns", "put it out")

    assert receivers.hears.wait(PATIENCE)


def test_alarms_arrive_in_their_order_and_before_the_end(receivers: Receivers) -> None:
    told = receivers.alarms(receivers.hear)

    told.raise_alarm("home_down", "warning", "it is down", "look")
    told.clear("home_down", "it is up")
    told.close(PATIENCE)

    assert [(alarm.code, alarm.cleared) for alarm in receivers.heard] == [("home_down", False), ("home_down", True)]


def test_the_end_names_a_receiver_that_does_not_return(receivers: Receivers, caplog: pytest.LogCaptureFixture) -> None:
    told = receivers.alarms(receivers.hang)

    told.raise_alarm("home_down", "warning", "it is down", "look")
    told.close(0.0)

    assert "hang" in caplog.text
    assert "did not return" in caplog.text


def test_what_is_in_the_log_already_is_said_at_first_and_when_it_gets_worse(
    receivers: Receivers, caplog: pytest.LogCaptureFixture
) -> None:
    told = receivers.alarms(receivers.hear)
    for number, severity in ((1, "warning"), (2, "warning"), (3, "critical"), (4, "critical")):
        told.raise_alarm("failing", severity, f"{number} failed: no space", "mend it", f"{number} failed")
    told.clear("failing", "mended")
    told.raise_alarm("failing", "warning", "1 failed: no space", "mend it", "1 failed")
    assert [message for message in caplog.messages if "failed" in message] == [
        "alarm failing: 1 failed. Try: mend it",
        "alarm failing: 3 failed. Try: mend it",
        "alarm failing: 1 failed. Try: mend it",
    ]
    told.close(PATIENCE)
    assert len(receivers.heard) == 6, "receivers hear every one"
