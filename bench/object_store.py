"""A checkpoint of much state to an S3 server and back, against `rclone copy` of the same files to the same server.

Everything alternates in rounds: same server, same disk, all files in the page cache. holdfast is what a job uses: its
carrier with its threads, blobs and packs, manifest and an entry of the journal. What each proves:

    holdfast     hashes each file (BLAKE3) and signs what it sends (SHA-256), which the server compares; proves every
                 byte at restore, and forces it to the disk
    rclone       hashes each file (MD5) and sends that along, which the server compares; hashes again at the copy back.
                 What is there already it tells by size and time, which costs a request per file
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal, Protocol

from bench import processor
from bench.ratio import Ratio
from bench.state_files import StateFiles
from holdfast.checkpoint.manifest import FORMAT, Manifest, ManifestShard, digest_of, encode_manifest, manifest_key
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch
from holdfast.repository.blobs import Blobs
from holdfast.settings import Settings
from holdfast.snapshot.carrier import copy_shards, grouped
from holdfast.storage.urls import open_store
from holdfast.workdir.factory import work_directory
from holdfast.workdir.restorer import restore
from tests.stores.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server, s3_server

Step = Literal["first", "incremental", "restore"]
STEPS: tuple[Step, ...] = ("first", "incremental", "restore")

HOLDFAST = "holdfast"
RCLONE = "rclone"
TUNED = "rclone, tuned"
_TUNED = ("--transfers", "8", "--checkers", "16", "--s3-chunk-size", "16M", "--s3-upload-concurrency", "4")
EXPECTED_OF_RCLONE = 1.0
DISTURBED = 0.2

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Transfers:
    files: int
    bytes: int
    seconds: dict[tuple[str, Step], list[float]] = field(default_factory=dict)
    """Of each way and step, round by round."""
    others: list[float] = field(default_factory=list)
    """Cores that other programs kept busy, round by round."""

    def ratio(self, way: str, step: Step) -> float:
        """Median over the rounds of that way's time divided by holdfast's in the same round."""
        pairs = zip(self.seconds[way, step], self.seconds[HOLDFAST, step], strict=True)
        return median(theirs / ours for theirs, ours in pairs)


class _Way(Protocol):
    def upload(self, tree: StateFiles) -> None: ...

    def restore(self, to: Path) -> None: ...


class _Holdfast:
    def __init__(self, server: S3Server, prefix: str) -> None:
        self._store = open_store(server.home(prefix)).scoped("bench")
        self._blobs = Blobs(self._store, FencingEpoch(1))
        self._manifest: Manifest | None = None
        self._checkpoints = 0

    def upload(self, tree: StateFiles) -> None:
        threads = Settings().parallelism
        groups = grouped(tree.shards(), threads, self._blobs.is_new)
        with ThreadPoolExecutor(threads) as pool:
            copied = list(
                pool.map(
                    lambda group: copy_shards(work_directory(tree.root), group, self._blobs, lambda: False), groups
                )
            )
        shards = tuple(ManifestShard(copy.shard, copy.files) for copies in copied for copy in copies)
        self._checkpoints += 1
        self._manifest = Manifest(FORMAT, "bench", CheckpointId(self._checkpoints), BatchId(1), FencingEpoch(1), shards)
        encoded = encode_manifest(self._manifest)
        self._store.upload(manifest_key(digest_of(encoded)), [encoded])
        self._store.create(f"journal/{self._checkpoints:020}.json", b"{}")
        self._blobs.commit_manifest(self._manifest)

    def restore(self, to: Path) -> None:
        assert self._manifest is not None
        restore(self._store, self._manifest, work_directory(to))


class _Rclone:
    def __init__(self, server: S3Server, prefix: str, options: Sequence[str]) -> None:
        self._place = f"bench:{BUCKET}/{prefix}"
        self._options = options
        self._environment = {
            **os.environ,
            "RCLONE_CONFIG": os.devnull,
            "RCLONE_CONFIG_BENCH_TYPE": "s3",
            "RCLONE_CONFIG_BENCH_PROVIDER": "Other",
            "RCLONE_CONFIG_BENCH_ENDPOINT": server.endpoint,
            "RCLONE_CONFIG_BENCH_REGION": "us-east-1",
            "RCLONE_CONFIG_BENCH_ACCESS_KEY_ID": ACCESS_KEY,
            "RCLONE_CONFIG_BENCH_SECRET_ACCESS_KEY": SECRET_KEY,
            "RCLONE_S3_NO_CHECK_BUCKET": "true",
        }

    def upload(self, tree: StateFiles) -> None:
        self._copy(str(tree.root), self._place)

    def restore(self, to: Path) -> None:
        self._copy(self._place, str(to))

    def _copy(self, source: str, target: str) -> None:
        program = shutil.which("rclone", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        assert program is not None, "rclone is not installed: make setup"
        subprocess.run([program, "copy", source, target, *self._options], env=self._environment, check=True)


def measure(place: Path, megabytes: int, rounds: int, tell: Tell) -> Transfers:
    place.mkdir(parents=True)
    tell(f"object store: building {megabytes} MB of state")
    tree = StateFiles(place / "tree", megabytes << 20)
    files = [file for shard in tree.shards() for file in shard.files]
    transfers = Transfers(len(files), sum(file.size for file in files))
    with s3_server(place, heap="4g") as server:
        os.environ.update(server.environment)
        for number in range(rounds + 1):
            tell(f"object store: round {number} of {rounds}" if number else "object store: warming up")
            _round(transfers if number else None, server, tree, number)
    return transfers


def _round(transfers: Transfers | None, server: S3Server, tree: StateFiles, number: int) -> None:
    """Who goes first changes from round to round."""
    makers: dict[str, Callable[[str], _Way]] = {
        HOLDFAST: lambda prefix: _Holdfast(server, prefix),
        RCLONE: lambda prefix: _Rclone(server, prefix, ()),
        TUNED: lambda prefix: _Rclone(server, prefix, _TUNED),
    }
    names = list(makers)
    names = names[number % len(names) :] + names[: number % len(names)]
    ways = {name: makers[name](f"{number}-{index}") for index, name in enumerate(names)}
    to = tree.root.with_name("restored")
    begun = processor.now()
    for step in STEPS:
        if step == "incremental":
            tree.change_one_percent()
        for name, way in ways.items():
            do = (lambda way=way: way.restore(to)) if step == "restore" else (lambda way=way: way.upload(tree))
            seconds = _timed(do)
            shutil.rmtree(to, ignore_errors=True)
            if transfers is not None:
                transfers.seconds.setdefault((name, step), []).append(seconds)
    if transfers is not None:
        transfers.others.append(processor.others_between(begun, processor.now()))
    for folder in (server.directory / BUCKET).iterdir():
        shutil.rmtree(folder)


def _timed(do: Callable[[], None]) -> float:
    os.sync()  # what the step before left to be written is not this one's burden
    begun = time.perf_counter()
    do()
    return time.perf_counter() - begun


def ratios(transfers: Transfers) -> Iterator[Ratio]:
    disturbed = max(transfers.others) > DISTURBED
    for step in STEPS:
        for way in (RCLONE, TUNED):
            yield Ratio(f"S3 {step}: {way}", transfers.ratio(way, step), True, EXPECTED_OF_RCLONE, disturbed)
