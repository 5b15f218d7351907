"""Copies the shards of a plan into the home, in groups, while Spark continues to write.

One thread copies a group, here or (`remote_copier`) in another process. Its small files share packs, so that a query of
two hundred partitions writes a handful of objects per checkpoint. If a file is no longer the planned one, the copy
fails with `ShardDeclined`. Files copied before are not lost: the next attempt finds them in the home.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from blake3 import blake3

from holdfast.checkpoint.layout import FileTrouble, ShardPlan, WorkFile
from holdfast.checkpoint.manifest import ManifestFile, digest_of
from holdfast.checkpoint.packed_plans import is_packed_plans
from holdfast.identifiers import Digest, ShardId
from holdfast.repository.blobs import PACK_TARGET, PACKED_BELOW, BeingDeleted, Blobs, SmallFile
from holdfast.workdir.interface import Changed, Handle, WorkDirectory
from holdfast.workdir.planned_file import pieces, whole

_COST_PER_FILE = 64 << 10
"""Opening and hashing a small file takes about as long as copying this many bytes."""

_WORTH_A_GROUP = PACK_TARGET
"""Less work than this is not split: a second thread would save little, and write one more pack."""

READ_WHOLE = 68 << 20
"""A file up to this size is held in memory, so that it is read and hashed once. Compaction makes SSTs of 64 MiB."""


class ShardDeclined(Exception):
    """A file of the shard cannot be copied as planned: take a newer barrier."""

    def __init__(self, shard: ShardId, path: str, reason: str, trouble: FileTrouble = FileTrouble.VANISHED) -> None:
        super().__init__(shard, path, reason, trouble)
        self.shard = shard
        self.path = path
        self.reason = reason
        self.trouble = trouble

    def __str__(self) -> str:
        return f"{self.path} of shard {self.shard} {self.reason}"


def key_being_deleted(shard: ShardId, path: str, key: str) -> ShardDeclined:
    return ShardDeclined(shard, path, f"goes to {key}, which is being deleted", FileTrouble.KEY_BEING_DELETED)


class Cancelled(Exception):
    pass


@dataclass(frozen=True, slots=True)
class ShardCopy:
    """One shard, in the home. A pack counts as an object of the shard whose file is its first."""

    shard: ShardId
    files: tuple[ManifestFile, ...]
    bytes_new: int
    objects_written: int
    host: str = ""
    """That copied it, when it was not the driver's."""


class Carrier(Protocol):
    """Copies every file of a group of shards into the home and returns where each one is."""

    def __call__(
        self,
        directory: WorkDirectory,
        group: Sequence[ShardPlan],
        blobs: Blobs,
        cancelled: Callable[[], bool],
    ) -> tuple[ShardCopy, ...]:
        """Raises `ShardDeclined`, `Cancelled`, or the store's `StorageError`."""


