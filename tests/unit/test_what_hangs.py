"""Whatever hangs, the heartbeat, a stop and the status go on: only its own lane waits for it."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.alarm import Alarm
from holdfast.errors import StopOverdue
from holdfast.identifiers import JobName
from holdfast.repository.ownership import read_heartbeat
from holdfast.repository.self_report import NAME as STATE_FILE
from holdfast.runtime.lanes import Lane
from holdfast.runtime.run import running as running_jobs
from holdfast.runtime.run.environment import Environment
from holdfast.runtime.run.preflight import preflight
from holdfast.settings import Settings
from holdfast.snapshot.carrier import copy_shards
from holdfast.spark.running import RunningJob
from holdfast.storage.local import LocalStore
from holdfast.workdir.factory import work_directory
from tests.patience import PATIENCE
from tests.unit.churning_runs import ChurningQuery

JOB = JobName("churn")


class Hang:
    """Does not return before it is freed."""

    def __init__(self) -> None:
        self.begun, self.freed = threading.Event(), threading.Event()

    def __call__(self, *arguments: object, **named: object) -> None:
        self.begun.set()
        assert self.freed.wait(PATIENCE)


@dataclass
class Job:
    root: Path
    hang: Hang
    patch: pytest.MonkeyPatch
    running: RunningJob

    def beat(self) -> int:
        heartbeat = read_heartbeat(LocalStore(self.root / "home").scoped(JOB))
        assert heartbeat is not None
        return heartbeat.beat

    def beats_on(self) -> None:
        ends, upto = time.monotonic() + PATIENCE, self.beat() + 3
        while self.beat() < upto:
            assert time.monotonic() < ends, "no heartbeat"

    def decides_on(self) -> None:
        """The thread that decides takes up what comes."""
        taken = threading.Event()
        self.running._items.put(taken.set)  # type: ignore[arg-type]
        assert taken.wait(PATIENCE / 10), "the loop waits, too"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(running_jobs, "_ALARMS_CLOSE_S", 0.1)
    work, home, hang = tmp_path / "work", f"file://{tmp_path}/home", Hang()
    settings = Settings(heartbeat="100ms", stop_timeout="1s", interval="10m")
    state_file = work / JOB / STATE_FILE
    location = preflight(JOB, home, work_directory(work), settings, Environment.real(), state_file=state_file)
    query: Any = ChurningQuery(1)
    running = RunningJob(location, query, copy_shards, (hang,))
    query.batch()
    yield Job(tmp_path, hang, monkeypatch, running)
    hang.freed.set()


def the_work_directory(job: Job) -> None:
    job.patch.setattr(type(job.running._runtime._life.resumed.directory), "newest_barrier", job.hang)


def the_query(job: Job) -> None:
    job.patch.setattr(ChurningQuery, "end", job.hang)


def a_lane(lane: Lane) -> Callable[[Job], None]:
    return lambda job: job.running._lanes.submit(lane, job.hang)


def the_loop(job: Job) -> None:
    job.running._items.put(job.hang)


def the_look_for_requests(job: Job) -> None:
    job.patch.setattr("holdfast.runtime.requests.serving.read_request", job.hang)


def the_state_file(job: Job) -> None:
    job.patch.setattr("holdfast.runtime.reports.state_reporter.write_local_state", job.hang)


def a_receiver_of_alarms(job: Job) -> None:
    alarms = job.running._runtime._storage.alarms
    job.running._items.put(lambda: alarms.raise_alarm("trouble", "warning", "there is some", "look at it"))


WAITED_FOR_BY_A_STOP = {
    "work directory": the_work_directory,
    "query": the_query,
    "journal": a_lane("journal"),
    "starting or stopping the query": a_lane("query"),
    "loop": the_loop,
}
WAITED_FOR_BY_NOBODY = {
    "look for requests": the_look_for_requests,
    "state file": the_state_file,
    "receiver of alarms": a_receiver_of_alarms,
    "deletion": a_lane("collect"),
    "scrub": a_lane("scrub"),
}


@pytest.mark.parametrize("what", WAITED_FOR_BY_A_STOP)
def test_the_heartbeat_and_the_status_go_on_and_a_stop_ends_in_time(job: Job, what: str) -> None:
    WAITED_FOR_BY_A_STOP[what](job)
    assert job.hang.begun.wait(PATIENCE)
    job.beats_on()
    if what != "loop":
        job.decides_on()
    assert job.running.status().job == JOB
    with pytest.raises(StopOverdue):
        job.running.stop()


@pytest.mark.parametrize("what", WAITED_FOR_BY_NOBODY)
def test_the_heartbeat_goes_on_and_a_stop_is_a_clean_one(job: Job, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "stop_timeout_s", PATIENCE)
    WAITED_FOR_BY_NOBODY[what](job)
    assert job.hang.begun.wait(PATIENCE)
    job.beats_on()
    job.decides_on()
    assert job.running.status().job == JOB
    job.running.stop()


def test_the_status_says_what_happens_meanwhile(job: Job) -> None:
    """The journal's lane hangs, and the query dies: a status shows it."""
    job.running._lanes.submit("journal", job.hang)
    assert job.hang.begun.wait(PATIENCE)
    ends = time.monotonic() + PATIENCE
    job.running._query.die("java.io.IOException: No space left on device")  # type: ignore[attr-defined]
    while job.running.status().running:
        assert time.monotonic() < ends
    alarms: tuple[Alarm, ...] = job.running.status().alarms
    assert [alarm.code for alarm in alarms] == ["query_died"]
    with pytest.raises(StopOverdue):
        job.running.stop()
