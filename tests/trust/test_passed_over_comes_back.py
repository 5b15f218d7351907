"""A checkpoint that was passed over on a wrong verdict is chosen again, unless that would mix two histories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from holdfast.checkpoint.manifest import manifest_key
from holdfast.cli.main import main
from holdfast.errors import StopAsked
from holdfast.identifiers import CheckpointId
from holdfast.repository.damage import load_manifest
from holdfast.repository.journal import Journal
from holdfast.repository.ownership import current_process
from holdfast.runtime.run.run_end import record_run_end
from tests.trust.jobs_with_sinks import Job, dying_at
from tests.trust.jobs_with_sinks import job as job
from tests.unit.churning_runs import JOB, manifest_of, state_of
from tests.unit.job_histories import History
from tests.unit.test_cli_restore_verify import flip_one_byte


class Spoilt:
    """A job with checkpoints at batches 0 to 3, on another host, and an object of the newest that reads wrong. No plans
    of its batches are recorded: to resume without that checkpoint takes its rows back."""

    def __init__(self, job: Job) -> None:
        job.settings["plans"] = "off"
        job.lived(4)
        job.wipe_work()
        newest, *others = state_of(job.home).restorable()
        shared = {file.key for entry in others for file in manifest_of(job.home, entry).files()}
        files = [file for file in manifest_of(job.home, newest).files() if file.path.startswith("state/")]
        self.path = job.home / JOB / next(file.key for file in files if file.key not in shared)
        self.id = newest.id
        self.right = self.path.read_bytes()
        flip_one_byte(self.path)

    def put_right(self) -> None:
        self.path.write_bytes(self.right)


def asked_to_stop_at(name: str) -> Callable[[str], None]:
    def step(reached: str) -> None:
        if reached == name:
            raise StopAsked

    return step


def test_it_comes_back_when_its_bytes_do_and_the_sink_was_not_touched(job: Job) -> None:
    spoilt = Spoilt(job)
    with pytest.raises(StopAsked):
        job.run(step=asked_to_stop_at("recovery.back"))
    assert state_of(job.home).passed_over == {spoilt.id}
    spoilt.put_right()
    run = job.run()
    assert run.runtime._life.resumed.checkpoint == spoilt.id
    assert state_of(job.home).passed_over == set()
    job.require_rows(4)
    job.goes_on(run, 2, rows=6)
    job.lived(1)
    job.require_rows(7)


def test_it_comes_back_with_its_rows_when_they_were_taken_back_and_are_still_there(job: Job) -> None:
    """Files that Files takes back are gone, those of Delta wait for a VACUUM."""
    spoilt = Spoilt(job)
    job.run().stop()
    job.require_rows(3)
    spoilt.put_right()
    job.run().stop()
    assert (state_of(job.home).passed_over == set()) == (job.kind == "delta")
    job.require_rows(4 if job.kind == "delta" else 3)
    job.lived(2)
    job.require_rows(6 if job.kind == "delta" else 5)


def test_it_does_not_come_back_when_the_other_line_has_a_checkpoint(job: Job) -> None:
    spoilt = Spoilt(job)
    job.lived(1)
    spoilt.put_right()
    job.lived(1)
    assert state_of(job.home).passed_over == {spoilt.id}
    job.require_rows(5)


def test_it_does_not_come_back_when_the_job_went_back_behind_it(job: Job) -> None:
    """Found by the simulation (seed 1222): damage that shows after going back is no reason to undo the going back."""
    spoilt = Spoilt(job)
    went_back_to = state_of(job.home).restorable()[2].id
    with pytest.raises(StopAsked):
        job.run(from_checkpoint=went_back_to, step=asked_to_stop_at("recovery.back"))
    main(["verify", "--home", str(job.home), "--job", JOB, "--all", "--mark"])
    assert spoilt.id in state_of(job.home).corrupt
    with pytest.raises(StopAsked):
        job.run(step=asked_to_stop_at("recovery.fenced"))
    spoilt.put_right()
    run = job.run()
    assert run.runtime._life.resumed.checkpoint == went_back_to
    job.goes_on(run, 2, rows=4)


def test_it_does_not_come_back_as_long_as_a_run_on_the_other_line_may_wake_up(job: Job) -> None:
    spoilt = Spoilt(job)
    with pytest.raises(KeyboardInterrupt):
        job.run(step=dying_at("recovery.back"))
    spoilt.put_right()
    job.lived(1)
    assert state_of(job.home).passed_over == {spoilt.id}
    job.require_rows(4)


STEPS_BACK = [
    ("delta", "recovery.back", True),
    ("delta", "recovery.fenced", True),
    ("delta", "rewind: planned", True),
    ("delta", "rewind: committed", True),
    ("delta", "recovery.aligned", True),
    ("files", "recovery.back", True),
    ("files", "recovery.fenced", True),
    ("files", "rewind: target recorded", False),
    ("files", "visible file next", False),
    ("files", "visible files gone", False),
    ("files", "rewind: done", False),
    ("files", "recovery.aligned", False),
]


@pytest.mark.parametrize(("kind", "step", "returns"), STEPS_BACK)
def test_it_comes_back_although_the_run_on_the_other_line_was_killed_when_that_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, step: str, returns: bool
) -> None:
    """Files that Files has begun to take back go, whoever looks at them meanwhile."""
    monkeypatch.setattr("os.fsync", lambda handle: None)
    job, here = Job(tmp_path, kind), current_process()
    killed = msgspec.structs.replace(here, started_ticks=here.started_ticks + 1)
    spoilt = Spoilt(job)
    with pytest.raises(KeyboardInterrupt):
        job.run(step=dying_at(step), process=killed)
    assert state_of(job.home).passed_over == {spoilt.id}
    spoilt.put_right()
    job.run(process=here).stop()
    assert (state_of(job.home).passed_over == set()) == returns
    job.require_rows(4 if returns else 3)
    job.lived(2)
    job.require_rows(6 if returns else 5)


def test_the_directory_of_the_other_line_is_not_gone_on_in(job: Job) -> None:
    """It may have batches of the same numbers, which hold other rows."""
    spoilt = Spoilt(job)
    run = job.run()
    run.query.batch()
    run.query.batch()
    journal = run.runtime._storage.journal
    assert isinstance(journal, Journal)
    record_run_end(journal, "stopped")
    assert max(state_of(job.home).completed) == spoilt.id, "they have no checkpoint"
    spoilt.put_right()
    again = job.run()
    assert (again.runtime._life.resumed.checkpoint == spoilt.id) == (job.kind == "delta")
    job.goes_on(again, 1, rows=5 if job.kind == "delta" else 4)


def test_a_manifest_that_came_wrong_but_lies_right_is_read_once_more(tmp_path: Path) -> None:
    """Simulation seed 1070: a run that had read one wrongly did not know what it named, and kept no grace for that."""
    history = History(tmp_path / "home")
    history.run()
    history.complete(1)
    entry = history.state().completed[CheckpointId(1)]
    key, get = manifest_key(entry.manifest), history.store.get
    answers = [get(key)[:-1] + b"?"]
    history.store.get = lambda key: answers.pop() if answers else get(key)  # type: ignore[method-assign]
    assert load_manifest(history.store, entry).checkpoint == 1
    assert not answers
