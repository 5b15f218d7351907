"""R3 for Delta tables: what version 0.1.0 left is known, and carried over once."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from deltalake import DeltaTable

from holdfast.errors import Conflict, Fenced
from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.sinks import Delta, RewindPlan, SinkState, StagedBatch
from holdfast.sinks.protocol import fingerprint
from tests.trust.delta_sink import columns, context, expected, opened, rows, staged, trace
from tests.trust.test_sink_against_ledger_delta import append, expire

TABLE = Path(__file__).parent / "tables" / "delta-0.1.0"
"""Written by holdfast 0.1.0: run 3 of home-1 published the batches 0 to 2 and staged batch 3."""
KNOWN = SinkState(fingerprint("home-1"), FencingEpoch(3), None, BatchId(2))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    shutil.copytree(TABLE, tmp_path / "t")
    return tmp_path / "t"


@pytest.mark.parametrize("lineage", ["home-1", "home-2", ""])
@pytest.mark.parametrize("expired", [False, True])
def test_a_look_knows_the_life_whatever_home_asks(place: Path, lineage: str, expired: bool) -> None:
    if expired:
        append(place)
        expire(place)
    before = trace(place)
    assert Delta(place).look(context(0, lineage), None, columns()) == KNOWN  # type: ignore[arg-type]
    assert trace(place) == before


def test_the_next_run_goes_on_and_can_go_back(place: Path) -> None:
    ledger = msgspec.json.decode((place / "_ledger.json").read_bytes(), type=tuple[StagedBatch, ...])
    sink = opened(place, context(4))
    assert sink.published() == 2
    assert sink.plan_rewind(BatchId(0)) == RewindPlan(batches=2, files=4, rows=4)
    sink.publish(BatchId(3), ledger)
    assert rows(place) == expected(0, 1, 2, 3)
    again = opened(place, context(5))
    again.rewind(BatchId(0))
    again.discard(())
    again.publish(BatchId(1), staged(again, 5, 1))
    assert rows(place) == expected(0, 1)


def test_another_life_is_refused_and_a_newer_run_of_the_old_version_is_too(place: Path) -> None:
    with pytest.raises(Conflict, match="another life"):
        opened(place, context(1, "home-2"))
    with pytest.raises(Fenced):
        opened(place, context(2))
    opened(place, context(4))
    table = DeltaTable(str(place))
    assert table.transaction_version("holdfast-epoch:orders:home-1") == 4  # what fences a run of version 0.1.0
    with pytest.raises(Conflict, match="another life"):
        opened(place, context(9, "home-2"))
    new = opened(place, context(1, "home-2", new_life=True))
    new.publish(BatchId(0), staged(new, 1, 0))
    assert rows(place) == sorted(expected(0, 0, 1, 2))


def test_what_the_history_does_not_tell_any_more_cannot_be_taken_back(place: Path) -> None:
    append(place)
    expire(place)
    sink = opened(place, context(4))
    assert sink.plan_rewind(BatchId(0)).obstacle is not None
    sink.publish(BatchId(3), staged(sink, 4, 3))
    assert sink.plan_rewind(BatchId(2)) == RewindPlan(batches=1, files=2, rows=2)
