"""S6: a batch that is staged again and again leaves few copies, and none when it is published. Without Spark."""

from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.errors import HoldfastError
from holdfast.identifiers import BatchId
from holdfast.sinks import Delta, Files, StagedBatch
from holdfast.sinks.committed import Written
from tests.trust import delta_sink, files_sink
from tests.trust.files_sink import columns, context

ROWS = 2


class Staging:
    """Batches written by pyarrow through the sink's own `stage`; what Spark writes is given from outside."""

    def __init__(self, place: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.kind = place, kind
        self.broken = False
        numbers = count()
        unique = lambda: f"u{next(numbers)}"  # noqa: E731
        self.sink: Any = Delta(place, unique=unique) if kind == "delta" else Files(place, unique=unique)
        monkeypatch.setattr(f"holdfast.sinks.{kind}.write_parquet", self._write)
        if kind == "delta":
            monkeypatch.setattr("holdfast.sinks.delta.with_marked_values", lambda batch, columns: batch)
        self.sink.open(context(), None, columns())

    def _write(self, batch: int, directory: Path, partition_by: tuple[str, ...] = ()) -> Written:
        directory.mkdir(parents=True)
        for number in range(ROWS):
            pq.write_table(pa.table({"id": [batch * 10 + number]}), directory / f"part-{number}.parquet")
            if self.broken:
                raise HoldfastError("an executor died")
        return Written(ROWS, {path: path.stat().st_size for path in directory.iterdir()})

    def stage(self, batch: int) -> StagedBatch:
        staged: StagedBatch = self.sink.stage(batch, BatchId(batch))
        return staged

    def copies(self) -> list[str]:
        """Directories with something of a batch in them."""
        staged = [path for path in self.place.rglob("part-*.parquet") if path.parent != self.place]
        return sorted({path.parent.name for path in staged})

    def rows(self) -> list[int]:
        return delta_sink.rows(self.place) if self.kind == "delta" else files_sink.rows(self.place)


@pytest.fixture(params=["delta", "files"])
def staging(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Staging:
    return Staging(tmp_path / "out", request.param, monkeypatch)


def test_four_failures_while_a_batch_is_written_leave_one_copy(staging: Staging) -> None:
    staging.broken = True
    for _ in range(4):
        with pytest.raises(HoldfastError, match="an executor died"):
            staging.stage(0)
        assert staging.copies() == []
    staging.broken = False
    newest = staging.stage(0)
    assert len(staging.copies()) == 1
    staging.sink.publish(BatchId(0), (newest,))
    assert staging.rows() == files_sink.expected(0)


def test_four_failures_after_a_batch_was_written_leave_two_copies_and_then_one(staging: Staging) -> None:
    """Between the staged files and the commit: each copy is whole, and the ledger may name the last but one."""
    for _ in range(4):
        staging.stage(0)
    newest = staging.stage(0)
    assert len(staging.copies()) == 2
    staging.sink.publish(BatchId(0), (newest,))
    assert staging.rows() == files_sink.expected(0)
    assert len(staging.copies()) == (1 if staging.kind == "delta" else 0), "in a table the files stay where they are"


def test_a_batch_that_was_taken_back_and_is_made_anew_keeps_what_the_table_still_names(staging: Staging) -> None:
    first = staging.stage(0)
    staging.sink.publish(BatchId(0), (first,))
    staging.sink.rewind(None)
    staging.sink.discard(())
    for _ in range(3):
        newest = staging.stage(0)
    staging.sink.publish(BatchId(0), (newest,))
    assert staging.rows() == files_sink.expected(0)
    if staging.kind == "delta":
        assert (staging.place / first.files[0].path).exists(), "an older version of the table has it"


def test_what_is_published_stays_also_when_the_ledger_named_an_older_attempt(staging: Staging) -> None:
    """A ledger entry that was written late."""
    named = [staging.stage(0) for _ in range(3)][1]
    staging.sink.publish(BatchId(0), (named,))
    staging.sink.publish(BatchId(0), (named,))
    assert staging.rows() == files_sink.expected(0)
