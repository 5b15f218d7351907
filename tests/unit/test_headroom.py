"""Whether a barrier's files live long enough: measured, told before it hurts, with the value to set."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.alarm import Alarm
from holdfast.coordination.commands import ClearAlarm, RaiseAlarm
from holdfast.coordination.headroom import HEADROOM, BatchPace, Headroom, HeadroomAlarm
from holdfast.history import history_findings
from holdfast.identifiers import BatchId
from holdfast.repository.views import Observation
from tests.unit.churning_runs import BATCHES_RETAINED, START, ChurningRun, ManualClock, state_of


def paced(seconds_per_batch: float, batches: int) -> BatchPace:
    pace = BatchPace()
    for batch in range(batches):
        pace.reached(BatchId(batch), batch * seconds_per_batch, 10)
    return pace


def test_files_live_for_as_many_batches_as_spark_keeps() -> None:
    assert paced(2.0, 2).lifetime(10) == pytest.approx(20.0)
    assert paced(2.0, 200).lifetime(10) == pytest.approx(20.0)
    assert paced(2.0, 1).lifetime(10) is None


def test_the_newest_batches_count() -> None:
    pace = paced(2.0, 50)
    for number in range(50, 60):
        pace.reached(BatchId(number), 98 + (number - 49) * 0.5, 10)
    assert pace.lifetime(10) == pytest.approx(5.0)


def test_batches_between_two_looks_are_counted() -> None:
    pace = BatchPace()
    pace.reached(BatchId(3), 1.0, 10)
    pace.reached(BatchId(13), 2.0, 10)
    assert pace.lifetime(10) == pytest.approx(1.0)


def test_after_a_recovery_the_pace_is_measured_anew() -> None:
    pace = paced(2.0, 50)
    pace.reached(BatchId(7), 1000.0, 10)
    assert pace.lifetime(10) is None
    pace.reached(BatchId(8), 1003.0, 10)
    assert pace.lifetime(10) == pytest.approx(30.0)


@pytest.mark.parametrize(("needed", "tight", "plenty"), [(1.0, False, True), (4.0, False, False), (6.0, True, False)])
def test_it_is_tight_before_it_is_too_late(needed: float, tight: bool, plenty: bool) -> None:
    found = Headroom(needed, 10.0, 100, pinned=False)
    assert (found.tight, found.plenty) == (tight, plenty)


def test_the_advice_names_a_value_with_which_there_is_plenty() -> None:
    found = Headroom(6.0, 10.0, 100, pinned=False)
    assert found.advice[0] == "set spark.sql.streaming.minBatchesToRetain to 240 or more"
    assert Headroom(6.0, 10.0 * 2.4, 240, pinned=False).plenty
    assert any("hard links" in line for line in found.advice)


def test_where_files_are_pinned_only_the_setting_helps() -> None:
    (advice,) = Headroom(6.0, 10.0, 100, pinned=True).advice
    assert "minBatchesToRetain" in advice


def test_files_that_vanished_are_tight_whatever_the_figures_say() -> None:
    found = Headroom(0.1, 10.0, 100, pinned=True, vanished=True)
    assert found.tight
    assert found.advice == ("set spark.sql.streaming.minBatchesToRetain to 200 or more",)
    assert Headroom(0.1, 0.0, 100, pinned=True, vanished=True).advice == (
        "raise spark.sql.streaming.minBatchesToRetain",
    )


def test_the_alarm_is_raised_once_and_is_over_when_there_is_plenty() -> None:
    alarm = HeadroomAlarm()
    tight, between, plenty = (Headroom(needed, 10.0, 100, pinned=True) for needed in (6.0, 4.0, 1.0))
    assert alarm.judge(plenty) is None
    assert isinstance(alarm.judge(tight), RaiseAlarm)
    assert alarm.judge(tight) is None
    assert alarm.judge(between) is None
    assert isinstance(alarm.judge(plenty), ClearAlarm)
    assert alarm.judge(between) is None


class SlowHome:
    """A run whose home takes `seconds` for each pack; a batch passes in each of them."""

    def __init__(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"
        self.home.mkdir()
        self.alarms: list[Alarm] = []
        self.seconds = 0
        self.clock = ManualClock()
        self.run = ChurningRun(
            self.home, tmp_path / "work", self.clock, watch=self._watch, alarms=(self._hear,), interval="4s"
        )

    def _hear(self, alarm: Alarm) -> None:
        if alarm.code == HEADROOM:
            self.alarms.append(alarm)

    def _watch(self, operation: str, key: str) -> None:
        if operation == "upload" and key.startswith("packs/"):
            for _ in range(self.seconds):
                self.clock.now += 1
                self.run.query.batch()

    def checkpoints(self, count: int) -> None:
        for _ in range(count * 4):
            self.run.query.batch()
            self.run.wait(1)

    def findings(self) -> list[str]:
        seen = Observation(
            job="churn",
            home="file:///",
            state=state_of(self.home),
            heartbeat=None,
            alive=True,
            now=START + timedelta(seconds=self.clock.now),
        )
        return [finding.fix[0] for finding in history_findings(seen) if finding.code == "little-headroom"]


def test_a_slow_copy_without_pins_warns_and_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def refusing(source: object, target: object, **folders: object) -> None:
        if ".pins" in str(target):
            raise PermissionError(1, "no links")
        link(str(source), str(target), **folders)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", refusing)
    slow = SlowHome(tmp_path)
    slow.checkpoints(2)
    assert slow.alarms == []
    assert slow.findings() == []
    slow.seconds = 3
    slow.checkpoints(2)
    (alarm,) = slow.alarms
    assert (alarm.code, alarm.severity) == (HEADROOM, "warning")
    assert f"={BATCHES_RETAINED})" in alarm.message
    assert slow.findings()[0].startswith("spark.sql.streaming.minBatchesToRetain=")
    slow.seconds = 0
    slow.checkpoints(3)
    assert [alarm.cleared for alarm in slow.alarms] == [False, True]
    assert slow.findings() == []


def test_with_pins_a_slow_copy_is_no_reason_to_warn(tmp_path: Path) -> None:
    slow = SlowHome(tmp_path)
    slow.seconds = 3
    slow.checkpoints(3)
    assert len(state_of(slow.home).restorable()) >= 2
    assert slow.alarms == []
    assert slow.findings() == []
