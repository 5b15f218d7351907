"""Small work directories and stores for the tests of copying and restoring."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from holdfast.checkpoint.layout import ShardPlan, SnapshotPlan
from holdfast.checkpoint.manifest import Digest, Manifest, ManifestShard, digest_of, encode_manifest, manifest_key
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch, ShardId
from holdfast.repository.blobs import Blobs
from holdfast.snapshot.carrier import ShardCopy, copy_shards
from holdfast.storage.local import LocalStore
from holdfast.workdir.barriers import files_of
from holdfast.workdir.factory import work_directory
from holdfast.workdir.interface import WorkDirectory

EPOCH = FencingEpoch(7)
MIB = 1 << 20


class RecordingStore(LocalStore):
    """A local store that remembers what was asked of it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.uploaded: list[str] = []
        self.requests: list[str] = []

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        super().upload(key, chunks)
        self.uploaded.append(key)

    def read(self, key: str, offset: int, length: int) -> bytes:
        self.requests.append(key)
        return super().read(key, offset, length)

    def stream(self, key: str) -> Iterator[bytes]:
        self.requests.append(key)
        return super().stream(key)

    def get(self, key: str) -> bytes:
        self.requests.append(key)
        return super().get(key)


def new_store(root: Path) -> RecordingStore:
    root.mkdir(exist_ok=True)
    return RecordingStore(root)


def write(directory: Path, contents: Mapping[str, bytes]) -> None:
    for path, data in contents.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        # As Spark does: under another name first.
        temporary = directory / f"{path}.tmp"
        temporary.write_bytes(data)
        temporary.rename(directory / path)


def shards(directory: Path) -> tuple[ShardPlan, ...]:
    return shards_of(work_directory(directory))


def shards_of(directory: WorkDirectory) -> tuple[ShardPlan, ...]:
    """Every file, each top-level directory being a shard."""
    by_top: dict[str, list[str]] = {}
    files = {file.path: file for file in files_of(directory)}
    for path in sorted(files):
        by_top.setdefault(path.split("/")[0], []).append(path)
    return tuple(ShardPlan(ShardId(top), tuple(files[path] for path in paths)) for top, paths in by_top.items())


def snapshot_plan(directory: Path) -> SnapshotPlan:
    return SnapshotPlan(BatchId(0), shards(directory))


def copied(directory: Path, blobs: Blobs) -> tuple[ShardCopy, ...]:
    return copy_shards(work_directory(directory), shards(directory), blobs, lambda: False)


def manifest_of(copies: Iterable[ShardCopy], checkpoint: int = 1) -> Manifest:
    parts = tuple(ManifestShard(copy.shard, copy.files) for copy in copies)
    return Manifest(1, "orders", CheckpointId(checkpoint), BatchId(12), EPOCH, parts)


def stored(store: LocalStore, manifest: Manifest) -> Digest:
    data = encode_manifest(manifest)
    digest = digest_of(data)
    store.upload(manifest_key(digest), [data])
    return digest


def tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
