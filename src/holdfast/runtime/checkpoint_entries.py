"""What the journal is told about a checkpoint that ended."""

from dataclasses import dataclass
from datetime import datetime

from holdfast.checkpoint.manifest import Manifest
from holdfast.coordination import headroom
from holdfast.coordination.history import SLOWEST_KEPT, CheckpointRecord
from holdfast.identifiers import Digest, FencingEpoch, Sequence, ShardId
from holdfast.repository.entries import (
    CheckpointCompleted,
    CheckpointFailed,
    Failure,
    Headroom,
    Phase,
    Requests,
    ShardSummary,
)
from holdfast.repository.journal import MakeEntry
from holdfast.runtime.attempt import Attempt


@dataclass(frozen=True)
class Stored:
    """A manifest in the home."""

    digest: Digest
    size: int


def completed_entry(
    attempt: Attempt,
    manifest: Manifest,
    stored: Stored,
    now: float,
    requests: Requests | None,
    found: headroom.Headroom | None,
) -> MakeEntry:
    copies = attempt.copies.values()
    ends = [at for _, at in attempt.entered[1:]] + [now]
    slowest = sorted(attempt.copied_after, key=attempt.copied_after.__getitem__, reverse=True)[:SLOWEST_KEPT]
    return lambda sequence, entry_attempt, at: CheckpointCompleted(
        sequence=sequence,
        attempt=entry_attempt,
        at=at,
        fencing_epoch=manifest.fencing_epoch,
        id=manifest.checkpoint,
        checkpoint_kind=attempt.kind,
        name=attempt.name,
        barrier_batch_id=attempt.barrier,
        manifest=stored.digest,
        triggered_at=attempt.triggered_at,
        duration_ms=round((now - attempt.started) * 1000),
        bytes_total=manifest.bytes_total,
        bytes_new=sum(copy.bytes_new for copy in copies),
        manifest_bytes=stored.size,
        files=len(manifest.files()),
        objects_written=sum(copy.objects_written for copy in copies) + 1,
        shards=len(manifest.shards),
        phases=tuple(
            Phase(name, round((end - begun) * 1000)) for (name, begun), end in zip(attempt.entered, ends, strict=True)
        ),
        slowest=tuple(_summary(attempt, shard) for shard in slowest),
        requests=requests,
        headroom=_rounded(found),
    )


def failed_entry(record: CheckpointRecord, triggered_at: datetime, epoch: FencingEpoch, head: Sequence) -> MakeEntry:
    assert record.failure is not None
    failure = record.failure
    return lambda sequence, attempt, at: CheckpointFailed(
        sequence=sequence,
        attempt=attempt,
        at=at,
        fencing_epoch=epoch,
        id=record.id,
        checkpoint_kind=record.kind,
        name=record.name,
        barrier_batch_id=record.barrier,
        triggered_at=triggered_at,
        duration_ms=round((record.ended_at - record.triggered_at) * 1000),
        failure=Failure(
            failure.reason.value,
            f"shard {failure.shard}: {failure.message}" if failure.shard else failure.message,
            failure.reason.counted and record.kind == "checkpoint",
            failure.reason.rule.hint,
        ),
        shards=record.shards,
        shards_acknowledged=record.shards_acknowledged,
        bytes_new=record.bytes_new,
        phases=tuple(Phase(phase.value, round(seconds * 1000)) for phase, seconds in record.phases),
        slowest=tuple(
            ShardSummary(s.shard, round(s.seconds * 1000), s.bytes_total, s.bytes_new, s.files) for s in record.slowest
        ),
        head=head,
    )


def _rounded(found: headroom.Headroom | None) -> Headroom | None:
    if found is None:
        return None
    return Headroom(
        needed_ms=round(found.needed_s * 1000),
        lives_ms=round(found.lives_s * 1000),
        batches_retained=found.batches_retained,
        pinned=found.pinned,
    )


def _summary(attempt: Attempt, shard: ShardId) -> ShardSummary:
    copy = attempt.copies[shard]
    return ShardSummary(
        shard,
        round(attempt.copied_after[shard] * 1000),
        sum(file.size for file in copy.files),
        copy.bytes_new,
        len(copy.files),
    )
