"""What the newest batches read of their Kafka topics, from the progress that Spark keeps of a query."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from holdfast.checkpoint.spark_files import NotUnderstood
from holdfast.identifiers import BatchId
from holdfast.sources.positions import parsed
from holdfast.sources.reading import BatchRead, SourceRead


def batches_read(query: StreamingQuery, since: datetime | None) -> tuple[BatchRead, ...]:
    """Those that began after `since` and had something to read, oldest first."""
    found: list[BatchRead] = []
    for kept in reversed(list(query._jsq.recentProgress())):
        progress = json.loads(kept.json())
        at = datetime.fromisoformat(progress["timestamp"])
        if since is not None and at <= since:
            break
        batch = _batch(at, progress)
        if any(source.records for source in batch.sources):
            found.append(batch)
    return tuple(reversed(found))


def _batch(at: datetime, progress: Mapping[str, Any]) -> BatchRead:
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    return BatchRead(BatchId(progress["batchId"]), at, seconds, tuple(_sources(progress)))


def _sources(progress: Mapping[str, Any]) -> Iterator[SourceRead]:
    for source in progress["sources"]:
        try:
            start, end = (parsed(json.dumps(source[name])) for name in ("startOffset", "endOffset"))
        except NotUnderstood:  # not Kafka, or its first batch
            continue
        yield SourceRead(start, end, source["numInputRows"])
