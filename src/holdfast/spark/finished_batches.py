"""What Spark says of the batches that a query has finished."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.repository.entries import BatchSpan


def finished_batches(query: StreamingQuery | None, after: BatchId) -> tuple[BatchSpan, ...]:
    """Those behind `after` that Spark still tells of, oldest first. Nothing when the JVM does not say."""
    try:
        listed = query._jsq.recentProgress() if query is not None else ()
        found: list[BatchSpan] = []
        for number in reversed(range(len(listed))):
            span = span_of(json.loads(listed[number].json()))
            if span.last <= after:
                break
            found.append(span)
        return tuple(reversed(found))
    except Exception as error:  # the JVM may be gone
        log.debug("could not ask Spark about its batches: %s", error)
        return ()


def span_of(progress: dict[str, Any]) -> BatchSpan:
    """Of one report of Spark's."""
    batch, ms = BatchId(progress["batchId"]), int(progress["batchDuration"])
    at = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).astimezone(UTC)
    operators = progress.get("stateOperators") or ()
    state = sum(int(each["numRowsTotal"]) for each in operators) if operators else None
    return BatchSpan(batch, batch, at + timedelta(milliseconds=ms), ms, ms, int(progress["numInputRows"]), state)
