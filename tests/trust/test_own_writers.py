"""R8. No row is lost in silence: a restore that would make a writer of the user's own skip re-cut batches is refused.

What real writers of Spark say of themselves, and a job that is refused because of it: `tests/spark/test_own_writer.py`.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, JobName
from holdfast.repository.entries import Adopted, RunEnded
from holdfast.runtime.job_folder import RunFolder
from holdfast.runtime.own_writer import NONE_YET, Taken, may_have_more, require_no_skips
from holdfast.settings import Settings
from holdfast.workdir.barriers import has_planned, plan, planned_batches
from holdfast.workdir.factory import work_directory
from tests.unit.job_histories import History
from tests.unit.work_files import write

JOB = JobName("orders")
REFUSE = "refuse"


def file_sink(newest: int | None, planned: int) -> Taken:
    batch = None if newest is None else BatchId(newest)
    return Taken("Spark's file sink at /out", batch, known=True, always_skips=True, planned=BatchId(planned))


def unknown(planned: int) -> Taken:
    return Taken("the query's own writer (foreachBatch)", None, known=False, planned=BatchId(planned))


@pytest.mark.parametrize("repeats", ["refuse", "accept"])
def test_a_sink_that_has_more_than_will_be_repeated_is_told_what_it_would_skip(repeats: str) -> None:
    with pytest.raises(Conflict, match=r"has batch 14 already and skips batches 11 to 14") as caught:
        require_no_skips(JOB, file_sink(14, 10), repeats, may_have_more=True)  # type: ignore[arg-type]
    assert "work directory" in str(caught.value)
    assert "--repeats" not in str(caught.value), "nobody can say that this one does not skip"


@pytest.mark.parametrize(("newest", "planned"), [(10, 10), (9, 10), (None, 10), (None, NONE_YET), (11, 11)])
def test_a_sink_that_has_no_more_than_that_is_fine_however_the_run_before_ended(
    newest: int | None, planned: int
) -> None:
    require_no_skips(JOB, file_sink(newest, planned), REFUSE, may_have_more=True)


def test_a_query_that_begins_over_a_sink_that_has_batches_is_refused() -> None:
    with pytest.raises(Conflict, match="skips batches 0 to 20"):
        require_no_skips(JOB, file_sink(20, NONE_YET), REFUSE, may_have_more=False)


def test_a_writer_that_cannot_be_asked_is_refused_when_it_may_have_more_unless_told() -> None:
    require_no_skips(JOB, unknown(10), REFUSE, may_have_more=False)
    require_no_skips(JOB, unknown(10), "accept", may_have_more=True)
    with pytest.raises(Conflict, match="may have written later ones to the query's own writer") as caught:
        require_no_skips(JOB, unknown(10), REFUSE, may_have_more=True)
    assert "--repeats accept" in str(caught.value)
    assert "sink_position" in str(caught.value)


@pytest.mark.parametrize("taken", [file_sink(14, 10), unknown(10)])
def test_a_start_that_goes_back_is_not_sent_to_what_it_leaves(taken: Taken) -> None:
    with pytest.raises(Conflict, match="it goes back, so Spark plans batches from 11 on again") as caught:
        require_no_skips(JOB, taken, REFUSE, may_have_more=True, goes_back=True)
    assert "work directory" not in str(caught.value)
    assert "the plans" not in str(caught.value)


# --- what the journal knows ---


def ended(history: History, planned: int | None, *, never_ran: bool = False) -> None:
    batch = None if planned is None else BatchId(planned)
    history._append(RunEnded, reason="stopped", planned=batch, never_ran=never_ran)


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History(tmp_path / "home")
    history.run()
    return history


def more(history: History, planned: int, *, local: bool = False, repeats: bool = True) -> bool:
    history.run()
    return may_have_more(history.state(), BatchId(planned), local=local, repeats=repeats)


def test_the_first_run_finds_nothing(history: History) -> None:
    assert not may_have_more(history.state(), NONE_YET, local=False, repeats=True)


def test_a_run_that_died_may_have_written_more_unless_its_directory_is_here(history: History) -> None:
    history.complete(1, batch=10)
    assert more(history, 10)
    assert more(history, 10, local=False)


def test_its_own_directory_tells_all(history: History) -> None:
    history.complete(1, batch=10)
    assert not more(history, 11, local=True)


@pytest.mark.parametrize(("said", "expected"), [(10, False), (11, True), (None, True)])
def test_a_run_that_ended_says_how_far_it_was(history: History, said: int | None, expected: bool) -> None:
    history.complete(1, batch=10)
    ended(history, said)
    assert more(history, 10) is expected


def test_a_start_that_was_refused_changes_nothing_and_its_restored_directory_proves_nothing(history: History) -> None:
    history.complete(1, batch=10)  # and dies
    history.run()
    ended(history, None, never_ran=True)  # refused, after it had restored checkpoint 1
    assert more(history, 10, local=True)


def test_a_start_that_failed_after_a_clean_end_does_not_make_the_end_unknown(history: History) -> None:
    history.complete(1, batch=10)
    ended(history, 10)
    history.run()
    ended(history, None, never_ran=True)
    assert not more(history, 10)


def test_a_start_that_failed_in_the_directory_of_a_run_that_died_says_what_it_found_there(history: History) -> None:
    history.complete(1, batch=10)  # and dies, with batch 11 planned
    history.run()
    ended(history, 11, never_ran=True)  # could not start for another reason
    assert not more(history, 11, local=True)
    assert more(history, 10)


def test_a_copy_does_not_know_how_far_its_source_went(tmp_path: Path) -> None:
    from tests.unit.test_copying import claimed

    history = History(tmp_path / "home")
    history.journal.claim(lambda stamp: claimed(stamp, lineage="lineage", purpose="maintenance"))
    history.complete(1, batch=10)
    ended(history, None)
    assert more(history, 10)


def adopting(tmp_path: Path, next_sequence: int | None = None) -> History:
    """A job that was made of a directory where batch 10 was committed and batch 11 planned."""
    from tests.unit.test_copying import claimed

    def claim(stamp: Any) -> Any:
        run = claimed(stamp, lineage="lineage", purpose="maintenance")
        return msgspec.structs.replace(run, next_sequence=next_sequence)

    history = History(tmp_path / "home")
    history.journal.claim(claim)
    history.complete(1, batch=10, adopted=Adopted("/checkpoints", "query", BatchId(11)))
    ended(history, None)
    return history


@pytest.mark.parametrize(("planned", "expected"), [(11, False), (10, True)])
def test_what_was_adopted_was_at_rest_and_is_not_gone_back_behind(planned: int, expected: bool, tmp_path: Path) -> None:
    """A query that went on was adopted a second time: its batches are not behind the first checkpoint."""
    assert more(adopting(tmp_path), planned) is expected


def test_a_copy_of_what_was_adopted_does_not_know_how_far_its_source_went(tmp_path: Path) -> None:
    assert more(adopting(tmp_path, next_sequence=1_000_000), 11)


# --- a run that let no batch go without its plan vouches for its own batches, and for those who repeat the plans ---


def test_the_plans_of_a_run_that_required_them_show_all_that_it_wrote(history: History) -> None:
    history.complete(1, batch=10)
    ended(history, 10)
    history.run(plans="require")  # and dies
    assert not more(history, 12)


@pytest.mark.parametrize(("reported", "expected"), [(None, False), (12, False), (13, True)])
def test_plans_and_directories_that_end_before_what_the_heartbeat_tells_of_do_not_show_all(
    history: History, reported: int | None, expected: bool
) -> None:
    """Some were lost: of a writer that cannot be asked, the heartbeat is the only other witness."""
    history.complete(1, batch=10)
    ended(history, 10)
    history.run(plans="require")  # and dies
    history.run()
    batch = None if reported is None else BatchId(reported)
    for local in (False, True):  # a directory that has no more was put back from an older copy
        assert may_have_more(history.state(), BatchId(12), local=local, repeats=True, reported=batch) is expected


def test_they_show_nothing_to_a_start_that_does_not_repeat_them(history: History) -> None:
    """It keeps no plans (`plans="off"`, a work directory on HDFS), or it goes back: batches are cut anew."""
    history.run(plans="require")
    history.complete(1, batch=10)
    assert more(history, 10, repeats=False)


def test_they_show_nothing_of_what_the_run_before_wrote_without(history: History) -> None:
    history.complete(1, batch=10)  # and dies, with batches behind it that have no plans
    history.run(plans="require")  # goes on in its directory, and dies before it has made up for them
    assert more(history, 10)


def test_a_checkpoint_holds_what_the_run_before_wrote(history: History) -> None:
    history.complete(1, batch=10)  # and dies
    history.run(plans="require")
    history.complete(2, batch=14)
    assert not more(history, 15)


def test_the_first_run_says_how_far_it_was(history: History) -> None:
    """Its own checkpoints are not those of a copy."""
    history.complete(1, batch=10)
    assert not may_have_more(history.state(), BatchId(11), local=False, repeats=True)


# --- the same directory repeats the same batch ---


def test_the_batch_that_was_planned_behind_the_barrier_is_taken_along_by_an_adoption_and_by_no_checkpoint(
    tmp_path: Path,
) -> None:
    """Its offsets decide which rows it has. A writer may have got it before it was committed."""
    write(
        tmp_path,
        {"metadata": b"{}"} | {f"offsets/{n}": b"v1" for n in range(4)} | {f"commits/{n}": b"v1\n{}" for n in range(3)},
    )
    assert planned_batches(work_directory(tmp_path), BatchId(2)) == (0, 1, 2), "half of it is none of it: a power cut"
    write(tmp_path, {"offsets/3": b"v1\n{}\n17"})
    planned = planned_batches(work_directory(tmp_path), BatchId(2))
    assert planned == (0, 1, 2, 3)
    assert not has_planned(work_directory(tmp_path), BatchId(3))
    adopted = {file.path for file in plan(work_directory(tmp_path), BatchId(2), planned=planned).files()}
    assert {"offsets/0", "offsets/3"} <= adopted, "the plan of a batch before may be missing in the home"
    directory = RunFolder(work_directory(tmp_path.parent), tmp_path.name)
    assert "offsets/3" not in {file.path for file in directory.plan(BatchId(2)).files()}


def test_the_settings_are_checked() -> None:
    from holdfast.errors import InvalidSettings

    Settings(sink_position=lambda: 3, repeats="accept")
    with pytest.raises(InvalidSettings, match="repeats"):
        Settings(repeats="sometimes")  # type: ignore[arg-type]
    with pytest.raises(InvalidSettings, match="sink_position"):
        Settings(sink_position=3)  # type: ignore[arg-type]