def grouped(
    shards: Sequence[ShardPlan], groups: int, is_new: Callable[[WorkFile], bool] = lambda file: True
) -> tuple[tuple[ShardPlan, ...], ...]:
    """At most `groups` groups of about equal cost, none empty. Deterministic.

    Only new files have a cost. Little work makes few groups, because each group writes its own pack. A shard that
    costs more than its share, such as one whose store was compacted, is divided by its large files: several groups may
    have parts of it.
    """
    cost = sum(_cost(shard, is_new) for shard in shards)
    worthwhile = min(groups, max(1, -(-cost // _WORTH_A_GROUP)))
    parts = [(_cost(part, is_new), part) for shard in shards for part in _divided(shard, cost / worthwhile, is_new)]
    spread: list[list[ShardPlan]] = [[] for _ in range(min(len(parts), worthwhile))]
    costs = [0] * len(spread)
    for cost, part in sorted(parts, key=_dearest_first):
        cheapest = min(range(len(spread)), key=lambda number: (costs[number], len(spread[number])))
        spread[cheapest].append(part)
        costs[cheapest] += cost
    return tuple(_joined(group) for group in spread)


def _cost(shard: ShardPlan, is_new: Callable[[WorkFile], bool]) -> int:
    return sum(file.size + _COST_PER_FILE for file in shard.files if is_new(file))


def _divided(shard: ShardPlan, share: float, is_new: Callable[[WorkFile], bool]) -> Iterator[ShardPlan]:
    """Each new file with an object of its own, and the rest together; the shard itself if it costs no more than its
    share."""
    alone = {file.path for file in shard.files if file.size >= PACKED_BELOW and is_new(file)}
    if len(alone) < 2 or _cost(shard, is_new) <= share:
        yield shard
        return
    yield from (ShardPlan(shard.shard, (file,)) for file in shard.files if file.path in alone)
    if rest := tuple(file for file in shard.files if file.path not in alone):
        yield ShardPlan(shard.shard, rest)


def _dearest_first(item: tuple[int, ShardPlan]) -> tuple[int, ShardId, tuple[str, ...]]:
    cost, part = item
    return -cost, part.shard, tuple(file.path for file in part.files[:1])


def _joined(parts: Iterable[ShardPlan]) -> tuple[ShardPlan, ...]:
    """One part of each shard."""
    files: dict[ShardId, list[WorkFile]] = {}
    for part in parts:
        files.setdefault(part.shard, []).extend(part.files)
    return tuple(ShardPlan(shard, tuple(found)) for shard, found in files.items())


def copy_shards(
    directory: WorkDirectory,
    group: Sequence[ShardPlan],
    blobs: Blobs,
    cancelled: Callable[[], bool],
) -> tuple[ShardCopy, ...]:
    """The carrier that copies in the calling thread."""
    copy = _GroupCopy(directory, blobs, cancelled)
    for shard in group:
        for file in shard.files:
            copy.add(shard.shard, file)
    copy.flush()
    return tuple(copy.result(shard) for shard in group)


@dataclass(frozen=True, slots=True)
class _Packed:
    shard: ShardId
    file: SmallFile


@dataclass(frozen=True, slots=True)
class _Proven:
    """The bytes of a file. Yields the last piece only after all pieces are proved to have `digest`.

    Can be iterated again from the beginning, to retry an upload.
    """

    handle: Handle
    file: WorkFile
    digest: Digest
    require_wanted: Callable[[], None]

    def __iter__(self) -> Iterator[bytes]:
        self.handle.seek(0)
        hasher = blake3()
        held = b""
        for piece in pieces(self.handle, self.file):
            self.require_wanted()
            hasher.update(piece)
            if held:
                yield held
            held = piece
        if hasher.hexdigest() != self.digest:
            raise Changed("changed while it was read", FileTrouble.CHANGED)
        yield held


class _GroupCopy:
    def __init__(self, directory: WorkDirectory, blobs: Blobs, cancelled: Callable[[], bool]) -> None:
        self._directory = directory
        self._blobs = blobs
        self._cancelled = cancelled
        self._done: dict[str, ManifestFile] = {}
        self._bytes_new: dict[ShardId, int] = {}
        self._objects: dict[ShardId, int] = {}
        self._pack: dict[Digest, _Packed] = {}
        self._pack_size = 0
        self._same_content: list[tuple[str, Digest]] = []

    def add(self, shard: ShardId, file: WorkFile) -> None:
        self._require_wanted()
        digest = self._blobs.digest_of_unchanged(file)
        if digest is not None and self._reuse(file, digest):
            return
        try:
            if file.size < PACKED_BELOW and not is_packed_plans(file.path):
                self._add_small(shard, file)
            else:
                self._add_large(shard, file)
        except Changed as error:
            raise ShardDeclined(shard, file.path, error.reason, error.trouble) from error
        except BeingDeleted as error:
            raise key_being_deleted(shard, file.path, error.key) from error

    def result(self, plan: ShardPlan) -> ShardCopy:
        return ShardCopy(
            plan.shard,
            tuple(self._done[file.path] for file in plan.files),
            self._bytes_new.get(plan.shard, 0),
            self._objects.get(plan.shard, 0),
        )

    def _add_small(self, shard: ShardId, file: WorkFile) -> None:
        with self._directory.open_planned(file) as handle:
            data = whole(handle, file)
        digest = digest_of(data)
        self._blobs.recognise(file, digest)
        if self._reuse(file, digest):
            return
        if digest in self._pack:
            self._same_content.append((file.path, digest))
            return
        if self._pack_size + len(data) > PACK_TARGET:
            self.flush()
        self._pack[digest] = _Packed(shard, SmallFile(file.path, digest, data))
        self._pack_size += len(data)

    def flush(self) -> None:
        """Upload the pack that is being filled."""
        if not self._pack:
            return
        self._require_wanted()
        packed, self._pack, self._pack_size = list(self._pack.values()), {}, 0
        first = packed[0]
        try:
            files = self._blobs.upload_pack([item.file for item in packed])
        except BeingDeleted as error:
            raise key_being_deleted(first.shard, first.file.path, error.key) from error
        for item, file in zip(packed, files, strict=True):
            self._record(item.shard, file)
        self._objects[first.shard] = self._objects.get(first.shard, 0) + 1
        where = {file.digest: file for file in files}
        for path, digest in self._same_content:
            twin = where[digest]
            self._done[path] = ManifestFile(path, twin.size, digest, twin.epoch, twin.pack, twin.offset)
        self._same_content = []

    def _add_large(self, shard: ShardId, file: WorkFile) -> None:
        """Hash first, then upload: most large files are in the home already."""
        inside = self._blobs.within_reach(self._directory.stored_at(file))
        with self._directory.open_planned(file) as handle:
            digest, content = self._content(handle, file, may_be_held=inside is None)
            if not self._reuse(file, digest):
                self._require_wanted()
                uploaded = self._blobs.upload_blob(file.path, file.size, digest, content, inside)
                self._record(shard, uploaded)
                self._objects[shard] = self._objects.get(shard, 0) + 1
        self._blobs.recognise(file, digest)

    def _content(self, handle: Handle, file: WorkFile, *, may_be_held: bool) -> tuple[Digest, Iterable[bytes]]:
        """The digest of the file, and its bytes, which can be iterated again."""
        if may_be_held and file.size <= READ_WHOLE:
            data = whole(handle, file)
            return digest_of(data), [data]
        hasher = blake3()
        for piece in pieces(handle, file):
            self._require_wanted()
            hasher.update(piece)
        digest = Digest(hasher.hexdigest())
        return digest, _Proven(handle, file, digest, self._require_wanted)

    def _reuse(self, file: WorkFile, digest: Digest) -> bool:
        found = self._blobs.find(file.path, file.size, digest)
        if found is not None:
            self._done[file.path] = found
        return found is not None

    def _record(self, shard: ShardId, file: ManifestFile) -> None:
        self._done[file.path] = file
        self._bytes_new[shard] = self._bytes_new.get(shard, 0) + file.size

    def _require_wanted(self) -> None:
        if self._cancelled():
            raise Cancelled
