"""R5: ask everyone, then decide. A sink says what a rewind would do and whether it can before anything is given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import Conflict
from holdfast.identifiers import BatchId
from holdfast.sinks import Files, RewindPlan
from tests.trust.files_sink import columns, compact, context, expected, files_of, opened, published, rows, snapshot


class TestRewindOfFiles:
    def test_a_dry_rewind_says_what_goes_and_leaves_no_trace(self, tmp_path: Path) -> None:
        published(tmp_path, 0, 1, 2)
        before = snapshot(tmp_path)
        looked = Files(tmp_path)
        looked.look(context(), None, columns())  # type: ignore[arg-type]
        for sink in (looked, opened(tmp_path, context())):
            assert sink.plan_rewind(BatchId(0)) == RewindPlan(batches=2, files=4, rows=4)
            assert sink.plan_rewind(None) == RewindPlan(batches=3, files=6, rows=6)
            assert sink.plan_rewind(BatchId(2)) == RewindPlan()
        assert snapshot(tmp_path) == before

    def test_batches_of_which_only_the_number_is_known_can_be_taken_back(self, tmp_path: Path) -> None:
        sink = published(tmp_path, 0, 1, 2)
        sink.forget(BatchId(1))
        assert sink.plan_rewind(BatchId(0)) == RewindPlan(batches=2, files=4, rows=4)
        sink.rewind(BatchId(0))
        assert rows(tmp_path) == expected(0)
        assert opened(tmp_path, context(2)).published() == 0

    @pytest.mark.parametrize("forgotten", [False, True])
    def test_what_somebody_compacted_cannot_be_taken_back(self, tmp_path: Path, forgotten: bool) -> None:
        """Today's code removed what it still found and wrote the batches again: 30 of 40 rows were there twice."""
        sink = published(tmp_path, 0, 1, 2, 3)
        if forgotten:
            sink.forget(BatchId(2))
        compact(tmp_path, files_of(tmp_path, 1, 2, 3))
        before = snapshot(tmp_path)
        plan = sink.plan_rewind(BatchId(0))
        assert plan.obstacle is not None
        assert "compacted.parquet" in plan.obstacle
        with pytest.raises(Conflict, match="compacted"):
            sink.rewind(BatchId(0))
        assert snapshot(tmp_path) == before
        assert rows(tmp_path) == expected(0, 1, 2, 3)

    def test_nor_when_the_compaction_was_accepted(self, tmp_path: Path) -> None:
        published(tmp_path, 0, 1, 2, 3)
        compact(tmp_path, files_of(tmp_path, 1, 2, 3))
        sink = opened(tmp_path, context(2, accept=True))
        assert sink.published() == 3
        with pytest.raises(Conflict, match="compacted"):
            sink.rewind(BatchId(0))
        with pytest.raises(Conflict, match="compacted"):
            opened(tmp_path, context(3)).rewind(BatchId(0))
        assert rows(tmp_path) == expected(0, 1, 2, 3)

    def test_deleted_files_are_taken_back_when_that_was_accepted(self, tmp_path: Path) -> None:
        published(tmp_path, 0, 1, 2)
        files_of(tmp_path, 2)[0].unlink()
        sink = opened(tmp_path, context(2, accept=True))
        sink.rewind(BatchId(0))
        assert rows(tmp_path) == expected(0)
        assert opened(tmp_path, context(3)).published() == 0
