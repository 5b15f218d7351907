"""The batch that `holdfast rescale` adds is of the timeline that it continues: the sink publishes it, and no start
takes it for a batch that another run has made anew."""

from __future__ import annotations

import shutil
from contextlib import nullcontext

import pytest

from holdfast.cli.main import main
from holdfast.identifiers import BatchId
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.journal import read_entries
from holdfast.repository.state import JobState
from holdfast.runtime.commands.copying import JobHome
from holdfast.runtime.commands.rescaling import examine, rescale
from holdfast.runtime.run.environment import Environment
from holdfast.storage.local import LocalStore
from holdfast.workdir.factory import work_directory
from holdfast.workdir.interface import WorkDirectory
from tests.trust.jobs_with_sinks import Job
from tests.trust.jobs_with_sinks import job as job
from tests.trust.test_published_batches import BATCH, CHECKPOINT, started
from tests.unit.churning_runs import JOB, PARTITIONS, state_of


def rescaled(job: Job) -> CheckpointCompleted:
    """As the command does it, with a repartitioning that needs no Spark."""
    store = LocalStore(job.home).scoped(JOB)
    target = JobHome(JOB, f"file://{job.home}", store)
    scratch = work_directory(job.root / "scratch")
    shutil.rmtree(job.root / "scratch", ignore_errors=True)
    end = examine(target, JobState.of(read_entries(store)))
    return rescale(
        target, end, 7, scratch, _one_more_batch, lambda title, size: nullcontext(_nothing), Environment.real()
    )


def _nothing(count: int) -> None: ...


def _one_more_batch(directory: WorkDirectory, barrier: BatchId) -> int:
    for log in ("offsets", "commits"):
        directory.write_atomic(f"{log}/{barrier + 1}", directory.read(f"{log}/{barrier}"))
    for partition in range(PARTITIONS):
        directory.write_atomic(f"state/0/{partition}/{barrier + 2}.snapshot", b"all of it")
    return 5


@pytest.mark.parametrize("disk", ["the same disk", "an empty disk"])
@pytest.mark.parametrize("publish", ["batch", "checkpoint"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_run_that_is_killed_before_its_first_checkpoint_is_followed_by_another(
    job: Job, publish: str, disk: str, times: int
) -> None:
    how = BATCH if publish == "batch" else CHECKPOINT
    first = started(job, **how)
    first.batches(3)
    first.stop()
    for _ in range(times):
        entry = rescaled(job)
    assert entry.barrier_batch_id == 2 + times
    killed = started(job, **how)
    assert job.published == 2 + times, "what it added is published"
    killed.batches(1)
    if disk == "an empty disk":
        job.wipe_work()
    again = started(job, **how)
    again.batches(2)
    again.stop()
    assert state_of(job.home).abandoned == set()
    rows = job.rows()
    assert len(rows) == len(set(rows))
    assert {0, 1, 10, 11, 20, 21} <= set(rows)
    assert not {n for n in rows if n // 10 in range(3, 3 + times)}, "nothing under the ids that it took"


@pytest.mark.parametrize("publish", ["batch", "checkpoint"])
def test_the_way_back_from_it_is_open(job: Job, publish: str) -> None:
    """`holdfast rollback` to the checkpoint that it was made of, as its answer says."""
    how = (BATCH if publish == "batch" else CHECKPOINT) | {"retained": 5}
    first = started(job, **how)
    first.batches(3)
    first.stop()
    rescaled(job)
    second = started(job, **how)
    second.batches(2)
    second.stop()
    assert main(["rollback", f"{JOB}@1", "--home", f"file://{job.home}"]) == 0
    back = started(job, **how)
    back.batches(3)
    back.stop()
    job.require_rows(6)
