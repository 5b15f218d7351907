"""What a running job's own history shows becomes an alarm: once when it begins, once when it is over."""

from pathlib import Path

from holdfast.alarm import Alarm
from holdfast.coordination.commands import ClearAlarm, RaiseAlarm
from holdfast.finding import Finding, Severity
from holdfast.history.alarming import FindingAlarms
from tests.unit.churning_runs import ChurningRun, ManualClock

INTERVAL_S = 4


def finding(code: str = "store-slow", severity: Severity = "warning") -> Finding:
    return Finding(
        code=code,
        severity=severity,
        symptom="the home answers slowly",
        cause="sealing took 3.0s",
        evidence=(),
        fix=('storage_deadline="30s"', "# a home that is near"),
        count=1,
        first_seen=None,
        last_seen=None,
    )


def test_the_alarm_has_the_code_of_the_finding_and_says_what_to_set() -> None:
    (alarm,) = FindingAlarms().judge([finding()])
    assert alarm == RaiseAlarm(
        "store-slow",
        "warning",
        "the home answers slowly: sealing took 3.0s",
        'storage_deadline="30s"; a home that is near',
    )


def test_it_is_told_once_and_again_when_it_becomes_critical() -> None:
    alarms = FindingAlarms()
    told = [list(alarms.judge([finding(severity=each)])) for each in ("warning", "warning", "critical", "warning")]
    assert [len(commands) for commands in told] == [1, 0, 1, 0]


def test_a_figure_around_its_threshold_does_not_raise_it_again_and_again() -> None:
    alarms = FindingAlarms()
    told = [list(alarms.judge([finding()] if look % 2 else [])) for look in range(20)]
    assert sum(map(len, told)) == 1


def test_it_is_over_when_it_stays_away() -> None:
    alarms = FindingAlarms()
    list(alarms.judge([finding()]))
    told = [list(alarms.judge([])) for _ in range(5)]
    assert [len(commands) for commands in told] == [0, 0, 1, 0, 0]
    assert isinstance(told[2][0], ClearAlarm)
    assert len(list(alarms.judge([finding()]))) == 1


def test_what_the_runtime_tells_by_itself_is_not_told_twice() -> None:
    assert list(FindingAlarms().judge([finding("checkpoints-failing", "critical"), finding("little-headroom")])) == []


class SlowHome:
    """A run whose home takes `seconds` for each pack."""

    def __init__(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        home.mkdir()
        self.alarms: list[Alarm] = []
        self.seconds = 0
        self._clock = ManualClock()
        self._run = ChurningRun(
            home,
            tmp_path / "work",
            self._clock,
            watch=self._watch,
            alarms=(self.alarms.append,),
            interval=f"{INTERVAL_S}s",
        )

    def _watch(self, operation: str, key: str) -> None:
        if operation == "upload" and key.startswith("packs/"):
            self._clock.now += self.seconds

    def checkpoints(self, count: int) -> None:
        for _ in range(count):
            self._run.query.batch()
            self._run.wait(INTERVAL_S)


def test_a_running_job_raises_and_clears_the_alarm(tmp_path: Path) -> None:
    slow = SlowHome(tmp_path)
    slow.checkpoints(15)
    assert slow.alarms == []
    slow.seconds = 3
    slow.checkpoints(15)
    (alarm,) = slow.alarms
    assert (alarm.code, alarm.severity, alarm.job) == ("checkpoints-near-interval", "warning", "churn")
    assert 'interval="' in alarm.hint
    slow.seconds = 0
    slow.checkpoints(40)
    assert [(each.code, each.cleared) for each in slow.alarms] == [
        ("checkpoints-near-interval", False),
        ("checkpoints-near-interval", True),
    ]
