"""What retention gives up, and what it must keep."""

from datetime import UTC, datetime

from holdfast.checkpoint.manifest import FORMAT, Manifest, ManifestFile, ManifestShard, blob_key, manifest_key
from holdfast.identifiers import (
    CONTROL_SHARD,
    AttemptId,
    BatchId,
    CheckpointId,
    Digest,
    FencingEpoch,
    Sequence,
)
from holdfast.repository import retention
from holdfast.repository.entries import (
    AnyEntry,
    CheckpointCompleted,
    CheckpointCorrupt,
    CheckpointsRetired,
    CheckpointStarted,
    Process,
    RunStarted,
)
from holdfast.repository.retention import checkpoints_to_retire, entries_to_trim, plan_sweep
from holdfast.repository.state import JobState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EPOCH = FencingEpoch(1)


class Life:
    """Entries of one run, one after the other."""

    def __init__(self) -> None:
        self.entries: list[AnyEntry] = []
        self.add(RunStarted, lineage="life", process=Process("host", 1), heartbeat_s=5.0, work="", holdfast="")

    def add(self, kind: type, **fields: object) -> None:
        sequence = Sequence(len(self.entries) + 1)
        common = {"sequence": sequence, "attempt": AttemptId(str(sequence)), "fencing_epoch": EPOCH, "at": NOW}
        self.entries.append(kind(**common, **fields))

    def complete(self, id: int, name: str | None = None) -> None:
        kind = "savepoint" if name else "checkpoint"
        common = {"id": CheckpointId(id), "checkpoint_kind": kind, "name": name, "barrier_batch_id": BatchId(id)}
        self.add(CheckpointStarted, **common)
        self.add(
            CheckpointCompleted,
            **common,
            manifest=Digest(f"m{id}"),
            triggered_at=NOW,
            duration_ms=1,
            bytes_total=1,
            bytes_new=1,
            files=1,
            objects_written=1,
            shards=1,
        )

    @property
    def state(self) -> JobState:
        return JobState.of(self.entries)


def manifest(id: int, *digests: str) -> Manifest:
    files = tuple(ManifestFile(digest, 1, Digest(digest), EPOCH) for digest in digests)
    shards = (ManifestShard(CONTROL_SHARD, files),)
    return Manifest(FORMAT, "job", CheckpointId(id), BatchId(id), EPOCH, shards)


def test_the_newest_are_kept_and_savepoints_always() -> None:
    life = Life()
    for id in range(1, 6):
        life.complete(id, name="release" if id == 1 else None)
    assert checkpoints_to_retire(life.state, 2) == (2, 3)


def test_a_damaged_checkpoint_does_not_count_as_kept() -> None:
    life = Life()
    for id in range(1, 5):
        life.complete(id)
    life.add(CheckpointCorrupt, id=CheckpointId(4), detail="flipped")
    assert checkpoints_to_retire(life.state, 2) == (1,)


def test_a_sweep_keeps_what_any_retained_checkpoint_or_the_run_needs() -> None:
    life = Life()
    life.complete(1)
    life.complete(2)
    life.add(CheckpointsRetired, ids=(CheckpointId(1),))
    stored = [blob_key(Digest(name), EPOCH) for name in ("aa", "bb", "cc", "dd")] + [manifest_key(Digest("m1"))]
    live = frozenset({blob_key(Digest("dd"), EPOCH)})
    swept = plan_sweep(stored, life.state, {CheckpointId(2): manifest(2, "bb")}, live)
    assert set(swept.keys) == {blob_key(Digest("aa"), EPOCH), blob_key(Digest("cc"), EPOCH), manifest_key(Digest("m1"))}


def test_trimming_keeps_run_starts_retained_checkpoints_and_the_highest_id(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(retention, "HISTORY_KEPT", 1)
    life = Life()
    for id in range(1, 5):
        life.complete(id)
    life.add(CheckpointsRetired, ids=(CheckpointId(1), CheckpointId(2)))
    trimmed = entries_to_trim(life.state)
    kept = life.state.without(trimmed)
    assert Sequence(1) not in trimmed, "run-started"
    assert [entry.id for entry in kept.restorable()] == [4, 3]
    assert kept.last_checkpoint == 4
    assert kept.head == life.state.head
    assert kept.retained() == life.state.retained()
