"""Plans that are made when their batches are done, from what the directory still has; and who ships them."""

from pathlib import Path

import pytest

from holdfast.errors import StorageUnreachable
from holdfast.identifiers import AttemptId, BatchId, FencingEpoch
from holdfast.plans.afterwards import batches_in, plans_of
from holdfast.plans.plan import Plan
from holdfast.plans.spark_logs import SourceLogs
from holdfast.repository.entries import WentBack
from holdfast.runtime.own_writer import Taken
from holdfast.runtime.plans.keeping import CONFLICT, LATE
from holdfast.runtime.plans.ways_out import ways_out
from holdfast.storage.faulty import Faults
from tests.unit.job_histories import History
from tests.unit.test_keeping_plans import AWAY, OFFSETS, Kept
from tests.unit.test_plans import Folder, entries, planned_here, spark

TABLE = Taken("the table", BatchId(17), known=True)


def made(folder: Folder, *batches: int) -> list[Plan]:
    numbers = tuple(BatchId(batch) for batch in batches)
    return list(plans_of(folder, numbers, FencingEpoch(1), lambda: AttemptId("mine")))


def went_on(root: Path) -> tuple[Folder, list[Plan]]:
    """Batches 2 to 5 have run since, and what was planned when they did."""
    folder = spark(root, last=1)
    logs, plans = SourceLogs(folder, BatchId(1)), []
    for batch in range(2, 6):
        compact = batch % 3 == 2
        name = f"sources/0/{batch}.compact" if compact else f"sources/0/{batch}"
        folder.write_atomic(name, entries(*range(batch + 1)) if compact else entries(batch))
        plans.append(planned_here(folder, logs, batch, batch))
        folder.write_atomic(f"offsets/{batch}", plans[-1].offsets.encode())
    return folder, plans


def test_a_plan_made_afterwards_is_the_one_that_was_made_before(tmp_path: Path) -> None:
    folder, plans = went_on(tmp_path)
    assert made(folder, 2, 3, 4, 5) == plans
    assert batches_in(folder, BatchId(2), BatchId(4)) == (3, 4)
    assert batches_in(folder, None, BatchId(1)) == (0, 1)


def test_an_entry_that_spark_has_compacted_and_deleted_is_found_in_the_compacted_one(tmp_path: Path) -> None:
    folder, plans = went_on(tmp_path)
    folder.remove("sources/0/3")
    folder.remove("sources/0/4")
    assert made(folder, 2, 3, 4, 5) == plans


