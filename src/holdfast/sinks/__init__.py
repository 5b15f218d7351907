"""Sinks with exactly-once output: `Delta` tables and `Files` of Parquet. Implement `Sink` for another kind of sink.

Imports `storage` and below, and PySpark. Never decides what is published: the coordinator does.
"""

from holdfast.sinks.delta import Delta
from holdfast.sinks.files import Files
from holdfast.sinks.protocol import RewindPlan, Sink, SinkContext, SinkState, StagedBatch, StagedFile
from holdfast.sinks.urls import parse_sink

__all__ = [
    "Delta",
    "Files",
    "RewindPlan",
    "Sink",
    "SinkContext",
    "SinkState",
    "StagedBatch",
    "StagedFile",
    "parse_sink",
]
