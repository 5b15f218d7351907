"""A checkpoint that was found damaged, and one that a recovery passed over: what each means for the next start."""

from pathlib import Path

import pytest

from holdfast.errors import Corrupt
from holdfast.identifiers import BatchId, CheckpointId, JobName
from holdfast.repository.blobs import Blobs
from holdfast.repository.damage import mark_corrupt, mark_repaired
from holdfast.repository.state import JobState
from holdfast.runtime.job_folder import JobFolder
from holdfast.runtime.recovery.recovery import Recovery
from holdfast.runtime.work_marker import WorkMarker
from holdfast.workdir.factory import work_directory
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.test_cli_restore_verify import flip_one_byte
from tests.unit.work_files import MIB, write

OFFSETS = b"v1\n{}"
WORK = {"metadata": b'{"id":"x"}', "offsets/12": OFFSETS, "commits/12": b"v1\n{}", "offsets/11": OFFSETS}


class Job:
    """Two checkpoints at batch 12, the second with a blob of its own, and the directory that their run left."""

    def __init__(self, tmp_path: Path) -> None:
        self.history = History(tmp_path / "home")
        self.workplace = JobFolder(
            work_directory(tmp_path / "work"), WorkMarker(job=JobName("orders"), home="file:///home", lineage="lineage")
        )
        self.epoch = self.history.run()
        self.directory = tmp_path / "work" / "orders" / f"{self.epoch}-1"
        blobs = Blobs(self.history.store, self.epoch)
        write(self.directory, WORK)
        complete_with_bytes(self.history, 1, self.directory, blobs)
        write(self.directory, {"commits/13": b"v1\n{}", "offsets/13": OFFSETS, "sources/0/0": b"x" * MIB})
        complete_with_bytes(self.history, 2, self.directory, blobs)
        (self.blob,) = (tmp_path / "home/orders/blobs").rglob("*.*")

    def mark(self, id: int, *, passed_over: bool) -> None:
        mark_corrupt(self.history.journal, CheckpointId(id), "wrong", passed_over=passed_over)

    def next_run(self) -> Recovery:
        self.history.run()
        return Recovery(self.history.store, self.history.journal, self.workplace)

    @property
    def state(self) -> JobState:
        return self.history.state()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_damage_in_the_home_does_not_cost_the_good_directory(job: Job) -> None:
    job.mark(2, passed_over=False)
    resumed = job.next_run().resume(local=True)
    assert (resumed.checkpoint, resumed.barrier) == (None, 13)
    assert resumed.durable == 12, "what the damaged one made visible stays visible"
    assert resumed.durable_id is None, "its barrier needs another checkpoint"
    assert job.state.passed_over == frozenset()


def test_a_directory_of_a_line_that_was_passed_over_is_not_used(job: Job) -> None:
    job.mark(2, passed_over=True)
    resumed = job.next_run().resume(local=True)
    assert resumed.checkpoint == 1


def test_resuming_at_an_older_one_abandons_what_was_only_found_damaged(job: Job) -> None:
    job.mark(2, passed_over=False)
    recovery = job.next_run()
    resumed = recovery.resume(local=False)
    assert resumed.checkpoint == 1
    assert job.state.passed_over == frozenset(), "others are asked first"
    recovery.record_abandonment(resumed, BatchId(12))
    assert job.state.passed_over == {2}
    assert job.state.corrupt[CheckpointId(2)].published == 12
    mark_repaired(job.history.journal, CheckpointId(2), "too late")
    assert [entry.id for entry in job.state.restorable()] == [1]


def test_damage_that_recovery_finds_itself_is_passed_over(job: Job) -> None:
    flip_one_byte(job.blob)
    recovery = job.next_run()
    resumed = recovery.resume(local=False)
    assert resumed.checkpoint == 1
    recovery.record_abandonment(resumed, None)
    assert job.state.passed_over == {2}


def test_when_nothing_verifies_nothing_is_abandoned_and_a_repair_can_still_help(job: Job, tmp_path: Path) -> None:
    flip_one_byte(job.blob)
    (pack,) = (path for path in (tmp_path / "home/orders/packs").iterdir() if b"{}" in path.read_bytes())
    flip_one_byte(pack)
    with pytest.raises(Corrupt, match="no checkpoint of this job verifies"):
        job.next_run().resume(local=False)
    assert set(job.state.corrupt) == {1, 2}
    assert job.state.passed_over == frozenset()
    flip_one_byte(job.blob)
    flip_one_byte(pack)
    mark_repaired(job.history.journal, CheckpointId(2), "right again")
    assert job.next_run().resume(local=False).checkpoint == 2


def test_marks_survive_the_reading_back_of_the_journal(job: Job) -> None:
    job.mark(1, passed_over=True)
    job.mark(1, passed_over=False)
    job.mark(2, passed_over=False)
    mark_repaired(job.history.journal, CheckpointId(2), "right again")
    loaded = History(job.history.home).journal.load()
    assert (set(loaded.corrupt), loaded.passed_over) == ({1}, {1})
