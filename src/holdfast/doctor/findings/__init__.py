"""The knowledge base: one module per finding.

Imports `matching` and `reading`. Never reads a file.
"""

from holdfast.doctor.findings import (
    batch_falls_behind,
    checkpoint_expired,
    concurrent_stream_log,
    discarded_checkpoint,
    executor_lost,
    incompatible_change,
    job_failed,
    kafka_commit_failed,
    kafka_idle_consumers,
    kafka_reconnect_loop,
    metadata_exists,
    offset_out_of_range,
    out_of_memory,
    restart_loop,
    snapshot_write_failed,
    state_unreadable,
    tasks_not_running,
    tolerable_exceeded,
    watermark_stalled,
)
from holdfast.doctor.findings.knowledge import Knowledge

KNOWLEDGE: tuple[Knowledge, ...] = (
    metadata_exists.KNOWLEDGE,
    discarded_checkpoint.KNOWLEDGE,
    snapshot_write_failed.KNOWLEDGE,
    tolerable_exceeded.KNOWLEDGE,
    checkpoint_expired.KNOWLEDGE,
    tasks_not_running.KNOWLEDGE,
    state_unreadable.KNOWLEDGE,
    kafka_commit_failed.KNOWLEDGE,
    kafka_reconnect_loop.KNOWLEDGE,
    kafka_idle_consumers.KNOWLEDGE,
    concurrent_stream_log.KNOWLEDGE,
    offset_out_of_range.KNOWLEDGE,
    out_of_memory.KNOWLEDGE,
    executor_lost.KNOWLEDGE,
    watermark_stalled.KNOWLEDGE,
    incompatible_change.KNOWLEDGE,
    restart_loop.KNOWLEDGE,
    job_failed.KNOWLEDGE,
    batch_falls_behind.KNOWLEDGE,
)
