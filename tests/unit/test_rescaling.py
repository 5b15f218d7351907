"""Rescaling a stopped job: what is refused, and what interrupts it. Spark itself: tests/spark/test_rescale.py."""

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import Conflict, Corrupt, HoldfastError, InvalidSettings, OwnedByAnotherRun
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch, JobName
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import (
    CheckpointCompleted,
    CheckpointCorrupt,
    Process,
    RollbackRequested,
    RunEnded,
    WentBack,
)
from holdfast.repository.journal import read_entries
from holdfast.repository.lines import line_folder, plan_key
from holdfast.repository.ownership import current_process
from holdfast.repository.self_report import SelfReport
from holdfast.repository.state import JobState
from holdfast.repository.verification import verify
from holdfast.runtime.commands.copying import JobHome
from holdfast.runtime.commands.rescaling import examine, rescale
from holdfast.runtime.job_folder import JobFolder
from holdfast.runtime.recovery.recovery import Known, Recovery, foreseen
from holdfast.runtime.run.environment import Environment
from holdfast.runtime.work_marker import WorkMarker
from holdfast.sinks import ledger
from holdfast.storage.local import LocalStore
from holdfast.workdir.factory import work_directory
from holdfast.workdir.interface import WorkDirectory
from tests.unit.job_histories import ELSEWHERE, History, complete_with_bytes
from tests.unit.work_files import write

LOGS = b'v1\n{"batchWatermarkMs":0,"conf":{}}\n0'
STEPS = ("restored", "repartitioned", "claimed", "begun", "copied")


class Stopped:
    """A job with a checkpoint at batch 12, whose last run has ended."""

    def __init__(self, root: Path, sink: str = "delta:/out", process: Process = ELSEWHERE) -> None:
        self.root = root
        self.history = History(root / "home")
        self.epoch = self.history.run(process, work=str(root / "work" / "orders"), sink=sink)
        self.made = root / "made"
        write(self.made, {"metadata": b'{"id":"1"}'})
        for batch in (11, 12):
            write(self.made, {f"offsets/{batch}": LOGS, f"commits/{batch}": b"v1\n{}"})
        complete_with_bytes(self.history, 1, self.made, Blobs(self.history.store, self.epoch))

    def ended(self, **fields: Any) -> "Stopped":
        self.append(RunEnded, reason="stopped", **fields)
        return self

    def append(self, kind: Any, **fields: Any) -> None:
        self.history.journal.append(lambda stamp: kind(**stamp, **fields))

    @property
    def target(self) -> JobHome:
        return JobHome(JobName("orders"), f"file://{self.history.home}", self.history.store)

    def state(self) -> JobState:
        return JobState.of(read_entries(self.history.store))

    def examine(self) -> Any:
        return examine(self.target, self.state())

    def rescale(self, step: Callable[[str], None] = lambda step: None) -> CheckpointCompleted:
        scratch = work_directory(self.root / "scratch" / "state")
        shutil.rmtree(self.root / "scratch", ignore_errors=True)
        around = replace(Environment.real(step))
        end = self.examine()
        return rescale(self.target, end, 7, scratch, _one_more_batch, lambda title, size: nullcontext(_nothing), around)


def _nothing(count: int) -> None: ...


def _one_more_batch(directory: WorkDirectory, barrier: BatchId) -> int:
    """As Spark's repartitioning of a query."""
    for log in ("offsets", "commits"):
        directory.write_atomic(f"{log}/{barrier + 1}", directory.read(f"{log}/{barrier}"))
    return 5


class Killed(BaseException):
    pass


def test_the_copy_becomes_the_newest_checkpoint_with_a_batch_that_the_sink_need_not_look_for(tmp_path: Path) -> None:
    job = Stopped(tmp_path).ended()
    entry = job.rescale()
    newest = job.state().newest_of_the_line()
    assert newest == entry
    assert (entry.id, entry.barrier_batch_id) == (2, 13)
    assert entry.rescaled is not None
    assert msgspec.to_builtins(entry.rescaled) == {"checkpoint": 1, "before": 0, "after": 7, "state_rows": 5}
    known = Known(job.history.store, job.history.journal)
    job.history.journal.load()
    assert [(batch.batch_id, batch.files) for batch in known.ledger_of(entry.id)] == [(13, ())]
    assert verify(job.history.store, entry.id, entry.manifest).sound


