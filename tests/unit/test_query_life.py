"""A query that dies within its run: noticed, told, restarted, recorded; or failed permanently."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.alarm import Alarm
from holdfast.errors import Fenced, JobFailed, StorageError
from holdfast.runtime.query.causes import FailureCause
from holdfast.runtime.query_end import EndedBy, QueryEnd
from tests.unit.churning_runs import ChurningRun, ManualClock, state_of

POISON = (
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "/job/orders.py", line 12, in parse\n'
    "ValueError: a poisonous row\n"
    "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)"
)
MESSAGE = "ValueError: a poisonous row (orders.py, line 12, in parse)"
FULL = "java.io.IOException: No space left on device\n\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)"


class Job:
    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.home.mkdir()
        self.alarms: list[Alarm] = []
        self.run = ChurningRun(
            self.home, root / "work", ManualClock(), alarms=(self.alarms.append,), restart_delay="2s", retained=5
        )
        self.run.batches(1)

    def die(self, why: str, by: EndedBy = EndedBy.ERROR) -> None:
        """Nothing but the query's own notice: nobody polls."""
        self.run.query.die(why, by)
        self.run.settle()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr("os.fsync", lambda handle: None)
    return Job(tmp_path)


def test_a_failure_is_noticed_without_a_poll_and_reported_with_its_cause(job: Job) -> None:
    job.die(POISON)
    assert not job.run.runtime.status.running
    (alarm,) = job.alarms
    assert (alarm.code, alarm.severity, alarm.hint) == ("query_died", "warning", FailureCause.USER_CODE.hint)
    assert alarm.message == f"the query died (user code), restarting in 2.0 s: {MESSAGE}"


def test_a_failure_that_nobody_reports_is_found_by_the_poll(job: Job) -> None:
    job.run.query._end = QueryEnd(EndedBy.ERROR, POISON)
    job.run.wait(0.25)
    assert not job.run.runtime.status.running


def test_a_restart_is_recorded_with_its_cause_and_duration_and_over_with_the_next_batch(job: Job) -> None:
    job.die(POISON)
    job.run.wait(1.75)
    assert not state_of(job.home).restarts
    job.run.wait(0.5)
    (entry,) = state_of(job.home).restarts
    assert (entry.cause, entry.message, entry.attempt_number) == ("user code", MESSAGE, 1)
    assert entry.hint == FailureCause.USER_CODE.hint
    assert entry.duration_ms == 2000
    assert [alarm.cleared for alarm in job.alarms] == [False]
    job.run.batches(1)
    assert [alarm.cleared for alarm in job.alarms] == [False, True]


def test_a_restart_that_fails_is_recorded_too_and_tried_again(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(directory: object, supervisor: object) -> None:
        raise OSError("no route to host")

    with monkeypatch.context() as patch:
        patch.setattr(job.run.query, "start", failing)
        job.die(POISON)
        job.run.wait(2.25)
    job.run.wait(4.25)
    assert [(entry.cause, entry.duration_ms) for entry in state_of(job.home).restarts] == [
        ("user code", None),
        ("unknown", 4000),
    ]
    assert job.run.runtime.status.restarts == 2


def test_the_same_error_of_the_users_code_ends_the_job(job: Job) -> None:
    for _ in range(2):
        job.die(POISON)
        job.run.wait(5)
    job.die(POISON)
    assert job.run.over
    assert isinstance(job.run.failure, JobFailed)
    assert job.run.failure.message.endswith(f"failed 3 times in the same way: {MESSAGE}")
    assert (job.alarms[-1].severity, job.alarms[-1].message) == ("critical", job.run.failure.message)
    ended = state_of(job.home).ended
    assert ended is not None
    assert MESSAGE in ended.reason


def test_a_full_disk_is_tried_as_often_as_allowed_and_ends_as_storage(job: Job) -> None:
    for _ in range(10):
        job.die(FULL)
        job.run.wait(61)
    assert not job.run.over
    job.die(FULL)
    assert job.run.over
    assert isinstance(job.run.failure, StorageError)
    assert job.run.failure.hint == FailureCause.STORAGE.hint


def test_a_sink_that_is_fenced_ends_the_run_as_fenced_and_nothing_more_is_written(job: Job) -> None:
    before = state_of(job.home).head
    job.run.query.batch()
    job.die("holdfast.errors.Fenced: a newer run owns the table", EndedBy.SINK)
    job.run.wait(1)
    assert isinstance(job.run.failure, Fenced)
    assert "a newer run owns the table" in job.run.failure.message
    assert state_of(job.home).head == before


def test_a_query_that_is_stopped_because_its_run_is_over_does_not_change_how_it_ended(job: Job, tmp_path: Path) -> None:
    ChurningRun(job.home, tmp_path / "elsewhere", job.run.clock, seed=1)
    job.run.wait(30)
    assert job.run.over
    assert isinstance(job.run.failure, Fenced)


def test_a_jvm_that_ends_is_no_failure_when_a_stop_is_asked_for_a_moment_later(job: Job) -> None:
    """A signal to the whole process group reaches the JVM and this process in any order."""
    job.die("the answer from Java was empty", EndedBy.SPARK_GONE)
    assert job.run.runtime.status.running
    job.run.stop()


def test_a_jvm_that_ends_by_itself_ends_the_job(job: Job) -> None:
    job.die("the answer from Java was empty", EndedBy.SPARK_GONE)
    job.run.wait(0.25)
    assert job.run.over
    assert isinstance(job.run.failure, JobFailed)
    assert "only a new process" in job.run.failure.message


def test_a_query_that_ends_by_itself_ends_the_job_well(job: Job) -> None:
    job.die("", EndedBy.REQUEST)
    assert (job.run.over, job.run.failure) == (True, None)
    assert not job.alarms


@pytest.fixture
def away(job: Job) -> Iterator[None]:
    """The list of committed batches cannot be read, as when the machine that has it is away."""
    commits = job.run.query.directory / "commits"
    kept = commits.rename(commits.with_name("kept"))
    commits.write_bytes(b"")
    yield
    commits.unlink()
    kept.rename(commits)


def test_a_work_directory_that_does_not_answer_stops_nothing(job: Job, away: None) -> None:
    job.run.wait(2)
    assert job.run.runtime.status.running
    assert not job.run.over


@pytest.mark.parametrize("end", ["stopped", "by itself"])
def test_a_query_whose_last_batch_cannot_be_seen_has_not_ended_well(job: Job, away: None, end: str) -> None:
    """Its output would be called complete, and might not be."""
    if end == "stopped":
        job.run.runtime.stop(None, lambda answer: None)
    else:
        job.run.query.die("", EndedBy.REQUEST)
    job.run.settle()
    job.run.wait(1)
    assert job.run.over
    assert isinstance(job.run.failure, StorageError)
    assert "could not list the commits" in job.run.failure.message
