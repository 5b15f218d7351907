"""What `holdfast rollback` has answered with exit code 0 is what the next start does, whatever happens in between: else
a sound checkpoint would be given up later, by a start of which nobody asked that."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.cli import rollback as command
from holdfast.cli.main import main
from holdfast.cli.owning import owning
from holdfast.errors import InvalidSettings
from holdfast.identifiers import CheckpointId
from holdfast.repository.journal import Journal
from holdfast.repository.retention import entries_to_drop
from tests.trust.jobs_with_sinks import Job
from tests.trust.jobs_with_sinks import job as job
from tests.trust.test_rollback_is_taken_back import followed, rolled_back
from tests.unit.churning_runs import JOB, state_of


def usable(job: Job) -> list[CheckpointId]:
    return [entry.id for entry in reversed(state_of(job.home).restorable())]


def went_back(job: Job) -> list[str]:
    return [entry.asked for _, entry in state_of(job.home).sequences if entry.__class__.__name__ == "WentBack"]


@pytest.mark.parametrize("job", ["files"], indirect=True)
def test_an_option_that_stays_in_a_unit_file_does_not_stand_in_the_way(job: Job) -> None:
    unit = {"from_checkpoint": 1}
    job.lived(3)
    job.lived(1, **unit)
    job.lived(2, **unit)
    to = usable(job)[1]
    rolled_back(job, to)
    job.lived(1, **unit)
    assert state_of(job.home).rollback is None
    assert len(went_back(job)) == 2, "once for the option, once for the rollback"
    kept = usable(job)
    job.lived(1, **unit)
    job.lived(1)
    assert len(went_back(job)) == 2, "neither is done again"
    assert usable(job)[: len(kept)] == kept
    job.require_rows(5)


@pytest.mark.parametrize("job", ["delta"], indirect=True)
def test_where_it_is_refused_beside_such_an_option_the_hint_says_how_it_is_taken_back(job: Job) -> None:
    unit = {"from_checkpoint": 1}
    job.lived(3)
    job.lived(5, **unit)
    job.rewritten_by_others()
    rolled_back(job, usable(job)[1])
    with pytest.raises(InvalidSettings, match="cannot be rewound") as refused:
        job.run(**unit)
    followed(job, refused.value)
    job.lived(1, **unit)
    job.require_rows(7)


@pytest.mark.parametrize("job", ["files"], indirect=True)
def test_a_fold_does_not_forget_that_the_option_was_done(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.lived(3)
    job.lived(2, from_checkpoint=1)
    rolled_back(job, usable(job)[1])
    job.lived(1)
    monkeypatch.setattr("holdfast.repository.retention.HISTORY_KEPT", 1)
    state = state_of(job.home)
    folded = state.without(entries_to_drop(state, ()))
    assert folded.went_back_for_a_start == state.went_back_for_a_start is not None


@pytest.mark.parametrize("job", ["files"], indirect=True)
def test_no_collection_retires_the_checkpoint_meanwhile(job: Job) -> None:
    job.lived(4)
    rolled_back(job, 2)
    assert main(["collect", JOB, "--retained", "1", "--home", f"file://{job.home}"]) == 0
    job.lived(1)
    assert went_back(job) != []
    job.require_rows(3)
    rolled_back(job, 2)
    assert main(["rollback", JOB, "--cancel", "--home", f"file://{job.home}"]) == 0
    assert main(["collect", JOB, "--retained", "1", "--home", f"file://{job.home}"]) == 0
    assert CheckpointId(2) not in usable(job), "nobody wants it any more"


@pytest.mark.parametrize("job", ["files"], indirect=True)
def test_it_says_what_it_abandons_also_when_a_run_came_in_between(
    job: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job.lived(3)

    @contextmanager
    def after_a_run(*given: str, **named: str) -> Iterator[Journal]:
        job.lived(2)
        with owning(*given, **named) as journal:  # type: ignore[arg-type]
            yield journal

    monkeypatch.setattr(command, "owning", after_a_run)
    rolled_back(job, 2)
    newest = usable(job)[-1]
    assert newest > 3
    assert f"{newest} for good" in capsys.readouterr().out


@pytest.mark.parametrize("job", ["files"], indirect=True)
def test_a_copy_that_brings_what_the_source_did_does_not_carry_it_out(job: Job) -> None:
    home, copy = job.home, job.root / "copy"
    copy.mkdir()
    copying = ["copy", JOB, "--all", "--home", f"file://{home}", "--to", f"file://{copy}"]
    job.lived(4)
    assert main(copying) == 0
    job.home = copy
    rolled_back(job, 2)
    job.home = home
    job.lived(2, from_checkpoint=3)
    assert main(copying) == 0
    job.home, job.work = copy, job.root / "work of the copy"
    job.lived(1)
    assert went_back(job)[-1].startswith("rollback ")
    job.require_rows(3)
