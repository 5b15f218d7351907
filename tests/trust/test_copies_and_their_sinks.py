"""R7 for copies of a job: a copy reads what its source reads, so both at one place would write the same rows."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from holdfast.cli.main import main
from holdfast.errors import Conflict, Fenced
from holdfast.identifiers import BatchId, JobName
from tests.trust import delta_sink, files_sink
from tests.trust.files_sink import context
from tests.trust.jobs_with_sinks import Job, dying_at
from tests.trust.jobs_with_sinks import job as job

COPIED = 1_000_000
"""Runs of a copy have higher numbers than those of its source."""
KINDS = pytest.mark.parametrize("kind", [delta_sink, files_sink], ids=["delta", "files"])


@KINDS
def test_a_copy_under_another_name_is_refused_where_its_source_writes(kind: ModuleType, tmp_path: Path) -> None:
    kind.published(tmp_path, 0, 1)
    with pytest.raises(Conflict, match=r"output of job 'orders', and one of the two is a copy of the other") as caught:
        kind.opened(tmp_path, context(COPIED, job="orders-2"))
    assert "--accept-sink" in str(caught.value)
    assert kind.rows(tmp_path) == kind.expected(0, 1)


@KINDS
def test_a_job_that_was_renamed_by_a_copy_goes_on_and_the_old_name_does_not(kind: ModuleType, tmp_path: Path) -> None:
    kind.published(tmp_path, 0)
    renamed = kind.opened(tmp_path, context(COPIED, job="orders-2", accept=True))
    renamed.publish(BatchId(1), kind.staged(renamed, COPIED, 1))
    kind.opened(tmp_path, context(COPIED + 1, job="orders-2"))
    with pytest.raises(Conflict, match="output of job 'orders-2'"):
        kind.opened(tmp_path, context(2))
    assert kind.rows(tmp_path) == kind.expected(0, 1)


@KINDS
def test_the_old_name_that_still_runs_publishes_no_more_once_the_new_one_is_accepted(
    kind: ModuleType, tmp_path: Path
) -> None:
    """Before, it went on until its next start: the rows of both were there."""
    running = kind.published(tmp_path, 0)
    renamed = kind.opened(tmp_path, context(COPIED, job="orders-2", accept=True))
    with pytest.raises(Fenced, match="job 'orders-2' has opened it since"):
        running.publish(BatchId(1), kind.staged(running, 1, 1))
    renamed.publish(BatchId(1), kind.staged(renamed, COPIED, 1))
    assert kind.rows(tmp_path) == kind.expected(0, 1)
    kind.opened(tmp_path, context(2, accept=True))
    with pytest.raises(Fenced, match="job 'orders' has opened it since"):
        renamed.publish(BatchId(2), kind.staged(renamed, COPIED, 2))


@KINDS
def test_two_jobs_that_have_nothing_to_do_with_each_other_share_a_place(kind: ModuleType, tmp_path: Path) -> None:
    kind.published(tmp_path, 0)
    other = context(COPIED, "home-2", job="clicks")
    kind.published(tmp_path, 0, who=other)
    kind.opened(tmp_path, context(2))
    assert kind.rows(tmp_path) == sorted(2 * kind.expected(0))


def copied(source: Job, name: str) -> Job:
    target = Job(source.root / "copy", source.kind)
    homes = [f"file://{each.home}" for each in (source, target)]
    assert main(["copy", "--home", homes[0], "--job", "churn", "--to", homes[1], "--as", name, "--all"]) == 0
    target.source = source.source
    return target


def test_a_copy_that_takes_the_job_over_finds_its_sink_or_is_refused(job: Job) -> None:
    """An empty place is a mount that is away: the output would begin behind the checkpoint."""
    job.lived(3)
    copy = copied(job, "churn")
    with pytest.raises(Conflict, match="holds no output of it"):
        copy.lived(2)
    assert not copy.place.exists()
    copy.lived(2, accept_sink=True)
    assert copy.rows() == delta_sink.expected(3, 4)


def test_a_copy_under_a_name_of_its_own_begins_a_sink_of_its_own(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.lived(3)
    copy = copied(job, "trial")
    monkeypatch.setattr("tests.unit.churning_runs.JOB", JobName("trial"))
    copy.lived(2)
    assert copy.rows() == delta_sink.expected(3, 4)


def test_a_renamed_job_does_not_go_back_behind_what_stands_there_under_its_old_name(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.lived(3)
    job.lived(2)
    copy = copied(job, "trial")
    copy.place = job.place
    monkeypatch.setattr("tests.unit.churning_runs.JOB", JobName("trial"))
    with pytest.raises(Conflict, match="shows batches up to 4 of this job under another name"):
        copy.lived(1, from_checkpoint=1, accept_sink=True)
    copy.lived(1, accept_sink=True)
    copy.lived(1)
    with pytest.raises(Conflict, match="under another name"):
        copy.lived(1, from_checkpoint=1)
    copy.require_rows(7)


def test_a_job_is_not_renamed_before_its_output_is_published(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.lived(3)
    with pytest.raises(KeyboardInterrupt):
        job.lived(2, step=dying_at("publish: planned" if job.kind == "delta" else "publish: written down"))
    copy = copied(job, "trial")
    copy.place = job.place
    with monkeypatch.context() as renamed:
        renamed.setattr("tests.unit.churning_runs.JOB", JobName("trial"))
        with pytest.raises(Conflict, match="would be missing, as only that name can publish what it staged"):
            copy.lived(1, accept_sink=True)
    job.lived(1)
    job.require_rows(len(job.rows()) // 2)
