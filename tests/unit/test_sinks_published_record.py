"""The record of what is published, against publishes and rewinds played forwards."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, FencingEpoch, JobName
from holdfast.sinks import StagedBatch
from holdfast.sinks.ledger import require_unbroken
from holdfast.sinks.published_record import NO_PAGE, Page, PublishedRecord, RecordedBatch, RecordedFile


@pytest.fixture(autouse=True)
def _no_flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


MOVES = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(-1, 12)), max_size=12)


@settings(deadline=None)
@given(MOVES, st.integers(-1, 12), st.integers(-1, 12))
def test_it_tells_what_was_shown_and_not_taken_back(
    moves: list[tuple[bool, bool, int]], after: int, forgotten: int
) -> None:
    """A move is a publish or a rewind; one that does not stand leaves its page and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        record = PublishedRecord(Path(folder), JobName("orders"))
        head, published, visible = NO_PAGE, -1, dict[int, RecordedBatch]()
        for number, (forwards, stands, target) in enumerate(moves):
            if (target > published) != forwards or target == published:
                continue
            added = tuple(batch_of(n, number) for n in range(published + 1, target + 1)) if forwards else ()
            page = record.write(Page(target, added, head))
            if stands:
                head, published = page, target
                visible = {n: batch for n, batch in visible.items() if n <= target}
                visible |= {batch.batch_id: batch for batch in added}
        expected = tuple(batch for n, batch in sorted(visible.items()) if n > after)
        known = record.read(head, after, published)
        assert known.complete
        assert known.batches == expected
        record.keep_only(head, record.pages())
        assert record.read(head, after, published) == known
        record.forget(BatchId(forgotten))
        later = record.read(head, max(after, forgotten), published)
        assert later.complete
        assert later.batches == tuple(batch for batch in expected if batch.batch_id > forgotten)


def batch_of(batch: int, attempt: int) -> RecordedBatch:
    return RecordedBatch(BatchId(batch), (RecordedFile(f"{batch}-{attempt}", 10, 3),))


@given(st.integers(-1, 9), st.integers(-1, 12), st.sets(st.integers(0, 12)))
def test_only_an_unbroken_ledger_is_published(published: int, upto: int, batches: set[int]) -> None:
    ledger = tuple(StagedBatch(BatchId(batch), FencingEpoch(1), ()) for batch in sorted(batches))
    newest = None if published == -1 else BatchId(published)
    missing = set(range(published + 1, upto + 1)) - batches
    if missing:
        with pytest.raises(Conflict, match=str(min(missing))):
            require_unbroken(newest, BatchId(upto), ledger)
    else:
        require_unbroken(newest, BatchId(upto), ledger)
