"""Simulated machines and their disks: Spark's work directories in memory, copied from as the real ones are."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from holdfast.checkpoint.layout import FileTrouble, NotPlannable, ShardPlan, SnapshotPlan, WorkFile, plan_snapshot
from holdfast.checkpoint.manifest import Manifest, ManifestFile, digest_of
from holdfast.checkpoint.packed_plans import is_packed_plans
from holdfast.errors import Corrupt, ObjectNotFound, StorageUnreachable
from holdfast.identifiers import BatchId, FencingEpoch, Ticket
from holdfast.identifiers import Sequence as EntryNumber
from holdfast.repository.blobs import BeingDeleted, Blobs, SmallFile
from holdfast.repository.entries import RunStarted
from holdfast.runtime.work_marker import WorkMarker, remember_head, take_place
from holdfast.sinks.protocol import StagedBatch
from holdfast.snapshot.carrier import Cancelled, ShardCopy, ShardDeclined, key_being_deleted
from holdfast.storage.interface import ObjectStore
from tests.flat_directory import Bucket, FlatDirectory
from tests.simulation.checkers import Checkers
from tests.simulation.world import Process, World


@dataclass
class File:
    data: bytes
    seen: WorkFile


@dataclass
class Host:
    """A machine: what lies on its disk outlives the processes on it."""

    name: str
    directories: dict[str, dict[str, File]] = field(default_factory=dict)
    aside: set[str] = field(default_factory=set)
    newest: dict[str, BatchId] = field(default_factory=dict)
    """The newest commit of each directory, which is asked for often."""
    writes: int = 0
    has_links: bool = True
    has_executors: bool = False
    """Other processes copy."""
    unreadable_until: float = 0.0
    markers: FlatDirectory = field(default_factory=lambda: FlatDirectory(Bucket("host"), ""))
    """Whose directories these are, and what their last run knew of the journal."""
    life: str | None = None
    """The lineage whose directories these are."""

    def set_aside_all(self) -> None:
        for name in self.directories:
            self.directories[name] = {}
        self.newest.clear()

    def write(self, directory: str, path: str, data: bytes) -> None:
        self.writes += 1
        if path.startswith("commits/"):
            batch = BatchId(int(path[8:]))
            self.newest[directory] = max(batch, self.newest.get(directory, batch))
        self.directories[directory][path] = File(data, WorkFile(path, len(data), str(self.writes)))


class SimulatedDirectory:
    def __init__(self, world: World, host: Host, name: str, checkers: Checkers, process: Process) -> None:
        self._world = world
        self._host = host
        self._checkers = checkers
        self._process = process
        self._pinned: dict[Ticket, dict[WorkFile, File]] = {}
        self.name = name

    @property
    def location(self) -> str:
        return f"{self._host.name}:{self.name}"

    @property
    def files(self) -> dict[str, File]:
        return self._host.directories[self.name]

    def write(self, path: str, data: bytes) -> None:
        self._host.write(self.name, path, data)

    def contents(self) -> dict[str, bytes]:
        return {path: file.data for path, file in self.files.items()}

    def newest_barrier(self) -> BatchId | None:
        return self._host.newest.get(self.name)

    def plan(self, barrier: BatchId) -> SnapshotPlan:
        self._world.hesitate()

        def read(path: str) -> bytes:
            if path not in self.files:
                raise FileNotFoundError(path)
            return self.files[path].data

        return plan_snapshot(barrier, [file.seen for file in self.files.values()], read, lambda path: ())

    def pin(self, ticket: Ticket, files: Sequence[WorkFile]) -> bool:
        if not self._host.has_links:
            return False
        pinned = {}
        for file in files:
            self._world.hesitate()
            found = self.files.get(file.path)
            if found is None or found.seen != file:
                raise NotPlannable(f"{file.path} vanished before it was pinned")
            pinned[file] = found
        self._pinned[ticket] = pinned
        return True

    def unpin(self, ticket: Ticket) -> None:
        self._pinned.pop(ticket, None)

    def file_of(self, planned: WorkFile) -> File | None:
        for pinned in self._pinned.values():
            if planned in pinned:
                return pinned[planned]
        return self.files.get(planned.path)

    def copy(self, shards: Sequence[ShardPlan], blobs: Blobs, cancelled: Callable[[], bool]) -> tuple[ShardCopy, ...]:
        if self._host.has_executors:
            return self._copy_elsewhere(shards, blobs, cancelled)
        return self._copied(shards, blobs, cancelled, self._checkers)

    def _copy_elsewhere(
        self, shards: Sequence[ShardPlan], blobs: Blobs, cancelled: Callable[[], bool]
    ) -> tuple[ShardCopy, ...]:
        """They know less than the run does, so they may upload what it has; and their answer may get lost."""
        files = [file for shard in shards for file in shard.files]
        with blobs.remote_uploads() as remote:
            theirs = Blobs(blobs._store, blobs.epoch)
            theirs.add_known(at for file in files if (at := blobs.locate(file) or blobs.expect(file)) is not None)
            try:
                copies = self._copied(shards, theirs, cancelled, None)
            finally:
                self._world.hesitate()
                if self._world.chance(0.1):
                    raise StorageUnreachable("the executor was lost")
                found = [(file, at) for file in files if (at := theirs.locate(file)) is not None]
                refused = blobs.merge_remote(remote, found)
            for shard, copy in zip(shards, copies, strict=True):
                for file in copy.files:
                    if file.key in refused:
                        raise key_being_deleted(shard.shard, file.path, file.key)
        return copies

    def _copied(
        self, shards: Sequence[ShardPlan], blobs: Blobs, cancelled: Callable[[], bool], checkers: Checkers | None
    ) -> tuple[ShardCopy, ...]:
        copy = _Copy(self, blobs, checkers, self._process)
        for shard in shards:
            for file in shard.files:
                self._world.hesitate()
                if cancelled():
                    raise Cancelled
                copy.add(shard, file)
        if cancelled():
            raise Cancelled
        copy.flush()
        return tuple(copy.result(shard) for shard in shards)

    def ledger(self) -> tuple[StagedBatch, ...]:
        entries = [file.data for path, file in self.files.items() if path.startswith("ledger/")]
        found = [msgspec.json.decode(data, type=StagedBatch) for data in entries]
        return tuple(sorted(found, key=lambda staged: staged.batch_id))

    def prune_ledger(self, published: BatchId) -> None:
        self._drop(lambda batch: batch <= published)

    def drop_ledger_after(self, batch: BatchId | None) -> None:
        self._drop(lambda found: batch is None or found > batch)

    def _drop(self, unwanted: Callable[[int], bool]) -> None:
        for staged in self.ledger():
            if unwanted(staged.batch_id):
                del self.files[f"ledger/{staged.batch_id}.json"]

    def names(self, folder: str = "") -> list[str]:
        top = f"{folder}/" if folder else ""
        return sorted({path[len(top) :].partition("/")[0] for path in self.files if path.startswith(top)})

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path].data

    def write_atomic(self, path: str, data: bytes) -> None:
        self.write(path, data)

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def pieces(self, path: str) -> Iterator[bytes]:
        self._world.hesitate()
        if self._host.unreadable_until > self._world.now:
            raise OSError(errno.EIO, "Input/output error", path)
        if path not in self.files:
            raise FileNotFoundError(path)
        yield self.files[path].data

    def set_aside(self, why: str) -> None:
        self._host.aside.add(self.name)


class _Copy:
    """Small files share a pack, bases go alone, as in the real carrier."""

    def __init__(
        self, directory: SimulatedDirectory, blobs: Blobs, checkers: Checkers | None, process: Process
    ) -> None:
        """`checkers` see to it that nothing is uploaded twice; None for a process that does not know enough for it."""
        self._directory = directory
        self._blobs = blobs
        self._checkers = checkers
        self._process = process
        self._begun = checkers.now() if checkers is not None else 0.0
        self._done: dict[str, ManifestFile] = {}
        self._pack: dict[str, SmallFile] = {}
        self._twins: list[tuple[str, str]] = []
        self._first: ShardPlan | None = None

    def add(self, shard: ShardPlan, file: WorkFile) -> None:
        known = self._blobs.digest_of_unchanged(file)
        if known is not None and self._reuse(file, known):
            return
        found = self._directory.file_of(file)
        if found is None:
            raise ShardDeclined(shard.shard, file.path, "vanished before it was read")
        if found.seen != file:
            raise ShardDeclined(shard.shard, file.path, "was replaced after it was planned", FileTrouble.CHANGED)
        digest = digest_of(found.data)
        self._blobs.recognise(file, digest)
        if self._reuse(file, digest):
            return
        if file.path.endswith(".snapshot") or is_packed_plans(file.path):
            try:
                self._uploading(digest)
                self._done[file.path] = self._blobs.upload_blob(file.path, file.size, digest, [found.data])
                self._stored(self._done[file.path])
            except BeingDeleted as error:
                raise key_being_deleted(shard.shard, file.path, error.key) from error
        elif digest in self._pack:
            self._twins.append((file.path, digest))
        else:
            self._first = self._first or shard
            self._pack[digest] = SmallFile(file.path, digest, found.data)

    def flush(self) -> None:
        if not self._pack or self._first is None:
            return
        for digest in self._pack:
            self._uploading(digest)
        try:
            files = self._blobs.upload_pack([*self._pack.values()])
        except BeingDeleted as error:
            raise key_being_deleted(self._first.shard, "a pack", error.key) from error
        for file in files:
            self._stored(file)
            self._done[file.path] = file
        where = {file.digest: file for file in files}
        for path, digest in self._twins:
            twin = where[digest]  # type: ignore[index]
            self._done[path] = ManifestFile(path, twin.size, twin.digest, twin.epoch, twin.pack, twin.offset)

    def _uploading(self, digest: str) -> None:
        if self._checkers is not None:
            self._checkers.uploading(self._process, digest, self._begun)

    def _stored(self, file: ManifestFile) -> None:
        if self._checkers is not None:
            self._checkers.stored(self._process, file)

    def result(self, plan: ShardPlan) -> ShardCopy:
        files = tuple(self._done[file.path] for file in plan.files)
        return ShardCopy(plan.shard, files, sum(file.size for file in files), 1)

    def _reuse(self, file: WorkFile, digest: str) -> bool:
        found = self._blobs.find(file.path, file.size, digest)  # type: ignore[arg-type]
        if found is not None:
            self._done[file.path] = found
        return found is not None


class SimulatedWorkplace:
    def __init__(self, world: World, host: Host, checkers: Checkers, process: Process) -> None:
        self._world = world
        self._host = host
        self._checkers = checkers
        self._process = process
        self._marker: WorkMarker | None = None

    def taken_by(self, marker: WorkMarker, new_life: bool) -> SimulatedWorkplace:
        """As a job's folder is taken: refused when it is of another life, which a new one sets aside."""
        take_place(self._host.markers, marker, new_life=new_life)
        if self._host.life not in (None, marker.lineage):
            self._host.set_aside_all()
        self._host.life, self._marker = marker.lineage, marker
        return self

    def intact(self, run: RunStarted) -> SimulatedDirectory | None:
        prefix = f"{run.fencing_epoch}-"
        numbers = [int(name[len(prefix) :]) for name in self._host.directories if name.startswith(prefix)]
        if not numbers:
            return None
        if self._host.unreadable_until > self._world.now and self._world.chance(0.5):
            raise StorageUnreachable("could not read the work directory: Input/output error")
        directory = self._directory(f"{run.fencing_epoch}-{max(numbers)}")
        if directory.name in self._host.aside or directory.newest_barrier() is None or self._world.chance(0.1):
            return None
        try:
            directory.plan(directory.newest_barrier() or BatchId(0))
        except NotPlannable:
            return None
        return directory

    def adopt(self, previous: SimulatedDirectory, epoch: FencingEpoch) -> SimulatedDirectory:
        barrier = previous.newest_barrier()
        if barrier is None:
            raise StorageUnreachable("could not take over: a newer run has taken it away")
        files = {file.path: previous.files.get(file.path) for file in previous.plan(barrier).files()}
        for path in list(previous.files):
            if path.startswith("offsets/") and int(path.removeprefix("offsets/")) <= barrier + 1:
                files[path] = previous.files[path]
        self._world.hesitate()
        if any(file is None for file in files.values()):
            raise StorageUnreachable("could not take over: somebody is still writing there")
        return self._appear(epoch, {path: file.data for path, file in files.items() if file})

    def restore(self, store: ObjectStore, manifest: Manifest, epoch: FencingEpoch) -> SimulatedDirectory:
        found = {file.path: _restored(store, file) for file in manifest.files()}
        return self._appear(epoch, {path: data for path, data in found.items() if data is not None})

    def fresh(self, epoch: FencingEpoch) -> SimulatedDirectory:
        return self._appear(epoch, {})

    def clean(self, keep: SimulatedDirectory) -> None:
        for name in list(self._host.directories):
            if name not in self._host.aside and _order(name) < _order(keep.name) and self._world.chance(0.5):
                self._host.directories[name] = {}
                self._host.newest.pop(name, None)

    def remember(self, head: EntryNumber) -> None:
        if self._marker is not None:
            remember_head(self._host.markers.at(self._marker.job), self._marker, head)

    def _appear(self, epoch: FencingEpoch, files: dict[str, bytes]) -> SimulatedDirectory:
        """Whole or not at all."""
        number = sum(name.startswith(f"{epoch}-") for name in self._host.directories) + 1
        name = f"{epoch}-{number}"
        self._host.directories[name] = {}
        for path, data in files.items():
            self._host.write(name, path, data)
        return self._directory(name)

    def _directory(self, name: str) -> SimulatedDirectory:
        return SimulatedDirectory(self._world, self._host, name, self._checkers, self._process)


def _order(name: str) -> tuple[int, int]:
    epoch, _, number = name.partition("-")
    return int(epoch), int(number)


def _restored(store: ObjectStore, file: ManifestFile) -> bytes | None:
    """None for plans that are lost: a checkpoint can be restored without them."""
    try:
        return restored(store, file)
    except Corrupt:
        if is_packed_plans(file.path):
            return None
        raise


def restored(store: ObjectStore, file: ManifestFile) -> bytes:
    """One file of a checkpoint, proved against its digest."""
    try:
        data = store.read(file.key, file.offset, file.size)
    except ObjectNotFound as error:
        raise Corrupt(f"could not restore {file.path}: {file.key} is missing") from error
    if digest_of(data) != file.digest:
        raise Corrupt(f"could not restore {file.path}: its bytes are wrong")
    return data
