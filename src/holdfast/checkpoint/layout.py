"""Which files of a Spark checkpoint directory make up barrier N. Pure: names and sizes in, a plan out.

A state store is a directory below `state/` that holds versioned files; batch N leaves it at version N+1:

    <v>.zip  <v>.snapshot            everything up to version v (RocksDB: together with the SSTs that the zip names)
    <v>.changelog  <v>.delta         the changes of version v alone
    <v>_<id>.zip  <v>_<id>.changelog the same in format v2, where `commits/<v-1>` names the right id

Version N+1 is read from the nearest base at or below it and every change after that base. A store that lacks one of
these versions, or a partition that lacks a store, cannot be planned.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

import msgspec

from holdfast.checkpoint import packed_plans
from holdfast.identifiers import CONTROL_SHARD, BatchId, ShardId

ReadFile = Callable[[str], bytes]
SstFiles = Callable[[str], tuple[str, ...]]

_VERSIONED = re.compile(r"(?P<version>\d+)(?:_(?P<id>[0-9A-Za-z-]+))?\.(?P<kind>zip|changelog|delta|snapshot)")
_NUMBERED = re.compile(r"\d+[._].*")
_OPERATOR_METADATA = re.compile(r"state/[^/]+/_metadata/v\d+/(\d+)")
_FROM_BATCH = re.compile(r"(?:ledger|query)/(\d+)\.json")
_BASES = ("zip", "snapshot")
_SIDE_CAR = ".crc"


@dataclass(frozen=True, slots=True)
class WorkFile:
    """A file as it was scanned. Name and size do not identify it: Spark may write other bytes under the same name."""

    path: str
    size: int
    identity: str
    """What tells it from every other file that ever has its name, in the words of the place where it is."""


@dataclass(frozen=True, slots=True)
class ShardPlan:
    shard: ShardId
    files: tuple[WorkFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    barrier: BatchId
    shards: tuple[ShardPlan, ...]

    def files(self) -> tuple[WorkFile, ...]:
        return tuple(file for shard in self.shards for file in shard.files)


class FileTrouble(Enum):
    """Why a file of the barrier cannot be copied as planned."""

    VANISHED = "vanished"
    """Spark deleted it."""
    CHANGED = "changed"
    """It was replaced or written to."""
    UNREADABLE = "unreadable"
    """It exists, but the disk or its format does not allow reading it."""
    KEY_BEING_DELETED = "key being deleted"
    """Its bytes would go to an object that is being deleted."""


class NotPlannable(Exception):
    """The directory lacks files of the barrier, mostly because Spark deleted them: take a newer barrier."""

    def __init__(self, reason: str, trouble: FileTrouble = FileTrouble.VANISHED) -> None:
        super().__init__(reason, trouble)
        self.reason = reason
        self.trouble = trouble

    def __str__(self) -> str:
        return self.reason


def newest_barrier(names: Iterable[str]) -> BatchId | None:
    """The newest committed batch, from the names in `commits/`."""
    return max((BatchId(int(name)) for name in names if name.isascii() and name.isdigit()), default=None)


def plan_snapshot(
    barrier: BatchId,
    files: Iterable[WorkFile],
    read: ReadFile,
    sst_files: SstFiles,
    *,
    planned: Collection[BatchId] = (),
) -> SnapshotPlan:
    """Every file of `barrier` among `files`, by shard: the control shard first, then the state stores by name.

    With `planned` also the offsets of these batches, as far as they are there. Spark repeats the next batch with those
    offsets; of those before it, the plan of the batch can still be made.

    `read` gives the bytes of a commit file, `sst_files` the names that a RocksDB zip refers to; a FileNotFoundError
    from either means that Spark deleted the file meanwhile.
    """
    seen = {file.path: file for file in files}
    tree = {path: file for path, file in seen.items() if not _hidden(path)}
    stores = _stores(tree)
    control = ShardPlan(CONTROL_SHARD, _control_files(barrier, tree, stores, planned))
    commits = _Commits(tree, read)
    ids = commits.of_batch(barrier)
    if ids is None:
        raise NotPlannable(f"commits/{barrier} vanished")
    _require_every_partition(seen, stores, ids)
    shards = [
        ShardPlan(ShardId(path), _store_files(path, stores[path], barrier + 1, tree, commits, sst_files))
        for path in sorted(stores)
    ]
    return SnapshotPlan(barrier, (control, *shards))


def _hidden(path: str) -> bool:
    """Hadoop's checksums and whatever is still being written."""
    return any(part.startswith(".") for part in path.split("/"))


