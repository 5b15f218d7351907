"""`publish="batch"` that is given or left out at the next start: readers see each row once, or the start is refused."""

from __future__ import annotations

import shutil

import pytest

from holdfast.cli.main import main
from holdfast.errors import Conflict
from holdfast.identifiers import BatchId
from holdfast.runtime.ports import RunDirectory, Supervisor
from holdfast.sinks import Delta, Files
from tests.trust.files_sink import columns
from tests.trust.jobs_with_sinks import Job, SinkQuery
from tests.trust.jobs_with_sinks import job as job
from tests.unit.churning_runs import JOB, ChurningRun, state_of

BATCH = {"publish": "batch", "interval": "1h"}
CHECKPOINT = {"publish": "checkpoint", "interval": "1h"}
"""Only a stop takes a checkpoint."""


class PlannedQuery(SinkQuery):
    """As Spark with the class that holds back what a batch is to read until that is durable."""

    def start(self, directory: RunDirectory, supervisor: Supervisor) -> None:
        super().start(directory, supervisor)
        self._keep = supervisor.keep_plan

    def commits_told(self) -> int | None:
        return None

    def plans_refusal(self) -> str | None:
        return None

    def batch(self) -> None:
        batch = self.next_batch
        self.list_input(batch)
        if self._keep is not None and not (self.directory / "offsets" / str(batch)).exists():
            self._keep(BatchId(batch), self.offsets_of(batch), lambda: False)
        super().batch()


def started(job: Job, **settings: object) -> ChurningRun:
    job.number += 1
    sink = Delta(job.place) if job.kind == "delta" else Files(job.place)
    query = PlannedQuery(job.number, sink, job.source, columns())
    return ChurningRun(job.home, job.work, job.clock, job.number, query=query, **settings)


@pytest.mark.parametrize("disk", ["the same disk", "an empty disk"])
@pytest.mark.parametrize("before", ["no checkpoint", "a checkpoint"])
def test_batches_that_readers_have_seen_are_not_left_to_a_start_that_would_cut_them_anew(
    job: Job, disk: str, before: str
) -> None:
    if before == "a checkpoint":
        first = started(job, **BATCH)
        first.batches(2)
        first.stop()
    killed = started(job, **BATCH)
    killed.batches(3)
    seen = 5 if before == "a checkpoint" else 3
    job.require_rows(seen)
    if disk == "an empty disk":
        job.wipe_work()
    head = state_of(job.home).head
    with pytest.raises(
        Conflict, match=f"it has {before}.*shows batches up to {seen - 1}, which were published"
    ) as refused:
        started(job, **CHECKPOINT)
    assert "--publish batch" in (refused.value.hint or "")
    assert state_of(job.home).head == head, "nothing was claimed"
    job.require_rows(seen)
    again = started(job, **BATCH)
    job.require_rows(seen)
    again.batches(2)
    job.require_rows(seen + 2)


def test_a_copy_takes_over_what_readers_have_seen_when_its_source_is_lost(job: Job) -> None:
    """R9. It has the plans of those batches, and was refused as older than its sink: it did not know what they are."""
    first = started(job, **BATCH)
    first.batches(2)
    first.stop()
    killed = started(job, **BATCH)
    killed.batches(3)
    job.require_rows(5)
    for to in (job.root / "copy", job.root / "copy-of-it"):
        to.mkdir()
        assert main(["copy", "--home", f"file://{job.home}", "--job", JOB, "--to", f"file://{to}", "--all"]) == 0
        shutil.rmtree(job.home)
        job.home = to
    job.wipe_work()
    taken_over = started(job, **BATCH)
    job.require_rows(5)
    taken_over.batches(2)
    job.require_rows(7)


@pytest.mark.parametrize("disk", ["the same disk", "an empty disk"])
def test_after_a_clean_stop_it_may_be_left_out_and_readers_then_wait_for_the_checkpoint(job: Job, disk: str) -> None:
    shown = started(job, **BATCH)
    shown.batches(3)
    shown.stop()
    if disk == "an empty disk":
        job.wipe_work()
    waiting = started(job, **CHECKPOINT)
    waiting.batches(2)
    job.require_rows(3)
    waiting.stop()
    job.require_rows(5)


@pytest.mark.parametrize("disk", ["the same disk", "an empty disk"])
def test_it_may_be_given_to_a_job_that_was_killed_without_it(job: Job, disk: str) -> None:
    first = started(job, **CHECKPOINT)
    first.batches(2)
    first.stop()
    killed = started(job, **CHECKPOINT)
    killed.batches(2)
    job.require_rows(2)
    if disk == "an empty disk":
        job.wipe_work()
    shown = started(job, **BATCH)
    shown.wait(1.0)
    job.require_rows(4 if disk == "the same disk" else 2)
    shown.batches(3)
    job.require_rows(7 if disk == "the same disk" else 5)
    shown.stop()


@pytest.mark.parametrize("disk", ["the same disk", "an empty disk"])
@pytest.mark.parametrize(("when", "batches"), [("while it is down", 3), ("while it runs", 5)])
def test_a_place_that_was_emptied_before_the_first_checkpoint_is_filled_again(
    job: Job, disk: str, when: str, batches: int
) -> None:
    """Nothing was ever published again: what the batches in the directory had written was gone."""
    killed = started(job, **BATCH)
    killed.batches(3)
    job.require_rows(3)
    shutil.rmtree(job.place)
    if when == "while it runs":
        killed.batches(2)
    if disk == "an empty disk":
        job.wipe_work()
    again = started(job, **BATCH)
    again.batches(2)
    again.wait(1.0)
    job.require_rows(batches + 1)  # the last one that was planned ran as the first of the two
