"""An outage of the store, a full disk, a dead driver, as a webhook and a mailbox learn of them: one message when it
begins, one when it is over, and nothing else.

The disk is a small file system of its own, which only root may mount; the store is a real S3 server behind a proxy.
HOLDFAST_OUTAGE says for how many seconds each lasts. About 70 s without it.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.cli.home_reader import HomeReader
from holdfast.cli.watch import Watching
from holdfast.coordination.coordinator import FAILING
from holdfast.notifying.channels import receivers_of
from holdfast.runtime.clock import SystemClock
from tests.end_to_end.harness import Pipeline
from tests.end_to_end.test_home_in_trouble import Full, pass_through, pipeline
from tests.patience import PATIENCE
from tests.stores.proxy import proxy_to
from tests.stores.s3 import s3_server
from tests.unit.http_receiver import HttpReceiver
from tests.unit.mailbox import Mailbox

__all__ = ["pipeline"]
OUTAGE = float(os.environ.get("HOLDFAST_OUTAGE", "0"))
pytestmark = pytest.mark.long


@pytest.fixture
def receivers() -> Iterator[tuple[HttpReceiver, Mailbox]]:
    with ExitStack() as stack:
        hook, mailbox = HttpReceiver(), Mailbox()
        stack.callback(hook.close)
        stack.callback(mailbox.close)
        yield hook, mailbox


def changes(hook: HttpReceiver) -> list[tuple[str, str]]:
    return [(alarm["code"], alarm["change"]) for document in hook.taken for alarm in document["alarms"]]


def require_one_beginning_and_one_end(receivers: tuple[HttpReceiver, Mailbox], code: str) -> str:
    """Of this alarm at both receivers; and of any other that came with it. The mails."""
    hook, mailbox = receivers
    told = changes(hook)
    assert [change for change in told if change[0] == code] == [(code, "began"), (code, "over")]
    assert set(Counter(told).values()) == {1}, told
    texts = "".join(mailbox.texts)
    assert texts.count(f"[critical] counts: {code}") == texts.count(f"[over] counts: {code}") == 1
    return texts


class LongFull(Full):
    def end(self, home: Path) -> None:
        time.sleep(OUTAGE)  # how long it lasts is the question
        super().end(home)


def test_a_full_disk_is_one_message_at_its_beginning_and_one_at_its_end(
    pipeline: Pipeline, receivers: tuple[HttpReceiver, Mailbox]
) -> None:
    driver = pipeline.start(tolerable_failures=0, alarm_urls=[receiver.url for receiver in receivers])
    pass_through(LongFull(), pipeline, driver)
    pipeline.stop(driver)
    assert "No space left on device" in require_one_beginning_and_one_end(receivers, FAILING)


def test_an_outage_of_the_store_is_one_message_at_its_beginning_and_one_at_its_end(
    tmp_path: Path, receivers: tuple[HttpReceiver, Mailbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job").mkdir()
    with s3_server(tmp_path / "s3") as server, proxy_to(server.endpoint) as proxy:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        away = Pipeline(tmp_path / "job", files=20 + int(OUTAGE), home_url=server.home("homes", proxy.endpoint))
        away.hold_back(18 + int(OUTAGE))
        urls = [receiver.url for receiver in receivers]
        driver = away.start(tolerable_failures=0, storage_deadline="3s", alarm_urls=urls)
        driver.wait_for("step publish.done")
        proxy.refuse()
        over = time.monotonic() + OUTAGE
        for _ in range(3):
            away.feed(1)
            driver.wait_for(f"alarm {FAILING} on")
        while time.monotonic() < over:
            away.feed(1)
            driver.wait_for(f"alarm {FAILING} on")
        proxy.accept()
        driver.wait_for(f"alarm {FAILING} over")
        driver.wait_for("step publish.done")
        away.stop(driver)
    assert "storage_unreachable" in require_one_beginning_and_one_end(receivers, FAILING)


def test_a_dead_driver_is_told_by_the_watch_and_so_is_its_return(
    tmp_path: Path, receivers: tuple[HttpReceiver, Mailbox]
) -> None:
    hook, mailbox = receivers
    dead = Pipeline(tmp_path, files=60)
    driver = dead.start()
    driver.wait_for("step publish.done", times=2)
    reader = HomeReader(dead.home_url)
    watching = Watching(dead.home_url, receivers_of([hook.url, mailbox.url]), SystemClock())
    watching.judge(reader.refresh(), 0.0)
    driver.kill()
    while "counts: owner-gone" not in watching.critical():
        watching.judge(reader.refresh(), 0.0)
    hook.wait_for(1)
    mailbox.wait_for(1)
    ends = time.monotonic() + OUTAGE
    while time.monotonic() < ends:
        watching.judge(reader.refresh(), 0.0)
        time.sleep(0.2)  # between two rounds of the watch
    driver = dead.start()
    driver.wait_for("step publish.done")
    while watching.critical():
        watching.judge(reader.refresh(), 0.0)
    watching.close(PATIENCE)
    dead.stop(driver)
    require_one_beginning_and_one_end(receivers, "owner-gone")