# --- the control shard ---


def _control_files(
    barrier: BatchId, tree: Mapping[str, WorkFile], stores: Collection[str], planned: Collection[BatchId]
) -> tuple[WorkFile, ...]:
    required = ["metadata", f"offsets/{barrier}", f"commits/{barrier}"]
    if barrier > 0:
        # Spark resumes from the newest offsets only if the previous ones exist, too.
        required.append(f"offsets/{barrier - 1}")
    for path in required:
        if path not in tree:
            raise NotPlannable(f"{path} does not exist")
    wanted = {*required, f"commits/{barrier - 1}"}
    wanted.update(f"offsets/{batch}" for batch in planned)
    wanted.update(path for path in tree if _is_control(path, barrier, stores))
    return _with_side_cars(wanted, tree)


def _is_control(path: str, barrier: BatchId, stores: Collection[str]) -> bool:
    top, _, _ = path.partition("/")
    if top in ("ledger", "query"):
        match = _FROM_BATCH.fullmatch(path)
        return match is not None and int(match[1]) <= barrier
    if top == packed_plans.FOLDER:
        found = packed_plans.packed_range(path)
        return found is not None and found[1] <= barrier
    if top == "state":
        return _is_state_description(path, barrier, stores)
    return top == "sources"


def _is_state_description(path: str, barrier: BatchId, stores: Collection[str]) -> bool:
    """Schemas and operator metadata, which belong to no version of one store."""
    folder, _, name = path.rpartition("/")
    if folder in stores:
        return not _NUMBERED.fullmatch(name)
    store, _, last = folder.rpartition("/")
    if last in ("SSTs", "logs") and store in stores:
        return False
    match = _OPERATOR_METADATA.fullmatch(path)
    return match is None or int(match[1]) <= barrier


def _with_side_cars(paths: Iterable[str], tree: Mapping[str, WorkFile]) -> tuple[WorkFile, ...]:
    """The files that exist, each with Spark's own checksum file where there is one."""
    names = {name for path in paths for name in (path, path + _SIDE_CAR)}
    return tuple(tree[name] for name in sorted(names) if name in tree)


# --- the state stores ---


@dataclass(frozen=True, slots=True)
class _StateFile:
    path: str
    id: str | None
    kind: str


_Versions = dict[int, list[_StateFile]]


def _stores(tree: Mapping[str, WorkFile]) -> dict[str, _Versions]:
    stores: dict[str, _Versions] = defaultdict(lambda: defaultdict(list))
    for path in tree:
        folder, _, name = path.rpartition("/")
        if folder.startswith("state/") and (match := _VERSIONED.fullmatch(name)):
            stores[folder][int(match["version"])].append(_StateFile(path, match["id"], match["kind"]))
    return stores


def _require_every_partition(seen: Iterable[str], stores: Iterable[str], ids: Mapping[str, list[list[str]]]) -> None:
    """Partitions are numbered from 0 without gaps, and each has at least one store."""
    partitions: dict[str, set[int]] = defaultdict(set)
    for path in seen:
        top, operator, partition, *below = (*path.split("/", 3), "", "")
        if top == "state" and below[0] and partition.isdigit():
            partitions[operator].add(int(partition))
    for operator, per_partition in ids.items():
        partitions[operator].update(range(len(per_partition)))
    present = {tuple(path.split("/")[1:3]) for path in stores}
    for operator, numbers in partitions.items():
        for number in range(max(numbers, default=-1) + 1):
            if (operator, str(number)) not in present:
                raise NotPlannable(f"state/{operator}/{number} holds no version")


