"""Makes a checkpoint of a directory that no run of the job works in: copies it, and records it in the journal.

The checkpoint exists when the journal has it, which is after all of its objects.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.checkpoint.layout import SnapshotPlan
from holdfast.checkpoint.manifest import FORMAT, Manifest, ManifestShard, digest_of, encode_manifest, manifest_key
from holdfast.checkpoint.query_facts import QueryFacts, described
from holdfast.errors import HomeReplaced
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch
from holdfast.repository.absence import missing
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import Adopted, CheckpointCompleted, CheckpointStarted, Rescaled, Stamp
from holdfast.repository.journal import Journal
from holdfast.repository.lines import line_of
from holdfast.runtime.commands.copying import JobHome
from holdfast.snapshot.carrier import ShardCopy, copy_shards
from holdfast.workdir.interface import WorkDirectory

Progress = Callable[[int], None]


def begun(journal: Journal, barrier: BatchId) -> CheckpointStarted:
    started = journal.append(lambda stamp: _started(stamp, journal, barrier))
    assert isinstance(started, CheckpointStarted)
    return started


def _started(stamp: Stamp, journal: Journal, barrier: BatchId) -> CheckpointStarted:
    return CheckpointStarted(
        **stamp,
        id=CheckpointId(journal.state.last_checkpoint + 1),
        checkpoint_kind="checkpoint",
        name=None,
        barrier_batch_id=barrier,
    )


def copied(directory: WorkDirectory, plan: SnapshotPlan, blobs: Blobs, advance: Progress) -> tuple[ShardCopy, ...]:
    """Raises `ShardDeclined` when the directory has changed since it was planned."""
    copies: list[ShardCopy] = []
    for shard in plan.shards:
        copies += copy_shards(directory, (shard,), blobs, lambda: False)
        advance(sum(file.size for file in shard.files))
    return tuple(copies)


def completed(
    target: JobHome,
    journal: Journal,
    started: CheckpointStarted,
    copies: tuple[ShardCopy, ...],
    facts: QueryFacts,
    *,
    adopted: Adopted | None = None,
    rescaled: Rescaled | None = None,
    writer_has: BatchId | None = None,
    made_by: FencingEpoch | None = None,
) -> CheckpointCompleted:
    """`made_by`: the run whose batches they are, which a sink knows; None when no run of this job made them."""
    manifest = Manifest(
        format=FORMAT,
        job=target.job,
        checkpoint=started.id,
        barrier_batch_id=started.barrier_batch_id,
        fencing_epoch=made_by or journal.fencing_epoch,
        shards=tuple(ManifestShard(copy.shard, copy.files) for copy in copies),
        spark=described(facts),
    )
    data = encode_manifest(manifest)
    key = manifest_key(digest_of(data))
    target.store.upload(key, [data])
    _require_uploaded(target, {key, *(file.key for file in manifest.files())})
    entry = journal.append(
        lambda stamp: CheckpointCompleted(
            **stamp,
            id=started.id,
            checkpoint_kind="checkpoint",
            name=None,
            barrier_batch_id=started.barrier_batch_id,
            manifest=digest_of(data),
            triggered_at=started.at,
            duration_ms=round((stamp["at"] - started.at).total_seconds() * 1000),
            bytes_total=manifest.bytes_total,
            bytes_new=sum(copy.bytes_new for copy in copies),
            files=len(manifest.files()),
            objects_written=sum(copy.objects_written for copy in copies) + 1,
            shards=len(manifest.shards),
            manifest_bytes=len(data),
            line=line_of(journal.state),
            adopted=adopted,
            rescaled=rescaled,
            writer_has=writer_has,
        )
    )
    assert isinstance(entry, CheckpointCompleted)
    return entry


def _require_uploaded(target: JobHome, keys: set[str]) -> None:
    """The home may have been emptied, or swapped for another one, since an upload was answered."""
    if gone := missing(target.store, sorted(keys)):
        raise HomeReplaced(
            f"could not complete the checkpoint of {target}: {len(gone)} objects of it were uploaded and are missing "
            f"from the home, for example {min(gone)}",
            hint="bring the right home back, or mount it again; then try again",
        )
