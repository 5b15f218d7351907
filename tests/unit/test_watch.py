"""Alarms from outside the drivers: a driver that is gone, an overdue checkpoint, a failed run, a home that is away."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.alarm import Receiver
from holdfast.cli.home_reader import HomeReader
from holdfast.cli.main import main
from holdfast.cli.watch import Watching
from holdfast.notifying.channels import Channel, channel_to
from holdfast.notifying.outbox import Pace
from holdfast.repository.entries import Failure
from holdfast.repository.sealing import opened, sealed
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.reports.alarms import Delivery, InThread
from holdfast.runtime.reports.posting import Posting
from tests.patience import PATIENCE
from tests.unit.http_receiver import HttpReceiver
from tests.unit.job_histories import History

LONG_AGO = timedelta(minutes=20)


class Watched:
    """A watch of a home, with a webhook that gets its alarms."""

    def __init__(self, home: Path, gather_s: float) -> None:
        self.hook = HttpReceiver()
        self._pace = Pace(gather_s=gather_s)
        self.reader = HomeReader(f"file://{home}")
        self.watching = Watching(
            self.reader.home, (channel_to(self.hook.url),), SystemClock(), deliver=self._delivery_to
        )

    def _delivery_to(self, receiver: Receiver) -> Delivery:
        return Posting(receiver, SystemClock(), self._pace) if isinstance(receiver, Channel) else InThread(receiver)

    def round(self) -> None:
        self.watching.judge(self.reader.refresh(), 0.0)

    def heard(self) -> list[tuple[str, str, str]]:
        self.watching.close(PATIENCE)
        return [
            (alarm["job"], alarm["code"], alarm["change"])
            for document in self.hook.taken
            for alarm in document["alarms"]
        ]


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def watched(ends: ExitStack, home: Path, gather_s: float = 0.01) -> Watched:
    made = Watched(home, gather_s)
    ends.callback(made.hook.close)
    ends.callback(lambda: made.watching.close(PATIENCE))
    return made


def running(home: Path, job: str = "orders", ago: timedelta = timedelta(0), **run: Any) -> History:
    history = History(home, job, start=datetime.now(UTC) - ago)
    history.run(**run)
    history.complete(1, batch=3)
    history.beat()
    return history


def test_a_driver_that_is_gone_is_one_alarm_and_its_return_ends_it(ends: ExitStack, tmp_path: Path) -> None:
    history = running(tmp_path / "home", ago=LONG_AGO)
    watch = watched(ends, tmp_path / "home")
    for _ in range(5):
        watch.round()
    watch.hook.wait_for(1)
    history.now = datetime.now(UTC)
    history.run()
    history.beat()
    for _ in range(5):
        watch.round()
    assert watch.heard() == [("orders", "owner-gone", "began"), ("orders", "owner-gone", "over")]


def test_a_job_that_is_well_or_was_stopped_is_no_alarm(ends: ExitStack, tmp_path: Path) -> None:
    running(tmp_path / "home")
    stopped = running(tmp_path / "home", "stopped", LONG_AGO)
    stopped.end()
    watch = watched(ends, tmp_path / "home")
    watch.round()
    assert watch.heard() == []
    assert watch.watching.critical() == set()


def test_an_overdue_checkpoint_is_an_alarm(ends: ExitStack, tmp_path: Path) -> None:
    history = running(tmp_path / "home", ago=LONG_AGO, interval_s=10.0)
    history.now = datetime.now(UTC)
    history.beat()
    watch = watched(ends, tmp_path / "home")
    watch.round()
    assert watch.heard() == [("orders", "checkpoint-overdue", "began")]


def test_an_outage_of_forty_jobs_is_one_message(ends: ExitStack, tmp_path: Path) -> None:
    for number in range(40):
        running(tmp_path / "home", f"job-{number}", LONG_AGO)
    watch = watched(ends, tmp_path / "home", gather_s=60)
    watch.round()
    assert len(watch.heard()) == 40
    (document,) = watch.hook.taken
    assert document["title"] == "holdfast: 40 jobs: owner-gone (critical)"


def test_a_store_outage_on_forty_jobs_is_one_message_and_so_is_what_it_left(ends: ExitStack, tmp_path: Path) -> None:
    histories = [running(tmp_path / "home", f"job-{number}") for number in range(40)]
    watch = watched(ends, tmp_path / "home", gather_s=0.5)
    watch.round()
    (tmp_path / "home").rename(tmp_path / "away")
    for _ in range(5):
        watch.round()
    (document,) = watch.hook.wait_for(1)
    assert [alarm["code"] for alarm in document["alarms"]] == ["home_unreachable"]
    (tmp_path / "away").rename(tmp_path / "home")
    failure = Failure("storage_unreachable", "connection refused", True, "check the store")
    for history in histories:
        history.fail(2, failure)
        history.fail(3, failure)
        history.beat()
    watch.round()
    watch.heard()
    titles = [document["title"] for document in watch.hook.taken]
    assert len(titles) <= 3, titles
    jobs = {alarm["job"] for alarm in watch.hook.taken[-1]["alarms"] if alarm["code"] == "checkpoints-failing"}
    assert len(jobs) == 40


def test_a_home_that_is_away_is_one_alarm_and_ends_none(ends: ExitStack, tmp_path: Path) -> None:
    running(tmp_path / "home", ago=LONG_AGO)
    watch = watched(ends, tmp_path / "home")
    watch.round()
    reading = watch.reader.latest
    away = replace(reading, failure="could not list it: refused", failing_since=datetime.now(UTC))
    for _ in range(3):
        watch.watching.judge(away, 0.0)
    watch.watching.judge(reading, 0.0)
    assert watch.heard() == [
        ("orders", "owner-gone", "began"),
        ("", "home_unreachable", "began"),
        ("", "home_unreachable", "over"),
    ]


def test_what_has_been_read_is_not_read_again(tmp_path: Path) -> None:
    history = running(tmp_path / "home")
    for id in range(2, 40):
        history.complete(id, batch=id)
    history.beat()
    reader = HomeReader(f"file://{tmp_path / 'home'}")
    reader.refresh()
    before = reader.meter.usage
    reader.refresh()
    after = reader.meter.usage
    assert (after.get - before.get, after.list - before.list) == (1, 2)
    history.complete(40, batch=50)
    assert reader.refresh().jobs["orders"].state.completed.keys() == history.state().completed.keys()


def test_a_home_that_cannot_be_read_shows_what_was_read_last(tmp_path: Path) -> None:
    running(tmp_path / "home")
    reader = HomeReader(f"file://{tmp_path / 'home'}")
    assert list(reader.refresh().jobs) == ["orders"]
    shutil.move(tmp_path / "home", tmp_path / "away")
    (tmp_path / "home").write_text("no directory")
    reading = reader.refresh()
    assert reading.failure is not None
    assert list(reading.jobs) == ["orders"]
    since = reading.failing_since
    assert reader.refresh().failing_since == since is not None


def test_a_home_that_goes_while_its_jobs_are_read_is_no_jobs_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job in ("orders", "clicks"):
        running(tmp_path / "home", job)
    reader = HomeReader(f"file://{tmp_path / 'home'}")
    before = reader.refresh()
    read_all = reader._read_all

    def after_it_went(names: list[str]) -> Any:
        (tmp_path / "home").rename(tmp_path / "away")
        return read_all(names)

    monkeypatch.setattr(reader, "_read_all", after_it_went)
    reading = reader.refresh()
    assert reading.failure is not None
    assert (reading.jobs, reading.unreadable) == (before.jobs, {})


def test_one_damaged_journal_hides_no_other_job(ends: ExitStack, tmp_path: Path) -> None:
    running(tmp_path / "home", "well")
    running(tmp_path / "home", "damaged")
    entry = sorted((tmp_path / "home" / "damaged" / "journal").glob("*.json"))[0]
    entry.write_bytes(b"{}")
    watch = watched(ends, tmp_path / "home")
    watch.round()
    watch.round()
    assert watch.heard() == [("damaged", "job_unreadable", "began")]
    assert list(watch.reader.latest.jobs) == ["well"]


def test_a_heartbeat_that_makes_no_sense_is_an_alarm_and_hides_no_other_job(ends: ExitStack, tmp_path: Path) -> None:
    running(tmp_path / "home", "gone", LONG_AGO, interval_s=60.0)
    odd = running(tmp_path / "home", "odd")
    beat = msgspec.json.decode(opened(odd.store.get("owner.json"))[0])  # type: ignore[index]
    beat["heartbeat_at"] = "0001-01-01T00:00:00+14:00"
    odd.store.put("owner.json", sealed(msgspec.json.encode(beat)))
    watch = watched(ends, tmp_path / "home")
    watch.round()
    told = {(job, code) for job, code, _ in watch.heard()}
    assert ("odd", "job_unreadable") in told
    assert ("gone", "owner-gone") in told


def test_one_round_exits_with_1_when_an_alarm_is_critical(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = f"file://{tmp_path / 'home'}"
    history = running(tmp_path / "home")
    assert main(["watch", "--home", home, "--once"]) == 0
    history.now = datetime.now(UTC)
    history.end()
    running(tmp_path / "home", "gone", LONG_AGO)
    assert main(["watch", "--home", home, "--once"]) == 1
    assert "gone: owner-gone" in capsys.readouterr().err
    assert main(["watch", "--home", home]) == 2
