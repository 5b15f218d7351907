"""How quickly a checkpoint becomes a directory again, against `cp -r` of the same tree followed by hashing the copy.

Both read from a warm cache and both end with a directory whose every byte is known to be right. A restore also forces
every file to the disk, because Spark is about to build on it; `cp -r` alone does not, so a second comparison adds that.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from blake3 import blake3

from bench.ratio import Ratio
from holdfast.checkpoint.layout import ShardPlan
from holdfast.checkpoint.manifest import FORMAT, Manifest, ManifestShard
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch, ShardId
from holdfast.repository.blobs import Blobs
from holdfast.snapshot.carrier import copy_shards
from holdfast.storage.interface import ObjectStore
from holdfast.storage.urls import open_store
from holdfast.workdir.barriers import files_of
from holdfast.workdir.factory import work_directory
from holdfast.workdir.restorer import restore

_SEED = 7
_PARTITIONS = 8
_SST = 4 << 20
_CHANGELOG = 24 << 10


@dataclass(frozen=True)
class Restores:
    files: int
    bytes: int
    holdfast: tuple[float, ...]
    copied: tuple[float, ...]
    """Seconds of `cp -r` and hashing."""
    copied_durably: tuple[float, ...]
    """The same with a flush to the disk in between."""

    def throughput(self, seconds: Sequence[float]) -> float:
        return self.bytes / median(seconds)


def measure(place: Path, megabytes: int, rounds: int, tell: Callable[[str], None]) -> Restores:
    tell(f"restore: building a checkpoint of {megabytes} MB")
    tree = place / "tree"
    _build_tree(tree, megabytes)
    store, manifest = _checkpoint_of(tree, place / "home")
    times: dict[str, list[float]] = {"holdfast": [], "copied": [], "copied_durably": []}
    ways: dict[str, Callable[[Path], None]] = {
        "holdfast": lambda to: restore(store, manifest, work_directory(to)),
        "copied": lambda to: _copy_and_hash(tree, to, durably=False),
        "copied_durably": lambda to: _copy_and_hash(tree, to, durably=True),
    }
    for number in range(rounds + 1):
        tell(f"restore: round {number} of {rounds}" if number else "restore: warming up")
        # Who comes first pays for what the one before left to the disk, so that changes from round to round.
        order = list(ways)[number % len(ways) :] + list(ways)[: number % len(ways)]
        for way in order:
            seconds = _timed(ways[way], place / f"{way}-{number}")
            if number:
                times[way].append(seconds)
    files = manifest.files()
    return Restores(len(files), manifest.bytes_total, *(tuple(times[way]) for way in ways))


def ratios(restores: Restores) -> Iterator[Ratio]:
    speed = restores.throughput(restores.holdfast)
    yield Ratio("restore MB/s: cp, hash", speed / restores.throughput(restores.copied), True)
    durably = restores.throughput(restores.copied_durably)
    yield Ratio("restore MB/s: cp, sync, hash", speed / durably, True)


def _timed(do: Callable[[Path], None], to: Path) -> float:
    os.sync()  # what the round before left to be written is not this one's burden
    begun = time.perf_counter()
    do(to)
    seconds = time.perf_counter() - begun
    shutil.rmtree(to)
    return seconds


def _copy_and_hash(tree: Path, to: Path, *, durably: bool) -> None:
    subprocess.run(["cp", "-r", str(tree), str(to)], check=True)
    if durably:
        subprocess.run(["sync", "-f", str(to)], check=True)
    for path in to.rglob("*"):
        if path.is_file():
            blake3(max_threads=blake3.AUTO).update_mmap(path).hexdigest()


def _build_tree(tree: Path, megabytes: int) -> None:
    """A state of RocksDB's shape: nearly all bytes in SSTs of some megabytes, nearly all files small changelogs."""
    numbers = random.Random(_SEED)
    changelogs = megabytes
    ssts = max(1, ((megabytes << 20) - changelogs * _CHANGELOG) // _SST)
    for number in range(ssts):
        _write(tree / f"state/0/{number % _PARTITIONS}/SSTs/{number:06}.sst", numbers.randbytes(_SST))
    for number in range(changelogs):
        version = number // _PARTITIONS + 1
        _write(tree / f"state/0/{number % _PARTITIONS}/{version}.changelog", numbers.randbytes(_CHANGELOG))


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _checkpoint_of(tree: Path, home: Path) -> tuple[ObjectStore, Manifest]:
    home.mkdir()
    store = open_store(f"file://{home}").scoped("bench")
    epoch = FencingEpoch(1)
    plan = ShardPlan(ShardId("state/0"), files_of(work_directory(tree)))
    copies = copy_shards(work_directory(tree), [plan], Blobs(store, epoch), lambda: False)
    shards = tuple(ManifestShard(copy.shard, copy.files) for copy in copies)
    return store, Manifest(FORMAT, "bench", CheckpointId(1), BatchId(1), epoch, shards)
