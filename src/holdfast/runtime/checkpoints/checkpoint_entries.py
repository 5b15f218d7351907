"""Builds the journal entries of a completed or failed checkpoint."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from holdfast.checkpoint.manifest import Manifest
from holdfast.checkpoint.packed_plans import packed_after, packed_range
from holdfast.coordination import headroom, lifecycle
from holdfast.coordination.history import CheckpointRecord
from holdfast.identifiers import BatchId, Digest, Sequence
from holdfast.repository.entries import (
    BatchSpan,
    CheckpointCompleted,
    CheckpointFailedEntry,
    Failure,
    PhaseDuration,
    RecordedHeadroom,
    Requests,
    ShardSummary,
    SkippedRecords,
)
from holdfast.repository.journal import MakeEntry
from holdfast.sources.skipped import Skipped


@dataclass(frozen=True)
class Stored:
    """A stored manifest."""

    digest: Digest
    size: int


def completed_entry(
    progress: CheckpointRecord,
    triggered_at: datetime,
    manifest: Manifest,
    stored: Stored,
    now: float,
    requests: Requests | None,
    found: headroom.Headroom | None,
    line: Sequence,
    batches: tuple[BatchSpan, ...],
    writer_has: BatchId | None,
    skipped: Skipped,
    told: Collection[Digest],
) -> MakeEntry:
    """`told`: digests of packed plans that earlier entries name."""
    packs = tuple(file for file in manifest.files() if packed_range(file.path) is not None)
    return lambda stamp: CheckpointCompleted(
        **stamp,
        id=manifest.checkpoint,
        checkpoint_kind=progress.kind,
        name=progress.name,
        barrier_batch_id=progress.barrier,
        manifest=stored.digest,
        triggered_at=triggered_at,
        duration_ms=_ms(now - progress.triggered_at),
        bytes_total=manifest.bytes_total,
        bytes_new=progress.bytes_new,
        manifest_bytes=stored.size,
        files=len(manifest.files()),
        objects_written=progress.objects_written + 1,
        shards=len(manifest.shards),
        phases=(*_phases(progress), PhaseDuration(lifecycle.Phase.SEALING.value, _ms(now - progress.ended_at))),
        slowest=_slowest(progress),
        requests=requests,
        headroom=_rounded(found),
        line=line,
        batches=batches,
        writer_has=writer_has,
        packed_after=packed_after((file.path for file in packs), progress.barrier),
        packed=tuple(file for file in packs if file.digest not in told),
        skipped=tuple(SkippedRecords(part.topic, part.number, count) for part, count in sorted(skipped.items())),
    )


def failed_entry(record: CheckpointRecord, triggered_at: datetime, head: Sequence) -> MakeEntry:
    assert record.failure is not None
    failure = record.failure
    return lambda stamp: CheckpointFailedEntry(
        **stamp,
        id=record.id,
        checkpoint_kind=record.kind,
        name=record.name,
        barrier_batch_id=record.barrier,
        triggered_at=triggered_at,
        duration_ms=_ms(record.ended_at - record.triggered_at),
        failure=Failure(
            failure.reason.value,
            f"shard {failure.shard}: {failure.message}" if failure.shard else failure.message,
            failure.reason.counted and record.kind == "checkpoint",
            failure.reason.rule.hint,
        ),
        shards=record.shards,
        shards_acknowledged=record.shards_acknowledged,
        bytes_new=record.bytes_new,
        phases=_phases(record),
        slowest=_slowest(record),
        head=head,
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _phases(record: CheckpointRecord) -> tuple[PhaseDuration, ...]:
    return tuple(PhaseDuration(phase.value, _ms(seconds)) for phase, seconds in record.phases)


def _slowest(record: CheckpointRecord) -> tuple[ShardSummary, ...]:
    return tuple(
        ShardSummary(s.shard, _ms(s.seconds), s.bytes_total, s.bytes_new, s.files, s.host) for s in record.slowest
    )


def _rounded(found: headroom.Headroom | None) -> RecordedHeadroom | None:
    if found is None:
        return None
    return RecordedHeadroom(
        needed_ms=_ms(found.needed_s),
        lives_ms=_ms(found.kept_s),
        batches_retained=found.batches_retained,
        pinned=found.pinned,
    )
