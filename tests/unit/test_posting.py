"""Alarms reach a real webhook receiver and a real SMTP server. Receivers that fail or hang hold up nobody."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from holdfast.alarm import Receiver
from holdfast.cli.main import main
from holdfast.errors import InvalidSettings
from holdfast.notifying.channels import Channel, call, channel_to
from holdfast.notifying.outbox import Pace
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.reports.alarms import UNDELIVERED, Alarms, Delivery, InThread
from holdfast.runtime.reports.alive_calls import EVERY_S, AliveCalls
from holdfast.runtime.reports.posting import Posting, delivery_to
from tests.patience import PATIENCE
from tests.unit.http_receiver import HttpReceiver
from tests.unit.mailbox import Mailbox

QUICK = Pace(gather_s=0.02, retry_s=0.02, retry_most_s=0.05)
GROUPED = Pace(gather_s=0.5)


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def receiver(ends: ExitStack, answers: Callable[[int], int] = lambda number: 200) -> HttpReceiver:
    started = HttpReceiver(answers)
    ends.callback(started.close)
    return started


def alarms_to(ends: ExitStack, *receivers: Receiver, pace: Pace = QUICK) -> Alarms:
    def deliver(to: Receiver) -> Delivery:
        return Posting(to, SystemClock(), pace) if isinstance(to, Channel) else InThread(to)

    alarms = Alarms("orders", receivers, SystemClock(), deliver, home="file:///h")
    ends.callback(lambda: alarms.close(PATIENCE))
    return alarms


def changes(documents: list[Any]) -> list[tuple[str, str]]:
    return [(alarm["code"], alarm["change"]) for document in documents for alarm in document["alarms"]]


def test_one_message_when_it_begins_one_when_critical_one_when_over(ends: ExitStack) -> None:
    hook = receiver(ends)
    alarms = alarms_to(ends, channel_to(hook.url))
    for number, severity in ((1, "warning"), (2, "warning"), (3, "critical"), (4, "critical")):
        alarms.raise_alarm("failing", severity, f"{number} failed", "repair it")
        if number in (1, 3):
            hook.wait_for((number + 1) // 2)
    alarms.clear("failing", "repaired")
    documents = hook.wait_for(3)
    alarms.close(PATIENCE)
    assert (
        changes(documents) == changes(hook.taken) == [("failing", "began"), ("failing", "worse"), ("failing", "over")]
    )
    assert documents[0]["alarms"][0]["command"] == "holdfast status --home file:///h --job orders"
    assert documents[2]["alarms"][0]["since"] == documents[0]["alarms"][0]["since"]


def test_alarms_of_one_cause_are_one_message(ends: ExitStack) -> None:
    hook = receiver(ends)
    alarms = alarms_to(ends, channel_to(hook.url), pace=GROUPED)
    for code in ("checkpoints_failing", "publish_failing", "stuck_journal"):
        alarms.raise_alarm(code, "critical", "the store is down", "repair it")
    alarms.close(PATIENCE)
    (document,) = hook.taken
    assert [alarm["code"] for alarm in document["alarms"]] == [
        "checkpoints_failing",
        "publish_failing",
        "stuck_journal",
    ]


def test_a_receiver_that_answers_500_gets_it_later_and_the_status_says_so(ends: ExitStack) -> None:
    mended = threading.Event()
    broken = receiver(ends, lambda number: 200 if mended.is_set() else 500)
    well = receiver(ends)
    alarms = alarms_to(ends, channel_to(broken.url), channel_to(well.url))
    alarms.raise_alarm("failing", "critical", "it failed", "repair it")
    well.wait_for(1)
    broken.wait_for_requests(3)
    alarms.look(0.0)
    assert "it answered 500" in alarms.active[UNDELIVERED].message
    assert "secret-path" not in alarms.active[UNDELIVERED].message
    mended.set()
    broken.wait_for(1)
    alarms.close(PATIENCE)
    alarms.look(0.0)
    assert UNDELIVERED not in alarms.active
    assert changes(broken.taken)[0] == ("failing", "began")
    assert ("failing", "began") in changes(well.taken)
    assert (UNDELIVERED, "began") in changes(well.taken)


def test_a_receiver_that_hangs_holds_up_nobody_and_is_named(ends: ExitStack) -> None:
    let_go = threading.Event()
    hanging = receiver(ends, lambda number: 200 if let_go.wait(PATIENCE) else 500)
    well = receiver(ends)
    clock = SystemClock()
    alarms = alarms_to(ends, channel_to(hanging.url), channel_to(well.url))
    ends.callback(let_go.set)
    alarms.raise_alarm("failing", "critical", "it failed", "repair it")
    well.wait_for(1)
    hanging.wait_for_requests(1)
    alarms.look(clock.monotonic() + 31)
    assert "it has not answered for 3" in alarms.active[UNDELIVERED].message


def test_a_function_that_raises_is_named_too(ends: ExitStack) -> None:
    called = threading.Event()

    def broken(alarm: object) -> None:
        called.set()
        raise RuntimeError("no pager")

    alarms = alarms_to(ends, broken)
    alarms.raise_alarm("failing", "critical", "it failed", "repair it")
    assert called.wait(PATIENCE)
    alarms.close(PATIENCE)
    alarms.look(0.0)
    assert "it raised RuntimeError: no pager" in alarms.active[UNDELIVERED].message


def test_a_receiver_that_is_down_gets_it_when_it_is_up(ends: ExitStack) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        channel = channel_to(f"http://127.0.0.1:{taken.getsockname()[1]}/")
        alarms = alarms_to(ends, channel)
        alarms.raise_alarm("failing", "critical", "it failed", "repair it")
        alarms.close(PATIENCE)
        alarms.look(0.0)
    assert "could not connect" in alarms.active[UNDELIVERED].message


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    box = Mailbox()
    yield box
    box.close()


def test_mail_reaches_a_real_smtp_server_once_at_the_beginning_and_once_at_the_end(
    ends: ExitStack, mailbox: Mailbox
) -> None:
    alarms = alarms_to(ends, channel_to(mailbox.url))
    alarms.raise_alarm("failing", "critical", "it failed", "repair it")
    mailbox.wait_for(1)
    for number in range(5):
        alarms.raise_alarm("failing", "critical", f"it failed {number} times", "repair it")
    alarms.clear("failing", "repaired")
    mailbox.wait_for(2)
    alarms.close(PATIENCE)
    began, over = mailbox.mails
    assert "failing" in began
    assert "holdfast status --home file:///h --job orders" in began
    assert "is over" in over


def test_at_pagerduty_an_alarm_is_one_incident_which_its_end_resolves(
    ends: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two alarms at once only that which is over is resolved; becoming critical opens no further incident."""
    from apprise.plugins import pagerduty

    taking = receiver(ends)
    monkeypatch.setattr(pagerduty, "PAGERDUTY_API_LOOKUP", {"us": taking.url})
    monkeypatch.setattr(pagerduty.NotifyPagerDuty, "request_rate_per_sec", 0)
    alarms = alarms_to(ends, channel_to("pagerduty://integration@token"))
    alarms.raise_alarm("failing", "warning", "it failed", "repair it")
    alarms.raise_alarm("behind", "warning", "it is behind", "wait")
    taking.wait_for(2)
    alarms.raise_alarm("failing", "critical", "it failed again", "repair it")
    taking.wait_for(3)
    alarms.clear("failing", "repaired")
    taking.wait_for(4)
    alarms.close(PATIENCE)
    done = [(event["event_action"], event["dedup_key"]) for event in taking.taken]
    failing, behind = done[0][1], done[1][1]
    assert done == [("trigger", failing), ("trigger", behind), ("trigger", failing), ("resolve", failing)]
    assert failing != behind
    assert [event["payload"]["severity"] for event in taking.taken[:3]] == ["warning", "warning", "critical"]
    assert {(each["payload"]["group"], each["payload"]["class"]) for each in taking.taken[:3]} == {
        ("file:///h", "failing"),
        ("file:///h", "behind"),
    }


