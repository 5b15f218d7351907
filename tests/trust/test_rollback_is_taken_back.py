"""R5: a hint is tested by following it. A start that is refused because `holdfast rollback` asked to go back would be
refused again and again: without an option of its own there is nothing that the user could leave out."""

import re
from datetime import UTC, datetime

import pytest

from holdfast.cli.main import main
from holdfast.errors import Corrupt, HoldfastError, InvalidSettings
from holdfast.identifiers import AttemptId, CheckpointId
from holdfast.repository.damage import mark_corrupt
from holdfast.repository.going_back import Wanted, naming_the_request
from holdfast.repository.journal import Journal
from holdfast.repository.state import JobState
from holdfast.storage.local import LocalStore
from tests.trust.jobs_with_sinks import Job
from tests.trust.jobs_with_sinks import job as job
from tests.unit.churning_runs import JOB, state_of
from tests.unit.test_copying import claimed


def rolled_back(job: Job, to: int) -> None:
    assert main(["rollback", JOB, "--to", str(to), "--home", f"file://{job.home}"]) == 0


def followed(job: Job, refused: HoldfastError) -> None:
    command = re.search(r"holdfast (rollback \S+ --cancel)$", refused.hint or "")
    assert command is not None, refused.hint
    assert main([*command[1].split(), "--home", f"file://{job.home}"]) == 0


@pytest.mark.parametrize("job", ["delta"], indirect=True)
def test_a_sink_that_cannot_take_rows_back(job: Job) -> None:
    job.lived(6)
    job.rewritten_by_others()
    rolled_back(job, 2)
    with pytest.raises(InvalidSettings, match="cannot be rewound") as refused:
        job.run()
    followed(job, refused.value)
    job.lived(1)
    job.require_rows(7)


@pytest.mark.parametrize("job", ["files"], indirect=True)
def test_a_checkpoint_that_was_found_damaged_since(job: Job) -> None:
    job.lived(4)
    rolled_back(job, 2)
    with_damage(job, 2)
    with pytest.raises(Corrupt, match="checkpoint 2: it is damaged") as refused:
        job.run()
    followed(job, refused.value)
    job.lived(1)
    job.require_rows(5)


def with_damage(job: Job, id: int) -> None:
    store = LocalStore(job.home).scoped(JOB)
    journal = Journal(store, new_attempt=lambda: AttemptId("verify"), now=lambda: datetime.now(UTC))
    journal.load()
    lineage = journal.state.lineage or ""
    journal.claim(lambda stamp: claimed(stamp, lineage=lineage, purpose="maintenance"))
    mark_corrupt(journal, CheckpointId(id), "flipped", passed_over=False)


def test_a_start_that_does_not_go_back_is_told_nothing_of_it(job: Job) -> None:
    job.lived(2)
    assert refusal(job, Wanted(), "as before").hint == "as before"


def test_an_option_that_has_its_effect_behind_it_is_not_to_blame(job: Job) -> None:
    job.lived(3)
    job.run(from_checkpoint=1).stop()
    assert refusal(job, Wanted(checkpoint=1), "as before").hint == "as before"


def test_a_start_that_names_its_own_point_does_not_speak_of_the_rollback(job: Job) -> None:
    job.lived(2)
    rolled_back(job, 1)
    assert "rollback" not in (refusal(job, Wanted(checkpoint=1), "as before").hint or "")


@pytest.mark.parametrize(
    ("wanted", "option"),
    [(Wanted(checkpoint=1), "--from-checkpoint 1"), (Wanted(savepoint="before"), "--from-savepoint before")],
)
def test_a_start_that_goes_back_by_an_option_is_told_to_leave_it_out(job: Job, wanted: Wanted, option: str) -> None:
    job.lived(2)
    refused = refusal(job, wanted, "as before")
    assert (refused.hint or "").endswith(f"To resume where the job was: start it without {option}")


def refusal(job: Job, wanted: Wanted, hint: str) -> HoldfastError:
    def state() -> JobState:
        return state_of(job.home)

    with pytest.raises(InvalidSettings) as refused, naming_the_request(JOB, state, wanted):
        raise InvalidSettings("another reason", hint=hint)
    return refused.value