def test_what_gives_the_first_batch_its_meaning_is_part_of_its_plan(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write_atomic("metadata", b'{"id":"query"}')
    folder.write_atomic("sources/0/0", b"v1\n1700000000000")  # when a rate source began
    folder.write_atomic("offsets/0", b'v1\n{"batchWatermarkMs":0}\n7')
    folder.write_atomic("offsets/1", b'v1\n{"batchWatermarkMs":0}\n9')
    first, second = made(folder, 0, 1)
    assert first.sources == {"0/0": "v1\n1700000000000"}
    assert second.sources == {}


def test_a_batch_whose_part_of_a_log_cannot_be_told_has_no_plan(tmp_path: Path) -> None:
    folder, plans = went_on(tmp_path)
    folder.remove("offsets/2")
    assert made(folder, 3, 4) == plans[2:3], "where batch 3 began nobody knows"
    folder.remove("sources/0/4")
    folder.remove("sources/0/5.compact")
    assert made(folder, 4) == []


# --- a run takes over the directory of one that could not ship ---


def left(kept: Kept, *batches: int) -> Folder:
    folder = kept.keeper._directory
    assert isinstance(folder, Folder)
    for batch in batches:
        folder.write_atomic(f"offsets/{batch}", f'v1\n{{"batchWatermarkMs":0}}\n{batch}'.encode())
    return folder


@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_plans_that_the_run_before_could_not_ship_are_shipped_before_the_query_starts(
    tmp_path: Path, mode: str
) -> None:
    kept = Kept(tmp_path, mode)
    kept.by_another(3, epoch=1)
    kept.keeper.ship_left(left(kept, *range(6)), BatchId(1), BatchId(5))
    assert sorted(kept.planned()) == [2, 3, 4, 5]
    assert kept.told == []


def test_plans_that_cannot_be_shipped_now_are_late_and_stay_in_order(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "prefer")
    kept.store.faults = AWAY
    folder = left(kept, *range(4))
    kept.keeper.ship_left(folder, None, BatchId(2))
    assert kept.keeper.late_since == 0
    assert kept.told == [(LATE, True)]
    kept.store.faults = Faults()
    kept.keeper.ship_left(folder, None, BatchId(2))
    kept.keeper.take_along(folder, BatchId(2), b'v1\n{"batchWatermarkMs":0}\n3')
    kept.keep(4)
    assert kept.standing() == [], "a later one does not stand alone"
    kept.clock.now += 10.0
    kept.keeper.poll()
    kept.lanes.work()
    assert kept.standing() == [0, 1, 2, 3, 4]
    assert kept.told == [(LATE, True), (LATE, False)], "one that was taken up twice is the same plan"


def with_a_gap(root: Path, mode: str) -> Kept:
    """The run before planned batches up to 1, and ran those up to 8 while the home was away. Spark has deleted what it
    had planned of batch 2."""
    kept = Kept(root, mode)
    kept.history.complete(1, batch=0)
    kept.keep(0)
    kept.keep(1)
    kept.keeper.ship_left(left(kept, *range(3, 9)), BatchId(0), BatchId(8))
    return kept


def test_no_plan_is_shipped_behind_a_gap_before_a_checkpoint_holds_it(tmp_path: Path) -> None:
    """Readers saw batches up to 8, and a start elsewhere was refused: it could repeat those up to 1 (seed 10585)."""
    kept = with_a_gap(tmp_path, "prefer")
    kept.keep(9)
    kept.ship()
    assert kept.standing() == [0, 1]
    assert kept.keeper.durable_upto(BatchId(9)) == 1
    kept.history.complete(2, batch=7)
    kept.ship()
    assert kept.keeper.durable_upto(BatchId(9)) == 1, "batch 8 has no plan"
    assert kept.told == [(LATE, True)]
    kept.history.complete(3, batch=8)
    kept.ship()
    assert sorted(kept.planned()) == [0, 1, 9]
    assert kept.keeper.durable_upto(BatchId(9)) == 9
    assert kept.told == [(LATE, True), (LATE, False)]


def test_a_gap_that_a_checkpoint_holds_is_over_though_nothing_is_late(tmp_path: Path) -> None:
    kept = with_a_gap(tmp_path, "prefer")
    kept.history.complete(2, batch=8)
    kept.ship()
    assert kept.keeper.durable_upto(BatchId(8)) == 8
    assert kept.told == [(LATE, True), (LATE, False)]


def test_behind_a_gap_a_batch_waits_for_the_checkpoint_where_plans_are_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = with_a_gap(tmp_path, "require")
    kept.keeper.take_along(left(kept, 9), BatchId(8), OFFSETS)  # the run before had planned one more
    with pytest.raises(StorageUnreachable, match="batch 10 waits for the plan of batch 2, or for a checkpoint"):
        kept.keep(10, stopping=True)

    def completed(seconds: float) -> None:
        kept.history.complete(2, batch=8)
        kept.ship()

    monkeypatch.setattr(kept.keeper, "_sleep", completed)
    kept.keep(10)
    assert sorted(kept.planned()) == [0, 1, 9, 10]


def test_a_plan_that_stands_and_differs_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(tmp_path, "prefer")
    kept.by_another(2, epoch=1)
    monkeypatch.setattr(kept.keeper, "_known", lambda log: frozenset())
    left(kept, 2).write_atomic("offsets/2", b'v1\n{"batchWatermarkMs":0}\n99')
    kept.keeper.ship_left(left(kept), BatchId(1), BatchId(2))
    assert kept.told == [(CONFLICT, True), (LATE, True)]
    assert kept.keeper.late_since == 2, "what ran behind it is not in the home's line"


# --- a way out that is true ---


def test_the_ways_out_name_host_checkpoint_and_what_comes_again(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.run()
    history.complete(4, batch=14)
    history.run()
    state = history.state()
    here, there = state.runs[0].host, "elsewhere"
    assert "--from-checkpoint 4 --repeats accept" in ways_out(state, TABLE, BatchId(14), here)
    assert "start it on" not in ways_out(state, TABLE, BatchId(14), here)
    assert f"start it on {here}, where run {state.runs[0].fencing_epoch}" in ways_out(state, TABLE, BatchId(14), there)
    files = Taken("Spark's file sink", BatchId(17), known=True, always_skips=True)
    assert "after batch 14, and add --from-checkpoint 4" in ways_out(state, files, BatchId(14), here)
    assert "--repeats" not in ways_out(state, files, BatchId(14), here)
    ours = Taken("delta", BatchId(17), known=True, always_skips=True, rewinds=True)
    again = ways_out(state, ours, BatchId(14), here, older_home=True)
    assert "--from-checkpoint 4 --accept-older-home" in again, "else the next start asks for that once more"


def test_a_way_back_that_was_taken_already_is_not_named_again(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.run()
    history.complete(4, batch=14)
    history._append(WentBack, chosen=4, abandoned=(), asked="checkpoint 4", published=None)
    history.run()
    state = history.state()
    assert "another job name" in ways_out(state, TABLE, BatchId(14), state.runs[0].host)
