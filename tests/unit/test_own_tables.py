"""Going back with a writer of the user's own: what its table still shows, and under which id the query goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, CheckpointId, JobName, Sequence
from holdfast.plans.query_id import is_of_one_job, metadata_on_line, query_id
from holdfast.plans.table_history import Beyond, Change, HistoryExpired, Shown, restored_to, shown
from holdfast.repository.entries import WentBack
from holdfast.repository.lines import line_begins, line_of
from holdfast.runtime.own_writer import Taken, require_no_skips
from tests.unit.job_histories import History
from tests.unit.test_catching_up import Directory, IdempotentWriter, catching_up
from tests.unit.test_keeping_plans import Kept

ID = "c0ffee00-1234-4567-89ab-cdef01234567"
OTHER_LINE = query_id(metadata_on_line(f'{{"id":"{ID}"}}', Sequence(40), "lineage"))
OTHER_JOB = "deadbeef-1234-4567-89ab-cdef01234567"
BARRIER = BatchId(4)


def change(version: int, batch: int | None = None, query: str = ID, before: int | None = None) -> Change:
    back = version - 1 if before is None else before
    return Change(version, back if version else None, query, None if batch is None else BatchId(batch))


# --- what the table shows ---


def test_batches_behind_the_barrier_are_found_and_so_is_the_version_without_them() -> None:
    changes = [change(9, 6), change(8), change(7, 5), change(6), change(5, 4)]
    assert shown(changes, ID, BARRIER) == Shown(BatchId(4), Beyond(BatchId(6), last_good=6))


def test_a_table_that_was_taken_back_shows_none() -> None:
    restored = [change(10, before=6), change(6), change(5, 4)]
    assert shown(restored, ID, BARRIER) == Shown(BatchId(4), None)
    assert shown([change(10, before=4), change(4, 3)], ID, BARRIER) == Shown(BatchId(3), None), (
        "it was taken back too far"
    )
    assert shown([], ID, BARRIER) == Shown(None, None)


def test_batches_of_another_job_are_not_ours_and_those_of_another_line_are() -> None:
    assert shown([change(7, 80, OTHER_JOB), change(6, 4)], ID, BARRIER).beyond is None
    assert shown([change(7, 5, OTHER_LINE), change(6, 4)], ID, BARRIER).beyond == Beyond(BatchId(5), last_good=6)


def test_a_history_that_has_expired_tells_nothing() -> None:
    with pytest.raises(HistoryExpired, match="before 8 have expired"):
        shown([change(9, 6), change(8)], ID, BARRIER)
    found = shown([change(1, 5), change(0)], ID, BARRIER)
    assert found == Shown(None, Beyond(BatchId(5), last_good=0)), "it is all there"


def test_a_table_of_which_somebody_restored_an_older_version_shows_less_than_it_has_recorded() -> None:
    history = [change(7, 6), change(6, 5), change(5, 4)]
    assert restored_to([change(8, before=5), *history[2:]], ID, BatchId(6)) == 4
    assert restored_to([change(8, before=None), change(7), change(0)], ID, BatchId(6)) == -1, "before its first batch"
    assert restored_to(history, ID, BatchId(6)) is None
    assert restored_to([change(9, before=7), *history], ID, BatchId(6)) is None, "and then the newest one again"
    assert restored_to([change(9, 7), change(8, before=5), change(5, 4)], ID, BatchId(7)) is None, (
        "it went on from there"
    )


def test_batches_of_a_line_that_the_job_has_left_are_none_of_those_that_it_comes_from() -> None:
    """Their ids are the same, and their rows are not."""
    assert shown([change(6, 4, OTHER_LINE), change(5, 3)], ID, BARRIER) == Shown(BatchId(4), None, of_another_line=True)
    assert restored_to([change(6, 4, OTHER_LINE), change(5, 3)], ID, BatchId(4)) == -1


# --- what is said ---


def test_the_command_that_takes_them_back_is_shown_and_who_did_it_otherwise_may_say_so() -> None:
    command = "RESTORE TABLE delta.`/data/out` TO VERSION AS OF 6"
    taken = Taken("the table", BatchId(6), known=True, planned=BARRIER, shows_left=True, take_back=command)
    with pytest.raises(Conflict, match="still shows batches 5 to 6 of before") as found:
        require_no_skips(JobName("orders"), taken, "refuse", may_have_more=True)
    assert command in (found.value.hint or "")
    require_no_skips(JobName("orders"), taken, "accept", may_have_more=True)


# --- the id of the query on a new line ---


def test_each_line_has_an_id_of_its_own_and_always_the_same() -> None:
    metadata = f'{{"id":"{ID}"}}'
    second, third = (metadata_on_line(metadata, Sequence(line), "lineage") for line in (40, 50))
    assert len({ID, query_id(second), query_id(third)}) == 3
    assert metadata_on_line(second, Sequence(40), "lineage") == second
    assert metadata_on_line(metadata, Sequence(40), "another") != second
    assert is_of_one_job(ID, query_id(third))
    assert [len(part) for part in query_id(second).split("-")] == [8, 4, 4, 4, 12]


def test_a_line_begins_until_it_has_a_checkpoint(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run()
    go_back(history)
    assert line_begins(history.state())
    history.complete(3, batch=5, line=line_of(history.state()))
    assert not line_begins(history.state())


def go_back(history: History) -> None:
    history.complete(1, batch=4)
    history.complete(2, batch=8)
    assert not line_begins(history.state())
    history._append(WentBack, chosen=CheckpointId(1), abandoned=(CheckpointId(2),), asked="checkpoint 1")


def test_the_first_batch_of_a_line_comes_under_its_id_and_so_does_the_next_run(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "require")
    go_back(kept.history)
    first = restored(tmp_path / "first")
    catching_up(kept, IdempotentWriter(stateful=True), "refuse").catch_up(cast(Any, first))
    own = query_id(first.read("metadata").decode())
    assert own != ID
    assert is_of_one_job(own, ID)
    again = restored(tmp_path / "again")
    catching_up(kept, IdempotentWriter(stateful=True), "refuse").catch_up(cast(Any, again))
    assert again.read("metadata") == first.read("metadata"), "the one before died before it had planned anything"


def restored(place: Path) -> Directory:
    directory = Directory(place)
    directory.write_atomic("metadata", f'{{"id":"{ID}"}}'.encode())
    directory.write_atomic("offsets/4", b"v1\n{}\n17")
    directory.write_atomic("commits/4", b"v1\n{}")
    return directory
