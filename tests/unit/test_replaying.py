"""A fall-back as a longer replay: which batches are repeated behind an older checkpoint, what becomes of newer ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import Corrupt, StorageUnreachable
from holdfast.identifiers import BatchId, CheckpointId
from holdfast.plans.log import PlanLog
from holdfast.plans.packing import encode_packed
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import Rescaled
from holdfast.repository.lines import line_folder
from holdfast.runtime.recovery.recovery import Known
from holdfast.runtime.recovery.replaying import Replay, Replaying
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.test_plans import plan
from tests.unit.work_files import write


class Home:
    """Checkpoints 1, 2 and 3 at batches 2, 5 and 8; each holds the plans of the batches since the one before."""

    def __init__(self, root: Path, packed: tuple[int, ...] = (1, 2, 3)) -> None:
        self.history = History(root / "home")
        blobs = Blobs(self.history.store, self.history.run())
        files: dict[str, bytes] = {"metadata": b"{}"}
        for id in (1, 2, 3):
            last = id * 3 - 1
            if id in packed:
                plans = [plan(batch) for batch in range(last - 2, last + 1)]
                files[f"plans/{last - 2}-{last}.json"] = encode_packed(plans)
            work = root / f"work-{id}"
            write(work, files | {f"offsets/{last}": b"v1", f"commits/{last}": b"v1"})
            complete_with_bytes(self.history, id, work, blobs, batch=last)
        self.known = Known(self.history.store, self.history.journal)

    def plan_alone(self, *batches: int) -> None:
        log = PlanLog(self.history.store, line_folder(self.history.state()))
        for batch in batches:
            log.create(plan(batch))

    def replay(self, chosen: int, *unusable: int, shown: Any = None, alone: bool = True) -> Replay | None:
        replaying = Replaying(
            store=self.history.store,
            journal=self.history.journal,
            files_of=self._files_of,
            read=self.read,
            alone=alone,
            shown=None if shown is None else lambda: BatchId(shown),
        )
        entry = self.history.state().completed[CheckpointId(chosen)]
        return replaying.behind(entry, {CheckpointId(id): "gone" for id in unusable})

    lost: frozenset[int] = frozenset()
    away = False

    def read(self, file: Any) -> bytes:
        if self.away:
            raise StorageUnreachable("no connection")
        return self.known.read(file)

    def _files_of(self, id: CheckpointId) -> Any:
        if id in self.lost:
            raise Corrupt("its manifest is gone")
        return self.known.manifest(id).files()


def batches(replay: Replay | None) -> list[int] | None:
    return None if replay is None else [each.batch_id for each in replay.plans]


def test_a_newer_checkpoint_tells_the_batches_that_an_older_one_lacks(tmp_path: Path) -> None:
    home = Home(tmp_path)
    replay = home.replay(2, 3)
    assert batches(replay) == [6, 7, 8]
    assert replay is not None
    assert (set(replay.damaged), set(replay.passed_over), replay.durable) == ({3}, set(), 8)


def test_a_fall_back_over_two_checkpoints_is_a_longer_replay(tmp_path: Path) -> None:
    assert batches(Home(tmp_path).replay(1, 2, 3)) == [3, 4, 5, 6, 7, 8]


def test_plans_with_an_object_of_their_own_make_up_for_a_checkpoint_that_is_lost_as_a_whole(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.lost = frozenset({3})
    assert home.replay(2, 3) is None, "their plans were in it, and nowhere else"
    home.plan_alone(6, 7, 8, 9)
    assert batches(home.replay(2, 3)) == [6, 7, 8, 9]


@pytest.mark.parametrize("packed", [(1, 3), (1, 2)])
def test_where_a_plan_is_missing_nothing_is_repeated(tmp_path: Path, packed: tuple[int, ...]) -> None:
    home = Home(tmp_path, packed)
    home.plan_alone(7, 8)
    assert home.replay(1, 2, 3) is None


def test_one_of_a_history_that_was_abandoned_tells_nothing(tmp_path: Path) -> None:
    from holdfast.repository.entries import WentBack

    home = Home(tmp_path)
    home.history._append(WentBack, chosen=CheckpointId(2), abandoned=(CheckpointId(3),), asked="checkpoint 2")
    assert home.replay(1, 2) is not None
    assert batches(home.replay(1, 2)) == [3, 4, 5]


def test_where_readers_see_checkpoints_what_they_see_is_repeated_and_no_more(tmp_path: Path) -> None:
    replay = Home(tmp_path).replay(1, 2, 3, shown=5, alone=False)
    assert batches(replay) == [3, 4, 5]
    assert replay is not None
    assert (set(replay.damaged), set(replay.passed_over), replay.durable) == ({2}, {3}, 5)


@pytest.mark.parametrize("shown", [3, 5, 6])
def test_where_readers_see_each_batch_what_they_do_not_see_yet_is_repeated_too(tmp_path: Path, shown: int) -> None:
    """So that no new line of batches begins."""
    replay = Home(tmp_path).replay(1, 2, 3, shown=shown)
    assert batches(replay) == [3, 4, 5, 6, 7, 8]
    assert replay is not None
    assert (set(replay.damaged), set(replay.passed_over), replay.durable) == ({2, 3}, set(), shown)


@pytest.mark.parametrize(("alone", "repeated"), [([], [3, 4, 5]), ([6, 7], [3, 4, 5]), ([6, 7, 8], [3, 4, 5, 6, 7, 8])])
def test_of_what_readers_do_not_see_yet_whole_checkpoints_are_repeated(
    tmp_path: Path, alone: list[int], repeated: list[int]
) -> None:
    home = Home(tmp_path, packed=(1, 2))
    home.plan_alone(*alone)
    replay = home.replay(1, 2, 3, shown=4)
    assert batches(replay) == repeated
    assert replay is not None
    assert set(replay.passed_over) == (set() if repeated[-1] == 8 else {3})


def test_nothing_is_repeated_that_readers_have_not_seen(tmp_path: Path) -> None:
    assert Home(tmp_path).replay(2, 3, shown=5) is None


def test_objects_of_an_earlier_run_bind_nobody_where_readers_see_a_batch_with_its_checkpoint(tmp_path: Path) -> None:
    home = Home(tmp_path, packed=(1, 2))
    home.plan_alone(6, 7, 8)
    assert home.replay(2, 3, shown=8, alone=False) is None
    assert batches(home.replay(2, 3, shown=8)) == [6, 7, 8]


def test_plans_that_cannot_be_read_now_are_not_missing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.away = True
    with pytest.raises(StorageUnreachable, match=r"after checkpoint 2 are repeated: no connection"):
        home.replay(2, 3, shown=8, alone=False)
    home.plan_alone(6, 7, 8)
    assert batches(home.replay(2, 3)) == [6, 7, 8], "the same plans have objects of their own"


def test_what_the_journal_names_is_found_without_the_manifest(tmp_path: Path) -> None:
    home = Home(tmp_path)
    files = home.known.manifest(CheckpointId(3)).files()
    named = tuple(file for file in files if file.path.startswith("plans/"))
    state = home.history.state()
    home.lost = frozenset({3})
    assert home.replay(2, 3, shown=8, alone=False) is None
    entry = msgspec.structs.replace(state.completed[CheckpointId(3)], packed=named)
    home.history.journal.state.completed[CheckpointId(3)] = entry
    assert batches(home.replay(2, 3, shown=8, alone=False)) == [6, 7, 8]


def test_batches_of_another_number_of_state_partitions_are_not_repeated(tmp_path: Path) -> None:
    home = Home(tmp_path)
    completed = home.history.journal.state.completed
    rescaled = Rescaled(CheckpointId(2), 2, 4, 0)
    completed[CheckpointId(3)] = msgspec.structs.replace(completed[CheckpointId(3)], rescaled=rescaled)
    assert home.replay(2, 3, shown=8) is None
