"""Plans travel in the checkpoint: packed when one begins, named by their batches, freed where they are held twice."""

import threading
from pathlib import Path

import pytest

from holdfast.checkpoint.packed_plans import packed_after, packed_path, packed_range
from holdfast.errors import Corrupt, NewerFormat
from holdfast.identifiers import AttemptId, BatchId, CheckpointId, FencingEpoch
from holdfast.plans.packing import decode_packed, drop_packed, encode_packed, pack_plans
from holdfast.repository.lines import line_folder, needed_after, oldest_start, plan_key, unneeded_plans
from holdfast.repository.sealing import sealed
from holdfast.runtime.checkpoints.plan_packer import PlanPacker
from holdfast.workdir.barriers import plan as snapshot_of
from holdfast.workdir.factory import work_directory
from tests.unit.job_histories import History
from tests.unit.test_plans import Folder, plan


def ran(root: Path, *batches: int) -> Folder:
    folder = Folder(root)
    folder.write_atomic("metadata", b'{"id":"query"}')
    for batch in batches:
        folder.write_atomic(f"offsets/{batch}", plan(batch).offsets.encode())
        folder.write_atomic(f"commits/{batch}", b"v1\n{}")
    return folder


def pack(folder: Folder, barrier: int, after: int | None = None) -> None:
    needed = None if after is None else BatchId(after)
    pack_plans(folder, BatchId(barrier), needed, FencingEpoch(1), lambda: AttemptId("mine"))


def packed(folder: Folder) -> dict[str, list[int]]:
    return {
        name: [each.batch_id for each in decode_packed(name, folder.read(f"plans/{name}"))]
        for name in sorted(folder.names("plans"))
    }


# --- names ---


def test_a_file_is_named_by_its_batches() -> None:
    assert packed_range(packed_path(BatchId(5), BatchId(9))) == (5, 9)
    for other in ("plans/5.json", "plans/5-9.json~", "plans/.5-9.json.crc", "ledger/5-9.json"):
        assert packed_range(other) is None


@pytest.mark.parametrize(
    ("ranges", "after"),
    [
        (((0, 4), (5, 9)), -1),
        (((5, 9),), 4),
        (((0, 3), (5, 9)), 4),
        (((3, 7), (5, 9)), 2),
        (((0, 8),), None),
        ((), None),
    ],
)
def test_what_files_hold_without_a_gap_is_told_by_their_names(
    ranges: tuple[tuple[int, int], ...], after: int | None
) -> None:
    paths = [packed_path(BatchId(first), BatchId(last)) for first, last in ranges]
    assert packed_after([*paths, "offsets/9"], BatchId(9)) == after


# --- packing ---


def test_each_checkpoint_packs_what_came_since_the_one_before(tmp_path: Path) -> None:
    folder = ran(tmp_path, *range(5))
    pack(folder, 2)
    pack(folder, 4)
    pack(folder, 4)
    assert packed(folder) == {"0-2.json": [0, 1, 2], "3-4.json": [3, 4]}
    assert decode_packed("", folder.read("plans/3-4.json"))[0].offsets == plan(3).offsets


def test_only_plans_that_a_recovery_may_need_are_packed_and_kept(tmp_path: Path) -> None:
    folder = ran(tmp_path, *range(8))
    pack(folder, 5, after=2)
    assert packed(folder) == {"3-5.json": [3, 4, 5]}
    pack(folder, 7, after=2)
    drop_packed(folder, BatchId(5))
    assert list(packed(folder)) == ["6-7.json"]


def test_a_batch_that_spark_has_forgotten_leaves_those_behind_it(tmp_path: Path) -> None:
    folder = ran(tmp_path, 0, 1, 3, 4)
    pack(folder, 4)
    assert packed(folder) == {"3-4.json": [3, 4]}


def test_a_checkpoint_holds_the_packed_plans_of_its_batches_and_no_later_ones(tmp_path: Path) -> None:
    folder = ran(tmp_path, *range(4))
    pack(folder, 2)
    pack(folder, 3)
    files = {file.path for file in snapshot_of(work_directory(tmp_path), BatchId(2)).files()}
    assert "plans/0-2.json" in files
    assert "plans/3-3.json" not in files


def test_packed_plans_prove_their_bytes(tmp_path: Path) -> None:
    data = encode_packed([plan(3)])
    assert decode_packed("it", data) == (plan(3),)
    with pytest.raises(Corrupt, match="do not match"):
        decode_packed("it", data.replace(b"query", b"quern"))
    with pytest.raises(Corrupt):
        decode_packed("it", sealed(b'{"format":1,"plans":7}'))
    with pytest.raises(NewerFormat):
        decode_packed("it", sealed(b'{"format":2,"plans":[]}'))


def test_a_directory_that_cannot_be_read_fails_no_checkpoint(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run()
    packer = PlanPacker(journal=history.journal, retained=1, new_attempt=lambda: AttemptId("mine"))
    (tmp_path / "work" / "offsets").mkdir(parents=True)
    (tmp_path / "work" / "offsets" / "0").mkdir()
    packer.pack(Folder(tmp_path / "work"), BatchId(0), alone=True)  # type: ignore[arg-type]


def test_two_checkpoints_of_one_barrier_write_one_file_and_both_have_it(tmp_path: Path) -> None:
    """The second one found the first one's file half written, or failed at its name, and was made without plans."""
    history = History(tmp_path / "home")
    history.run()
    packer = PlanPacker(journal=history.journal, retained=1, new_attempt=lambda: AttemptId("mine"))
    seen: list[dict[str, list[int]]] = []

    def second() -> None:
        packer.pack(folder, BatchId(1), alone=False)  # type: ignore[arg-type]
        seen.append(packed(folder))

    class Slow(Folder):
        def write_atomic(self, path: str, data: bytes) -> None:
            if threading.current_thread() is threading.main_thread():
                other.start()
                other.join(0.2)  # it cannot end before this write
            writers.append(threading.current_thread())
            super().write_atomic(path, data)

    other = threading.Thread(target=second)
    writers: list[threading.Thread] = []
    ran(tmp_path / "work", 0, 1)
    folder = Slow(tmp_path / "work")
    packer.pack(folder, BatchId(1), alone=False)  # type: ignore[arg-type]
    other.join()
    assert writers == [threading.main_thread()]
    assert seen == [packed(folder)] == [{"0-1.json": [0, 1]}]


# --- what is freed ---


def test_a_plan_that_the_newest_checkpoint_holds_is_freed_when_another_one_is_behind_it(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.run()
    for id in range(1, 5):
        history.complete(id, batch=id * 10, packed_after=BatchId(-1) if id == 4 else None)
    state = history.state()
    assert oldest_start(state, 3) == 20
    assert needed_after(state, 3) == 30
    keys = [plan_key(line_folder(state), BatchId(batch)) for batch in (30, 31, 40)]
    assert unneeded_plans(keys, state, 3) == {keys[0]}, "should the newest one be lost, those behind it are there"


def test_plans_that_no_checkpoint_holds_stay_as_far_as_a_recovery_needs_them(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.run()
    for id in range(1, 5):
        history.complete(id, batch=id * 10, packed_after=BatchId(25))
    assert needed_after(history.state(), 3) == 20, "those of batches 21 to 25 are nowhere else"
    history.retire(*(CheckpointId(id) for id in (1, 2)))
    assert needed_after(history.state(), 3) is None