def test_the_sink_knows_the_run_that_made_the_batches(tmp_path: Path) -> None:
    job = Stopped(tmp_path).ended()
    made_by = Known(job.history.store, job.history.journal).manifest(CheckpointId(1)).fencing_epoch
    job.rescale()
    job.history.journal.load()
    point = foreseen(job.state(), None)
    assert point is not None
    assert Known(job.history.store, job.history.journal).made_by(point) == made_by


def test_an_own_writer_gets_no_ledger_and_keeps_what_its_sink_reported(tmp_path: Path) -> None:
    job = Stopped(tmp_path, sink="").ended(planned=12, writer_has=11)
    entry = job.rescale()
    assert entry.writer_has == 11
    assert not (tmp_path / "scratch" / "state" / ledger.FOLDER).exists()


@pytest.mark.parametrize("sound", [True, False])
def test_no_directory_of_an_earlier_run_is_resumed_even_if_it_has_more(tmp_path: Path, sound: bool) -> None:
    """It may be on a host that `rescale` cannot see: the run ended without a last checkpoint there."""
    job = Stopped(tmp_path, process=ELSEWHERE).ended(failed=True)
    left = tmp_path / "work" / "orders" / f"{job.epoch}-1"
    shutil.copytree(job.made, left)
    if sound:
        for batch in (13, 14):
            write(left, {f"offsets/{batch}": LOGS, f"commits/{batch}": b"v1\n{}"})
    rescaled = job.rescale()
    job.history.journal.load()
    job.history.run()
    folder = JobFolder(
        work_directory(tmp_path / "work"), WorkMarker(job=JobName("orders"), home=job.target.home, lineage="lineage")
    )
    resumed = Recovery(job.history.store, job.history.journal, folder).resume(local=True)
    assert (resumed.checkpoint, resumed.barrier) == (rescaled.id, 13)


def _no_end(job: Stopped) -> None:
    """Nothing: the run has not recorded its end."""


def _planned(job: Stopped) -> None:
    job.ended()
    job.history.store.create(plan_key(line_folder(job.state()), BatchId(13)), b"a plan")


def _rollback(job: Stopped) -> None:
    job.ended()
    job.append(RollbackRequested, chosen=CheckpointId(1))


def _went_back(job: Stopped) -> None:
    job.append(WentBack, chosen=CheckpointId(1), abandoned=(), asked="checkpoint 1")
    job.ended()


def _damaged(job: Stopped) -> None:
    job.ended()
    job.append(CheckpointCorrupt, id=CheckpointId(1), detail="a blob is gone", passed_over=False)


def _reported(job: Stopped) -> None:
    job.history.beat(report=SelfReport(batch=BatchId(13)))
    job.ended()


def _ahead(job: Stopped) -> None:
    """The home was put back from a backup; the heartbeat is of later."""
    job.ended()
    entries = sorted(path for path in job.history.home.rglob("journal/*"))
    job.history.run()
    job.history.beat()
    for later in set(job.history.home.rglob("journal/*")) - {*entries}:
        later.unlink()