def _store_files(
    store: str,
    versions: _Versions,
    target: int,
    tree: Mapping[str, WorkFile],
    commits: "_Commits",
    sst_files: SstFiles,
) -> tuple[WorkFile, ...]:
    chosen = _closure(store, versions, target, commits)
    paths = {file.path for file in chosen}
    for file in chosen:
        if file.kind == "zip":
            paths.update(_referenced(store, file.path, tree, sst_files))
    return _with_side_cars(paths, tree)


def _closure(store: str, versions: _Versions, target: int, commits: "_Commits") -> list[_StateFile]:
    """From `target` down to the nearest base.

    Where the commit that names the right id has been purged, every file of a version is included. That is harmless:
    Spark follows the ids written inside the files. Such a version only ends the walk when each of its ids has a base.
    """
    chosen: list[_StateFile] = []
    for version in range(target, 0, -1):
        found = commits.rightful(store, version, versions.get(version, []))
        bases = [file for file in found if file.kind in _BASES]
        if not found:
            if any(file.kind in _BASES for file in chosen):
                return chosen
            raise NotPlannable(f"{store} lacks version {version}, which version {target} is built on")
        if {file.id for file in bases} == {file.id for file in found}:
            return [*chosen, *bases]
        chosen.extend(found)
    return chosen


def _referenced(store: str, archive: str, tree: Mapping[str, WorkFile], sst_files: SstFiles) -> list[str]:
    try:
        names = sst_files(archive)
    except FileNotFoundError as error:
        raise NotPlannable(f"{archive} vanished") from error
    paths = [f"{store}/{'logs' if name.endswith('.log') else 'SSTs'}/{name}" for name in names]
    for path in paths:
        if path not in tree:
            raise NotPlannable(f"{path}, which {archive} names, does not exist")
    return paths


# --- the commit log ---


class _Commit(msgspec.Struct):
    stateUniqueIds: dict[str, list[list[str]]] | None = None  # Spark's name


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_COMMIT_DECODER = msgspec.json.Decoder(_Commit)


class _Commits:
    """Which state store ids each committed batch names. Reads a commit at most once, and only when needed."""

    def __init__(self, tree: Mapping[str, WorkFile], read: ReadFile) -> None:
        self._tree = tree
        self._read = read
        self._known: dict[int, dict[str, list[list[str]]] | None] = {}

    def of_batch(self, batch: int) -> dict[str, list[list[str]]] | None:
        """The ids by operator and partition, empty in format v1; None when the commit is gone."""
        if batch not in self._known:
            self._known[batch] = self._load(batch)
        return self._known[batch]

    def rightful(self, store: str, version: int, files: list[_StateFile]) -> list[_StateFile]:
        """Those files of one version that belong to the batch which committed it."""
        ids = self.of_batch(version - 1)
        if ids is None:
            return files
        _, operator, partition, *_ = (*store.split("/"), "", "")
        per_partition = ids.get(operator)
        if per_partition is None or not partition.isdigit() or int(partition) >= len(per_partition):
            return [file for file in files if file.id is None]
        return [file for file in files if file.id in per_partition[int(partition)]]

    def _load(self, batch: int) -> dict[str, list[list[str]]] | None:
        path = f"commits/{batch}"
        if path not in self._tree:
            return None
        try:
            _, _, body = self._read(path).partition(b"\n")
        except FileNotFoundError:
            return None
        try:
            return _COMMIT_DECODER.decode(body or b"{}").stateUniqueIds or {}
        except msgspec.DecodeError as error:
            raise NotPlannable(f"{path} could not be parsed: {error}", FileTrouble.UNREADABLE) from error
