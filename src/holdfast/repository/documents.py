"""The JSON documents of the public contract about a job. Field names are public; more may be added, none may change."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from holdfast.identifiers import BatchId, CheckpointId, Digest, FencingEpoch
from holdfast.repository.entries import (
    BatchSpan,
    Failure,
    PhaseDuration,
    RecordedHeadroom,
    Requests,
    ShardSummary,
    SkippedRecords,
)
from holdfast.repository.self_report import ReportedAlarm, ReportedLag, ReportedReading, ReportedRecovery

CheckpointStatus = Literal["completed", "failed", "in_progress", "retired"]
CheckpointKind = Literal["checkpoint", "savepoint"]
Health = Literal["well", "warning", "critical"]
RunState = Literal["running", "ended", "lost", "never_run"]
"""`ended`: the newest run recorded its end. `lost`: it did not, and it is not alive."""


class CheckpointDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint. Fields that do not apply to its status are null."""

    id: CheckpointId | None
    status: CheckpointStatus
    kind: CheckpointKind
    name: str | None
    barrier_batch_id: BatchId | None
    fencing_epoch: FencingEpoch
    triggered_at: datetime
    completed_at: datetime | None = None
    duration_ms: int | None = None
    bytes_total: int | None = None
    bytes_new: int | None = None
    files: int | None = None
    objects_written: int | None = None
    requests: Requests | None = None
    """The run's requests to the home since the previous checkpoint."""
    shards: int | None = None
    shards_acknowledged: int | None = None
    failure: Failure | None = None
    corrupt: str | None = None
    """The damage that was found; recovery never chooses such a checkpoint."""
    abandoned: bool = False
    """The job went back to an older one and continued from there; recovery never chooses this one."""
    usable: bool = False
    """A start can resume from it, as far as is known without reading its bytes."""
    unusable_because: str | None = None
    source_until: datetime | None = None
    """About until then its sources keep what it needs; null when that is not known, or when records do not age."""
    source_gone: bool = False
    """One of its sources no longer has what it needs."""


class CheckpointDetail(CheckpointDocument, frozen=True, kw_only=True):
    """One checkpoint with its details."""

    bytes_reused: int | None = None
    manifest: Digest | None = None
    verified_at: datetime | None = None
    """When every byte was last read and found right, as far as that is noted."""
    phases: tuple[PhaseDuration, ...] = ()
    slowest_shards: tuple[ShardSummary, ...] = ()
    headroom: RecordedHeadroom | None = None
    batches: tuple[BatchSpan, ...] = ()
    """Since the checkpoint before, as far as Spark told in time."""
    skipped: tuple[SkippedRecords, ...] = ()
    """Records that the brokers deleted before the query read them."""


class RestartDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The query failed, and its run restarted it."""

    number: int
    """Counted from 1 in each run."""
    fencing_epoch: FencingEpoch
    at: datetime
    cause: str
    message: str
    hint: str | None
    duration_ms: int | None
    """From the failure until the query ran again; null when the attempt failed."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """A run, alive or not."""

    host: str
    pid: int
    identity: str | None
    application_id: str | None
    fencing_epoch: FencingEpoch
    started_at: datetime
    heartbeat_at: datetime | None


class PlansLateDocument(msgspec.Struct, frozen=True, kw_only=True):
    first_batch: int
    last_batch: int
    since: datetime | None
    """Null when the first of them went on in an earlier run."""
    until: datetime


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    home: str
    state: RunState
    running: bool
    owner: Owner | None
    """The newest run of the pipeline."""
    last_completed: CheckpointDocument | None
    seconds_since_last_completed: float | None
    consecutive_failures: int
    last_failure: CheckpointDocument | None
    """The newest of the consecutive failures, null when there are none."""
    last_usable: CheckpointDocument | None = None
    """The checkpoint that a start resumes from; not `last_completed` if that is damaged."""
    interval_s: float | None = None
    """Between checkpoints, by the newest run's settings; null when unknown."""
    alarms: tuple[ReportedAlarm, ...] = ()
    """Active alarms of the running process."""
    health: Health = "well"
    """The severity of the worst finding."""
    ended_at: datetime | None
    ended_reason: str | None
    restarts: int = 0
    """Of the query, by the newest run of the pipeline."""
    last_restart: RestartDocument | None = None
    plans_late: PlansLateDocument | None = None
    """The last time that batches of the query's own writer ran without a durable plan. While they do: an alarm."""
    recovery: ReportedRecovery | None = None
    """How long a start on an empty disk would take now, while the newest run lives or after it vanished; null when no
    plans of batches are kept."""
    rollback: int | None = None
    """The checkpoint that `holdfast rollback` took the job back to, until a start has gone there."""
    kafka_lag: ReportedLag | None = None
    kafka_reading: ReportedReading | None = None
    kafka_skipped: tuple[SkippedRecords, ...] = ()
    """How far the running query is behind its Kafka topics; null when that is not known."""
    maintenance: Owner | None = None
    """The command that is writing to the job right now, while the pipeline does not run."""
    protects: str | None = None
    """The checkpoint directory of somebody else's query that the newest run only reads; null for a query of its own."""
    findings: tuple[dict[str, Any], ...] = ()


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    home: str
    jobs: tuple[JobView, ...]


class CheckpointList(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    home: str
    checkpoints: tuple[CheckpointDocument, ...]
    restarts: tuple[RestartDocument, ...] = ()
    """Of the query, newest first, as far as the journal still holds them."""


class SavepointList(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    home: str
    savepoints: tuple[CheckpointDocument, ...]