REFUSALS = {
    "no end": (_no_end, Conflict, "has not recorded its end"),
    "a plan": (_planned, Conflict, "the home has a plan of batch 13"),
    "a rollback": (_rollback, Conflict, "is to go back to checkpoint 1"),
    "a line without a checkpoint": (_went_back, Conflict, "went back to checkpoint 1, and has no checkpoint since"),
    "damage": (_damaged, Corrupt, "is damaged: a blob is gone"),
    "a report of a later batch": (_reported, Conflict, "has reported batch 13"),
    "an older home": (_ahead, Conflict, "the home is older than the heartbeat"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_job_whose_newest_checkpoint_is_not_its_end_is_refused(tmp_path: Path, name: str) -> None:
    prepare, kind, why = REFUSALS[name]
    job = Stopped(tmp_path)
    prepare(job)
    before = job.state().head
    with pytest.raises(kind, match=why):
        job.examine()
    assert job.state().head == before


@pytest.mark.parametrize("planned", [13, None])
def test_an_own_writer_that_may_have_more_is_refused(tmp_path: Path, planned: int | None) -> None:
    job = Stopped(tmp_path, sink="").ended(planned=planned)
    with pytest.raises(Conflict, match="its own writer may have batches") as refused:
        job.examine()
    assert "stop it cleanly first" in str(refused.value)


def test_a_work_directory_here_with_later_batches_is_refused(tmp_path: Path) -> None:
    job = Stopped(tmp_path, process=current_process()).ended()
    left = tmp_path / "work" / "orders" / f"{job.epoch}-1"
    write(left, {"commits/13": b"v1\n{}"})
    with pytest.raises(Conflict, match="has batch 13"):
        job.examine()


def test_sparks_file_sink_is_refused(tmp_path: Path) -> None:
    job = Stopped(tmp_path, sink="").ended(planned=12, needs_every_batch=True)
    with pytest.raises(InvalidSettings, match="needs an entry of every batch"):
        job.examine()


@pytest.mark.parametrize("step", STEPS)
def test_killed_between_any_two_steps_it_leaves_the_job_as_it_was(tmp_path: Path, step: str) -> None:
    job = Stopped(tmp_path).ended()

    def kill(taken: str) -> None:
        if taken == step:
            raise Killed

    with pytest.raises(Killed):
        job.rescale(kill)
    state = job.state()
    assert [entry.id for entry in state.restorable()] == [1]
    assert foreseen(state, None) == foreseen_of(1, 12)
    assert job.rescale().rescaled is not None


def foreseen_of(id: int, barrier: int) -> Any:
    from holdfast.runtime.recovery.recovery import Point

    return Point(barrier=BatchId(barrier), durable=BatchId(barrier), durable_id=CheckpointId(id))


@pytest.mark.parametrize("step", STEPS[:2])
def test_a_run_that_came_in_between_keeps_the_job(tmp_path: Path, step: str) -> None:
    job = Stopped(tmp_path).ended()

    def run(taken: str) -> None:
        if taken == step:
            job.history.journal.load()
            job.history.run(sink="delta:/out")
            job.ended()

    with pytest.raises(OwnedByAnotherRun, match="it has gone on since"):
        job.rescale(run)
    assert [entry.id for entry in job.state().restorable()] == [1]


@pytest.mark.parametrize("step", STEPS)
def test_a_run_that_takes_the_job_fences_it(tmp_path: Path, step: str) -> None:
    job = Stopped(tmp_path).ended()

    def claim(taken: str) -> None:
        if taken == step:
            job.history.journal.load()
            job.history.run(sink="delta:/out")
            job.history.beat()

    with pytest.raises(HoldfastError):
        job.rescale(claim)
    assert [entry.id for entry in job.state().restorable()] == [1]


@pytest.mark.parametrize("step", STEPS)
def test_another_home_in_its_place_gets_no_checkpoint(tmp_path: Path, step: str) -> None:
    """The disk was unmounted, and below it lies the same job as it was."""
    job = Stopped(tmp_path).ended()
    below = tmp_path / "below"
    shutil.copytree(job.history.home, below)

    def swap(taken: str) -> None:
        if taken == step and below.exists():
            shutil.rmtree(job.history.home)
            below.rename(job.history.home)

    with pytest.raises(HoldfastError):
        job.rescale(swap)
    there = JobState.of(read_entries(LocalStore(job.history.home).scoped("orders")))
    assert [entry.id for entry in there.restorable()] == [1]


def test_an_emptied_home_gets_nothing(tmp_path: Path) -> None:
    job = Stopped(tmp_path).ended()
    with pytest.raises(HoldfastError):
        job.rescale(lambda taken: shutil.rmtree(job.history.home) if taken == "repartitioned" else None)
    assert not list((tmp_path / "home").rglob("manifests/*"))


def test_wrong_bytes_in_the_home_are_refused(tmp_path: Path) -> None:
    job = Stopped(tmp_path).ended()
    for stored in [*job.history.home.rglob("blobs/*/*"), *job.history.home.rglob("packs/*")]:
        stored.write_bytes(bytes(len(stored.read_bytes())))
    before = job.state().head
    with pytest.raises(Corrupt):
        job.rescale()
    assert job.state().head == before


def test_a_second_time_it_may_be_rescaled_again(tmp_path: Path) -> None:
    job = Stopped(tmp_path).ended()
    job.rescale()
    assert job.rescale().barrier_batch_id == 14
    assert FencingEpoch(0) < job.state().fencing_epoch
