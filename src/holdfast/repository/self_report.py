"""What a run reports about itself with each heartbeat: in `owner.json` of its home, and in a state file on its host.

The state file serves while the home cannot be written and only the process has its failures and alarms: commands on the
same host read them from the file. It decides nothing and can be deleted at any time.
"""

import errno
import os
from pathlib import Path
from typing import Literal

import msgspec

from holdfast.identifiers import AttemptId, BatchId, CheckpointId, FencingEpoch
from holdfast.repository.entries import BatchSpan, Failure, Process, SkippedRecords
from holdfast.repository.moments import Moment

NAME = "state.json"
FORMAT = 1
PAST_ALARMS = 12
_ROOM = 16_384
"""Minimum size of a state file: on a full disk a file of that size can still be overwritten in place."""
_READINGS = 3


class ReportedAlarm(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    severity: Literal["critical", "warning", "info"]
    message: str
    hint: str
    at: Moment
    since: Moment | None = None
    """When it began; null in reports of older versions."""


class PastAlarm(msgspec.Struct, frozen=True, kw_only=True):
    """One that is over, or that its run took along when it died."""

    code: str
    severity: Literal["critical", "warning", "info"]
    message: str
    since: Moment
    until: Moment


class ReportedRecovery(msgspec.Struct, frozen=True, kw_only=True):
    """What a start on an empty disk would do now."""

    batches_behind: int
    """Behind the newest checkpoint: they are repeated."""
    seconds: float
    """So long it would take, about: restoring, and repeating."""
    target_s: float | None
    """Null when there is no target."""
    fall_back_batches: int | None = None
    """That are repeated if the newest checkpoint is damaged; null when there is no older one, as far as is known."""
    fall_back_seconds: float | None = None
    """So long it would take then, about."""


class ReportedPartition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    topic: str
    partition: int
    processed: int
    """Records that no committed batch has."""
    published: int | None = None
    """Records that readers of the sink do not see; null when that is not known."""


class ReportedLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far the query is behind its Kafka topics."""

    at: Moment
    processed: int
    """Records that no committed batch has."""
    published: int | None = None
    """Records that readers of the sink do not see; null when that is not known."""
    seconds: float | None = None
    """Estimated age of the oldest record that no committed batch has; null when not known yet."""
    at_least: bool = False
    """It is older than `seconds`: the run has not watched for longer."""
    trend: Literal["growing", "shrinking", "steady"] | None = None
    caught_up_in_s: float | None = None
    """At the pace of the last minutes; null when it does not shrink."""
    partitions: tuple[ReportedPartition, ...] = ()
    """Those with the largest lag first, a thousand at most."""


class ReportedReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the query read its Kafka topics in the last minutes."""

    batches: int
    every_s: float
    """From the beginning of a batch to that of the next."""
    batch_s: float
    """How long a batch took, on average."""
    records: int
    partitions: int
    tasks: int
    """That read: one for each partition, or as many as `minPartitions` says."""
    idle: int = 0
    """Partitions that gave nothing."""
    cores: int | None = None
    hottest: str | None = None
    """The partition that gave most."""
    hottest_records: int = 0
    max_offsets: int | None = None
    """The limit of a batch; null when there is none."""


class ReportedRestorable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long the sources keep what a checkpoint needs."""

    id: CheckpointId
    until: Moment | None = None
    """Estimated, rather too early; null when records do not age."""
    gone: bool = False
    """Something that it needs is already deleted."""
    source: Literal["kafka", "delta", "files"] = "kafka"
    """The kind of the source that limits it."""
    by_size: bool = False
    """Records may go earlier, when others come."""
    compacts: bool = False
    """Older records of a key go: what is read again may be less."""


class SelfReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    phase: Literal["starting", "running", "ending", "ended"] = "running"
    query_runs: bool = False
    restarts: int = 0
    """Restarts of the query in this run."""
    batch: BatchId | None = None
    """The newest batch that Spark has committed."""
    published: BatchId | None = None
    last_completed: CheckpointId | None = None
    """By this run."""
    last_completed_at: Moment | None = None
    consecutive_failures: int = 0
    last_failure: Failure | None = None
    failed_at: Moment | None = None
    alarms: tuple[ReportedAlarm, ...] = ()
    """Active alarms."""
    past_alarms: tuple[PastAlarm, ...] = ()
    """Of this run and those before it, oldest first; few: `PAST_ALARMS`. Display only."""
    recovery: ReportedRecovery | None = None
    """None when no recovery repeats batches."""
    restorable: tuple[ReportedRestorable, ...] = ()
    """Oldest first, as far as that is known."""
    kafka_lag: ReportedLag | None = None
    """None when the query has no Kafka source, or the brokers were not asked or did not answer."""
    batches: tuple[BatchSpan, ...] = ()
    """That no completed checkpoint has, oldest first; few: `batch_spans.KEPT`."""
    kafka_reading: ReportedReading | None = None
    """None before a few batches have read something."""
    kafka_skipped: tuple[SkippedRecords, ...] = ()
    """Records that the brokers deleted before the query read them, by this run; with failOnDataLoss=false."""
    ended_reason: str = ""


class LocalState(msgspec.Struct, frozen=True, kw_only=True):
    """The state file."""

    format: int = FORMAT
    job: str
    home: str
    process: Process
    fencing_epoch: FencingEpoch
    claim: AttemptId
    started_at: Moment
    written_at: Moment
    uptime_s: float
    """Time of writing by the host's monotonic clock, which all its processes share until the next boot."""
    heartbeat_s: float
    """A run that is not stuck writes the file at least this often."""
    interval_s: float
    """Between checkpoints."""
    report: SelfReport


# Created at import: msgspec crashes the process when threads create the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(LocalState)


def read_local_state(path: Path) -> LocalState | None:
    """None when there is none, when it may not be read, or when this version does not understand it."""
    for _ in range(_READINGS):
        try:
            state = _DECODER.decode(path.read_bytes())
        except OSError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # it may be being overwritten
        return state if state.format <= FORMAT else None
    return None


def write_local_state(path: Path, state: LocalState) -> None:
    """Readers find the old state or the new one. Only the user may read it: messages may contain private names.

    On a full disk it overwrites the old state in place, which needs no space.
    """
    data = msgspec.json.encode(state).ljust(_ROOM)
    beside = path.with_name(f".{path.name}-{state.fencing_epoch}")
    try:
        _write(beside, data, os.O_CREAT | os.O_TRUNC)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _write(path, data, 0)


def _write(path: Path, data: bytes, flags: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | flags, 0o600), "wb") as file:
        file.write(data)
        file.truncate()
