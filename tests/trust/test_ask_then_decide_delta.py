"""R5 for Delta tables: a rewind is planned dry, and refused without a trace when it cannot be done."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable, TableFeatures

from holdfast.errors import Conflict
from holdfast.identifiers import BatchId
from holdfast.sinks import Delta, RewindPlan
from tests.trust.delta_sink import columns, context, expected, opened, published, rows, staged, trace
from tests.trust.test_sink_against_ledger_delta import append, commit, delete, expire, optimize

Outside = Callable[[Path], None]


def test_a_dry_rewind_says_what_goes_and_leaves_no_trace(tmp_path: Path) -> None:
    published(tmp_path, 0, 1, 2)
    before = trace(tmp_path)
    sink = looked(tmp_path)
    assert sink.plan_rewind(BatchId(0)) == RewindPlan(batches=2, files=4, rows=4)
    assert sink.plan_rewind(None) == RewindPlan(batches=3, files=6, rows=6)
    assert sink.plan_rewind(BatchId(2)) == RewindPlan()
    assert sink.plan_rewind(BatchId(9)) == RewindPlan()
    assert trace(tmp_path) == before


def looked(place: Path, *, accept: bool = False) -> Delta:
    """A sink that is not open, as recovery has it when it plans."""
    sink = Delta(place)
    sink.look(context(1, accept=accept), None, columns())  # type: ignore[arg-type]
    return sink


def append_only(place: Path) -> None:
    DeltaTable(str(place)).alter.set_table_properties({"delta.appendOnly": "true"})


def delete_by_vector(place: Path) -> None:
    """What Spark's DELETE leaves where deletion vectors are on: the first row of a file of batch 1 is marked."""
    DeltaTable(str(place)).alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    lines = [line for path in sorted((place / "_delta_log").glob("*.json")) for line in path.read_text().splitlines()]
    added = [json.loads(line)["add"] for line in lines if '"add"' in line]
    add = next(action for action in added if "/1-" in action["path"])
    vector = {"storageType": "i", "pathOrInlineDv": z85(bitmap_of(0)), "sizeInBytes": 34, "cardinality": 1}
    remove = {"path": add["path"], "dataChange": True, "deletionTimestamp": 0, "partitionValues": {}}
    info = {"operation": "DELETE", "operationParameters": {"predicate": '["id = 10"]'}}
    commit(place, {"commitInfo": info}, {"remove": remove}, {"add": {**add, "deletionVector": vector}})


def bitmap_of(row: int) -> bytes:
    portable = struct.pack("<IIHHIH", 12346, 1, 0, 0, 16, row)
    return struct.pack("<IQI", 1681511377, 1, 0) + portable


def z85(data: bytes) -> str:
    alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    padded = data + b"\0" * (-len(data) % 4)
    numbers = struct.unpack(f">{len(padded) // 4}I", padded)
    return "".join(alphabet[number // 85**place % 85] for number in numbers for place in (4, 3, 2, 1, 0))


def optimize_and_expire(place: Path) -> None:
    """While the job goes on: it has seen who rewrote its files."""
    optimize(place)
    opened(place, context(1))
    append(place)
    append(place)
    expire(place)


def lose_the_record(place: Path) -> None:
    shutil.rmtree(place / "_holdfast")


@pytest.mark.parametrize(
    ("outside", "named"),
    [
        (optimize, "OPTIMIZE"),
        (delete, "DELETE"),
        (append_only, "delta.appendOnly"),
        (delete_by_vector, "deletion vectors"),
        (optimize_and_expire, "OPTIMIZE"),
        (lose_the_record, "not recorded"),
    ],
)
def test_an_obstacle_is_in_the_plan_and_the_rewind_leaves_no_trace(
    tmp_path: Path, outside: Outside, named: str
) -> None:
    published(tmp_path, 0, 1, 2)
    outside(tmp_path)
    before = trace(tmp_path)
    obstacle = looked(tmp_path).plan_rewind(BatchId(0)).obstacle
    assert obstacle is not None
    assert named in obstacle
    assert trace(tmp_path) == before
    sink = opened(tmp_path, context(2))
    version, left = DeltaTable(str(tmp_path)).version(), seen(tmp_path)
    with pytest.raises(Conflict, match=named):
        sink.rewind(BatchId(0))
    assert (DeltaTable(str(tmp_path)).version(), seen(tmp_path), sink.published()) == (version, left, 2)
    # The other way in the hint: the job goes on from where it was.
    sink.publish(BatchId(3), staged(sink, 2, 3))
    assert sink.published() == 3


def seen(place: Path) -> list[int]:
    """Files rather than rows: deltalake's reader of tables does not know deletion vectors."""
    return sorted(map(hash, DeltaTable(str(place)).file_uris()))


def test_following_the_hint_the_job_goes_back_after_the_rows_were_taken_out_by_hand(tmp_path: Path) -> None:
    published(tmp_path, 0, 1, 2)
    optimize_and_expire(tmp_path)
    with pytest.raises(Conflict, match="by hand and start with --accept-sink"):
        opened(tmp_path, context(2)).rewind(BatchId(0))
    DeltaTable(str(tmp_path)).delete("id >= 10 and id < 30")
    assert looked(tmp_path, accept=True).plan_rewind(BatchId(0)).obstacle is None
    sink = opened(tmp_path, context(3, accept=True))
    sink.rewind(BatchId(0))
    sink.publish(BatchId(1), staged(sink, 3, 1))
    assert rows(tmp_path) == sorted([*expected(0, 1), 77, 77])


def test_history_that_expired_is_not_needed(tmp_path: Path) -> None:
    published(tmp_path, 0, 1, 2)
    append(tmp_path)
    expire(tmp_path)
    sink = opened(tmp_path, context(2))
    assert sink.plan_rewind(BatchId(0)) == RewindPlan(batches=2, files=4, rows=4)
    sink.rewind(BatchId(0))
    sink.discard(())
    assert rows(tmp_path) == sorted([*expected(0), 77])
    sink.publish(BatchId(1), staged(sink, 2, 1))
    assert sink.plan_rewind(None) == RewindPlan(batches=2, files=4, rows=4)
    assert rows(tmp_path) == sorted([*expected(0, 1), 77])


def test_what_is_forgotten_cannot_be_taken_back_and_takes_no_place(tmp_path: Path) -> None:
    sink = published(tmp_path, 0, 1, 2, 3)
    sink.forget(BatchId(1))
    assert len(list((tmp_path / "_holdfast" / "orders" / "batches").iterdir())) == 2
    assert sink.plan_rewind(BatchId(1)) == RewindPlan(batches=2, files=4, rows=4)
    assert sink.plan_rewind(BatchId(0)).obstacle is not None
    sink.forget(BatchId(3))
    sink.publish(BatchId(4), staged(sink, 1, 4))
    assert sink.plan_rewind(BatchId(3)) == RewindPlan(batches=1, files=2, rows=2)
    sink.rewind(BatchId(3))
    assert opened(tmp_path, context(2)).published() == 3
