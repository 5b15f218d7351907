"""A checkpoint as a trace of OpenTelemetry: its phases are spans, and in the copying phase its slowest shards.

Spans are made when the checkpoint has ended, from its record. They are sent in the background by threads of the
library: a collector that is down, slow or hanging delays nothing.
"""

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from holdfast.coordination.history import CheckpointRecord
from holdfast.coordination.lifecycle import Phase
from holdfast.errors import InvalidSettings
from holdfast.version import VERSION

_EXPORT_S = 5.0
"""One attempt to send."""


class Traces:
    def __init__(self, url: str, job: str) -> None:
        """`url`: a collector that takes OTLP over HTTP. Raises `InvalidSettings` where the extra is missing."""
        require_traces()
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        endpoint = f"{url.rstrip('/')}/v1/traces"
        resource = Resource.create({"service.name": "holdfast", "service.version": VERSION, "holdfast.job": job})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint, timeout=_EXPORT_S)))
        self._tracer = self._provider.get_tracer("holdfast", VERSION)

    def checkpoint(self, record: CheckpointRecord, triggered_at: datetime) -> None:
        """Puts its spans in a queue, and drops them when that is full."""
        from opentelemetry.trace import set_span_in_context

        took = record.ended_at - record.triggered_at
        root = self._begin(record.kind, triggered_at, None, _about(record))
        inside = set_span_in_context(root)
        for phase, begin, end in _phases(record):
            span = self._begin(phase.value, triggered_at + begin, inside, {})
            if phase is Phase.COPYING:
                self._shards(record, triggered_at + begin, set_span_in_context(span))
            self._end(span, triggered_at + end)
        if record.failure is not None:
            from opentelemetry.trace import Status, StatusCode

            root.set_status(Status(StatusCode.ERROR, f"{record.failure.reason.value}: {record.failure.message}"))
        self._end(root, triggered_at + timedelta(seconds=took))

    def close(self, limit: float) -> None:
        """What is still in the queue gets this many seconds."""
        ending = threading.Thread(target=self._provider.shutdown, name="holdfast-traces", daemon=True)
        ending.start()
        ending.join(limit)

    def _shards(self, record: CheckpointRecord, begin: datetime, inside: Any) -> None:
        for shard in record.slowest:
            facts: dict[str, Any] = {
                "holdfast.shard": shard.shard,
                "holdfast.bytes": shard.bytes_total,
                "holdfast.bytes_new": shard.bytes_new,
                "holdfast.files": shard.files,
            }
            if shard.host:
                facts["host.name"] = shard.host
            span = self._begin(f"shard {shard.shard}", begin, inside, facts)
            self._end(span, begin + timedelta(seconds=shard.seconds))

    def _begin(self, name: str, at: datetime, inside: Any, facts: dict[str, Any]) -> Any:
        return self._tracer.start_span(name, inside, attributes=facts, start_time=_nanoseconds(at))

    def _end(self, span: Any, at: datetime) -> None:
        span.end(_nanoseconds(at))


def require_traces() -> None:
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401
    except ModuleNotFoundError as error:
        raise InvalidSettings(f"could not send traces: {error}", hint="pip install 'holdfast-spark[traces]'") from error


def _phases(record: CheckpointRecord) -> Iterator[tuple[Phase, timedelta, timedelta]]:
    """Each with its begin and its end, counted from the trigger."""
    begin = timedelta(0)
    for phase, seconds in record.phases:
        end = begin + timedelta(seconds=seconds)
        yield phase, begin, end
        begin = end


def _about(record: CheckpointRecord) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "holdfast.batch": record.barrier,
        "holdfast.shards": record.shards,
        "holdfast.shards_acknowledged": record.shards_acknowledged,
        "holdfast.bytes": record.bytes_total,
        "holdfast.bytes_new": record.bytes_new,
        "holdfast.files": record.files,
        "holdfast.objects_written": record.objects_written,
    }
    if record.id is not None:
        facts["holdfast.checkpoint"] = record.id
    if record.name is not None:
        facts["holdfast.savepoint"] = record.name
    return facts


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1e6) * 1000
