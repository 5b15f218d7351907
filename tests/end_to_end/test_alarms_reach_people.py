"""A full disk and a dead driver, as a webhook and a mailbox learn of them: one message when it begins, one when over.

The home is a small file system of its own, which only root may mount. About 40 s.
"""

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
from tests.unit.http_receiver import HttpReceiver
from tests.unit.mailbox import Mailbox

__all__ = ["pipeline"]
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


def test_a_full_disk_is_one_message_at_its_beginning_and_one_at_its_end(
    pipeline: Pipeline,
    receivers: tuple[HttpReceiver, Mailbox],
) -> None:
    hook, mailbox = receivers
    driver = pipeline.start(tolerable_failures=0, alarm_urls=[hook.url, mailbox.url])
    pass_through(Full(), pipeline, driver)
    pipeline.stop(driver)
    told = [change for change in changes(hook) if change[0] == FAILING]
    assert told == [(FAILING, "began"), (FAILING, "over")]
    texts = "".join(mailbox.texts)
    assert texts.count(f"[critical] counts: {FAILING}") == texts.count(f"[over] counts: {FAILING}") == 1
    assert "No space left on device" in texts


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
    driver = dead.start()
    driver.wait_for("step publish.done")
    while watching.critical():
        watching.judge(reader.refresh(), 0.0)
    watching.close(PATIENCE)
    dead.stop(driver)
    assert [change for change in changes(hook) if change[0] == "owner-gone"] == [
        ("owner-gone", "began"),
        ("owner-gone", "over"),
    ]
    texts = "".join(mailbox.texts)
    assert texts.count("[critical] counts: owner-gone") == texts.count("[over] counts: owner-gone") == 1
