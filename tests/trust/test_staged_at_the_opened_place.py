"""R7: rows are staged at the place that the run has opened, not where its mount is away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.errors import Fenced, StorageNotThere
from holdfast.identifiers import BatchId
from holdfast.sinks.committed import Written
from tests.trust import delta_sink, files_sink
from tests.trust.files_sink import context

OPENED: dict[str, Callable[..., Any]] = {"delta": delta_sink.opened, "files": files_sink.opened}
ROWS = {"delta": delta_sink.rows, "files": files_sink.rows}


class Writer:
    """Stands in for Spark's, which makes every folder that is missing."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], object] = lambda: None

    def __call__(self, rows: list[int], directory: Path, partition_by: tuple[str, ...] = ()) -> Written:
        self.meanwhile()
        directory.mkdir(parents=True)
        path = directory / "part-0.parquet"
        pq.write_table(pa.table({"id": rows}), path)
        return Written(len(rows), {path: path.stat().st_size})


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Writer:
    writer = Writer()
    monkeypatch.setattr("holdfast.sinks.files.write_parquet", writer)
    monkeypatch.setattr("holdfast.sinks.delta.write_parquet", writer)
    monkeypatch.setattr("holdfast.sinks.delta.with_marked_values", lambda rows, partition_by: rows)
    return writer


@pytest.mark.parametrize("kind", ["delta", "files"])
def test_nothing_is_staged_below_a_mount_that_is_away(kind: str, tmp_path: Path, writer: Writer) -> None:
    place, away = tmp_path / "out", tmp_path / "away"
    sink = OPENED[kind](place, context())
    place.rename(away)
    with pytest.raises(StorageNotThere, match="not mounted"):
        sink.stage([1], BatchId(0))
    assert not place.exists()
    away.rename(place)
    sink.publish(BatchId(0), (sink.stage([1], BatchId(0)),))
    assert ROWS[kind](place) == [1]


@pytest.mark.parametrize("kind", ["delta", "files"])
def test_a_mount_that_goes_while_a_batch_is_written_fails_that_batch(kind: str, tmp_path: Path, writer: Writer) -> None:
    place = tmp_path / "out"
    sink = OPENED[kind](place, context())
    writer.meanwhile = lambda: place.rename(tmp_path / "away")
    with pytest.raises(StorageNotThere, match="not mounted"):
        sink.stage([1], BatchId(0))


@pytest.mark.parametrize("kind", ["delta", "files"])
def test_a_run_that_was_taken_over_is_told_so_and_not_that_a_mount_is_away(
    kind: str, tmp_path: Path, writer: Writer
) -> None:
    place = tmp_path / "out"
    sink = OPENED[kind](place, context(1))
    newer = OPENED[kind](place, context(2))
    newer.discard(())
    with pytest.raises(Fenced):
        sink.stage([1], BatchId(0))