def test_a_pagerduty_url_that_says_how_incidents_are_made_is_left_as_it_is(
    ends: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apprise.plugins import pagerduty

    taking = receiver(ends)
    monkeypatch.setattr(pagerduty, "PAGERDUTY_API_LOOKUP", {"us": taking.url})
    monkeypatch.setattr(pagerduty.NotifyPagerDuty, "request_rate_per_sec", 0)
    alarms = alarms_to(ends, channel_to("pagerduty://integration@token?action=map&dedup=orders"), pace=GROUPED)
    alarms.raise_alarm("failing", "warning", "it failed", "repair it")
    alarms.raise_alarm("behind", "warning", "it is behind", "wait")
    alarms.close(PATIENCE)
    assert [event["dedup_key"] for event in taking.taken] == ["orders"]


def test_a_url_that_nothing_knows_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="apprise knows"):
        channel_to("nonsense://secret")


def test_the_switch_is_called_while_all_is_well_and_not_in_a_critical_alarm(ends: ExitStack) -> None:
    switch = receiver(ends)
    clock = SystemClock()
    calls = AliveCalls(switch.url, call, clock)
    alarms = Alarms("orders", (), clock, delivery_to, alive=calls)
    ends.callback(lambda: alarms.close(PATIENCE))

    def look(at: float) -> int:
        """How many calls have been answered when the call of this look, if there is one, has returned."""
        alarms.look(at)
        calls.wait_until_idle(PATIENCE)
        return len(switch.taken)

    assert look(1000.0) == 1
    assert look(1000.0 + EVERY_S - 1) == 1
    assert look(1000.0 + EVERY_S) == 2
    alarms.raise_alarm("failing", "critical", "it failed", "repair it")
    assert look(1000.0 + 2 * EVERY_S) == 2
    alarms.clear("failing", "repaired")
    assert look(1000.0 + 3 * EVERY_S) == 3


def test_a_switch_that_cannot_be_called_is_an_alarm(ends: ExitStack) -> None:
    switch = receiver(ends, lambda number: 503)
    clock = SystemClock()
    calls = AliveCalls(switch.url, call, clock)
    alarms = Alarms("orders", (), clock, delivery_to, alive=calls)
    alarms.look(1000.0)
    switch.wait_for_requests(1)
    alarms.close(PATIENCE)
    calls.wait_until_idle(PATIENCE)
    alarms.look(1001.0)
    assert "it answered 503" in alarms.active[UNDELIVERED].message


def test_the_command_says_who_got_the_test_alarm(ends: ExitStack, capsys: pytest.CaptureFixture[str]) -> None:
    well, broken = receiver(ends), receiver(ends, lambda number: 500)
    assert main(["alarm", "test", "--alarm", well.url, "--home", "file:///h", "--job", "orders"]) == 0
    assert well.taken[0]["alarms"][0]["code"] == "test"
    capsys.readouterr()
    assert main(["alarm", "test", "--json", "--alarm", well.url, "--alarm", broken.url]) == 1
    said = capsys.readouterr()
    assert [each["delivered"] for each in json.loads(said.out)["receivers"]] == [True, False]
    assert "it answered 500" in said.err
    assert "secret-path" not in said.err + said.out
    assert main(["alarm", "test"]) == 2
