"""A checkpoint and its restore with home and work directory in one bucket: how long, and what passes through here.

Each size has as many files of 64 MB as fit, and a few small ones, as RocksDB leaves them. The server keeps its objects
in files on this machine and really copies their bytes, which S3 does without being slower for more of them: what grows
with the size here is the server's disk. A GET of each byte is what a restore without copies inside the store would be.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.ratio import Ratio
from bench.state_files import StateFiles
from holdfast.checkpoint.layout import ShardPlan
from holdfast.checkpoint.manifest import FORMAT, Manifest, ManifestShard
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch, ShardId
from holdfast.repository.blobs import Blobs
from holdfast.snapshot.carrier import copy_shards
from holdfast.storage.metered import Meter, Usage
from holdfast.storage.urls import open_store
from holdfast.workdir.barriers import files_of
from holdfast.workdir.factory import work_directory
from holdfast.workdir.interface import WorkDirectory
from holdfast.workdir.restorer import restore
from tests.stores.s3 import S3Server, s3_server

_MB = 1 << 20
_GREATEST_EXPONENT = 1.0
"""More than this, and time grows faster than the state."""


@dataclass(frozen=True)
class Inside:
    bytes: int
    files: int
    checkpoint_s: float
    checkpoint_sent: int
    """Bytes to the home, small files in packs."""
    restore_s: float
    restore_received: int
    """Bytes of the home that came here."""
    through_here_s: float
    """A restore that reads and proves every byte."""


def measure(place: Path, megabytes: Sequence[int], tell: Callable[[str], None]) -> tuple[Inside, ...]:
    place.mkdir(parents=True, exist_ok=True)
    with s3_server(place, heap="1g") as server:
        os.environ.update(server.environment)
        found = []
        for size in megabytes:
            tell(f"inside one store: {size:,} MB")
            found.append(_measured(server, place / f"{size}", size))
        return tuple(found)


def _measured(server: S3Server, scratch: Path, megabytes: int) -> Inside:
    name = scratch.name
    meter = Meter()
    home = open_store(server.home(f"{name}/home"), meter=meter)
    root = work_directory(server.work(f"{name}/work"))
    work = root.at("1-1")
    _fill(work, scratch, megabytes)
    before = meter.usage
    begun = time.perf_counter()
    plan = ShardPlan(ShardId("state/0"), files_of(work))
    copies = copy_shards(work, [plan], Blobs(home, FencingEpoch(1)), lambda: False)
    checkpoint_s, checkpoint = time.perf_counter() - begun, meter.usage.since(before)
    shards = tuple(ManifestShard(copy.shard, copy.files) for copy in copies)
    manifest = Manifest(FORMAT, "bench", CheckpointId(1), BatchId(1), FencingEpoch(1), shards)

    def timed(to: WorkDirectory, *, inside: bool) -> tuple[float, Usage]:
        os.sync()
        before, begun = meter.usage, time.perf_counter()
        restore(home, manifest, to, inside=inside)
        took, used = time.perf_counter() - begun, meter.usage.since(before)
        to.remove_tree()
        return took, used

    restore_s, received = timed(root.at("2-1"), inside=True)
    through_here_s, _ = timed(root.at("3-1"), inside=False)
    work.remove_tree()
    return Inside(
        manifest.bytes_total,
        len(manifest.files()),
        checkpoint_s,
        checkpoint.bytes_out,
        restore_s,
        received.bytes_in,
        through_here_s,
    )


def _fill(work: WorkDirectory, scratch: Path, megabytes: int) -> None:
    with tempfile.TemporaryDirectory(dir=scratch.parent) as folder:
        files = StateFiles(Path(folder), megabytes * _MB)
        with work.build() as building:
            for file in files_of(work_directory(files.root)):
                building.write(file.path, _pieces(files.root / file.path))
            building.write("metadata", [b'{"id":"1"}'])


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(_MB), b"")


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Of the power of its size with which the time grows, between the smallest and the largest."""
    return math.log(seconds[-1] / seconds[0]) / math.log(sizes[-1] / sizes[0])


def ratios(measured: Sequence[Inside]) -> Iterator[Ratio]:
    sizes = [each.bytes for each in measured]
    grows = exponent(sizes, [each.restore_s for each in measured])
    yield Ratio("restore in one store: exponent of the size", grows, False, _GREATEST_EXPONENT)
    largest = measured[-1]
    faster = largest.restore_s / largest.through_here_s
    yield Ratio("restore in one store: copied inside / through here", faster, False)
