"""One point of `bench.growth`, built and measured: `python -m bench.growth_point WHAT SIZE PLACE` prints JSON."""

from __future__ import annotations

import os
import random
import resource
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from holdfast.checkpoint.manifest import (
    Manifest,
    ManifestFile,
    ManifestShard,
    blob_key,
    digest_of,
    encode_manifest,
    manifest_key,
)
from holdfast.identifiers import AttemptId, BatchId, CheckpointId, Digest, FencingEpoch, JobName, ShardId
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import Retention
from holdfast.repository.journal import Journal
from holdfast.runtime.checkpoints.manifests import Manifests
from holdfast.runtime.lanes import Lane, Work
from holdfast.runtime.upkeep.collecting import Collector, DeletionPace
from holdfast.runtime.upkeep.freeing import append_retirement, clear, fold
from holdfast.runtime.upkeep.index_loading import IndexLoader
from holdfast.storage.metered import Meter
from holdfast.storage.urls import open_store
from holdfast.workdir.factory import work_directory
from holdfast.workdir.restorer import restore
from tests.unit.job_histories import History
from tests.unit.work_files import copied, manifest_of

FILES = 2_000
NEW = 20
"""Files of a checkpoint that the one before did not have."""
KEPT = 1
_TIMES = 3
"""What depends on the disk and on other machines' use of this one is measured so often; the least counts."""
_MIB = 1 << 20


class Cost(msgspec.Struct, frozen=True):
    seconds: float
    """Of this process's processors."""
    requests: int
    megabytes: float
    """By which the most memory rose meanwhile."""


class Measuring:
    def __init__(self) -> None:
        self.costs: dict[str, Cost] = {}

    @contextmanager
    def of(self, name: str, meter: Meter | None = None) -> Iterator[None]:
        _forget_peak()
        before, usage, begun = _peak(), meter.usage if meter else None, time.process_time()
        yield
        took = time.process_time() - begun
        requests = 0
        if meter is not None and usage is not None:
            after = meter.usage
            requests = sum(getattr(after, kind) - getattr(usage, kind) for kind in ("put", "get", "list", "delete"))
        found = Cost(took, requests, max(0.0, _peak() - before))
        self.costs[name] = min(self.costs.get(name, found), found, key=lambda cost: cost.seconds)


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class InTurn:
    """Lanes that work when they are told to."""

    def __init__(self) -> None:
        self._waiting: deque[Work] = deque()

    def submit(self, lane: Lane, work: Work) -> None:
        self._waiting.append(work)

    def every(self, lane: Lane, seconds: float, work: Work) -> None: ...

    def busy_since(self) -> Mapping[Lane, float]:
        return {}

    def work(self) -> None:
        while self._waiting:
            self._waiting.popleft()()


class StillClock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> datetime:
        return datetime.now(UTC)


def entries(size: int, place: Path, measuring: Measuring) -> None:
    """As many as the job has appended; its owner folds and copies them as it does after each checkpoint."""
    history = History(place / "home")
    history.run(retention=Retention(retained=KEPT, keep_hourly=0, keep_daily=0, grace_s=60.0))
    for id in range(1, size // 3):
        history.wait(30)
        history.start(id)
        history.complete(id, batch=id, manifest=digest_of(b"nobody reads it"))
        if id > KEPT:
            history.retire(id - KEPT)
        if fold(history.journal, 60.0, history.now):
            clear(history.store, history.journal)
        history.journal.copy_recent()
    home = f"file://{place / 'home'}"
    _status(measuring, home)
    meter = Meter()
    store = open_store(home, meter=meter).scoped(history.job)
    with measuring.of("a start reads the journal", meter):
        Journal(store, new_attempt=_never, now=lambda: history.now).load()


def _status(measuring: Measuring, home: str) -> None:
    from holdfast.cli.observing import examine
    from holdfast.repository.views import job_status

    meter = Meter()
    store = open_store(home, meter=meter).scoped("orders")
    with measuring.of("status", meter):
        job_status(examine(home, "orders", store))


def _never() -> AttemptId:
    raise AssertionError("nothing is appended")


def jobs(size: int, place: Path, measuring: Measuring) -> None:
    from holdfast.cli.jobs import jobs as listed

    (place / "home").mkdir()
    for number in range(size):
        history = History(place / "home", f"job-{number}")
        history.run()
        for id in range(1, 30):
            history.wait(30)
            history.complete(id, batch=id)
        history.journal.copy_recent()
        history.end()
    meter = Meter()
    _watch_requests(meter)
    with measuring.of("jobs", meter):
        _quietly(lambda: listed(home=f"file://{place / 'home'}"))


def _watch_requests(meter: Meter) -> None:
    """Of commands, which open the home themselves."""
    from holdfast.storage import urls

    opened = urls.open_store
    names = [name for name, module in list(sys.modules.items()) if getattr(module, "open_store", None) is opened]
    for name in names:
        vars(sys.modules[name])["open_store"] = lambda url, **given: opened(url, **{**given, "meter": meter})


def _quietly(work: Callable[[], None]) -> None:
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        work()
        sys.stdout.flush()
    finally:
        os.dup2(out, 1)


def retained(size: int, place: Path, measuring: Measuring) -> None:
    history = History(place / "home")
    epoch = history.run()
    _checkpoints(history, size, epoch)
    history.end()
    meter, clock, lanes = Meter(), StillClock(), InTurn()
    store = open_store(f"file://{place / 'home'}", meter=meter).scoped(history.job)
    owner = History(place / "home", attempts="owner")
    owner.journal.load()
    manifests, blobs, journal = Manifests(), Blobs(store, owner.run()), owner.journal
    loader = IndexLoader(
        store=store,
        journal=journal,
        blobs=blobs,
        manifests=manifests,
        readers=1,
        clock=clock,
        lanes=lanes,
        done=lambda: None,
    )
    with measuring.of("a start reads the manifests", meter):
        loader.poll()
        lanes.work()
    assert len(manifests) == size
    collector = Collector(
        store=store,
        journal=journal,
        blobs=blobs,
        manifests=manifests,
        pace=DeletionPace(deletes_per_second=1e9, grace_s=0.0),
        clock=clock,
        lanes=lanes,
    )
    with measuring.of(f"all but {KEPT} are retired and deleted", meter):
        old = journal.state.retained()[:-KEPT]
        append_retirement(journal, tuple(entry.id for entry in old))
        collector.retired(old)
        lanes.work()
        while collector._due <= clock.now + 60:
            clock.now += 1.0
            collector.poll()
            lanes.work()
    kept = {file.key for manifest in manifests.values() for file in manifest.files()}
    left = {item.key for item in store.list("blobs/")}
    assert left == kept, (len(left), len(kept))


def _checkpoints(history: History, count: int, epoch: FencingEpoch) -> None:
    """Each has 1 % new files in place of the oldest ones. The blobs have one byte each, which nobody reads here."""
    draw, root = random.Random(1), history.home / history.job
    files: list[ManifestFile] = []
    for id in range(1, count + 1):
        for _ in range(FILES if id == 1 else NEW):
            digest = Digest(draw.randbytes(32).hex())
            path = root / blob_key(digest, epoch)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"1")
            files.append(ManifestFile(f"state/0/{len(files) % 200}/{digest[:20]}.sst", 1, digest, epoch))
        files = files[-FILES:]
        shards = tuple(ManifestShard(ShardId(f"state/0/{n}"), tuple(files[n::200])) for n in range(200))
        manifest = Manifest(1, history.job, CheckpointId(id), BatchId(id), epoch, shards)
        data = encode_manifest(manifest)
        history.store.put(manifest_key(digest_of(data)), data)
        history.wait(60)
        history.complete(id, batch=id, manifest=digest_of(data))


def shards(size: int, place: Path, measuring: Measuring) -> None:
    work = place / "work"
    for number in range(size):
        folder = work / f"shard-{number}"
        folder.mkdir(parents=True)
        for file in range(5):
            (folder / f"{file}.delta").write_bytes(os.urandom(2_000))
    _checkpointed(place, work, measuring)


def state(size: int, place: Path, measuring: Measuring) -> None:
    work = place / "work"
    for number in range(size // 64):
        folder = work / f"shard-{number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{number}.sst").open("wb") as file:
            for _ in range(64):
                file.write(os.urandom(_MIB))
    _checkpointed(place, work, measuring)


def _checkpointed(place: Path, work: Path, measuring: Measuring) -> None:
    for number in range(_TIMES):
        home, target = place / f"home-{number}", place / f"restored-{number}"
        home.mkdir()
        meter = Meter()
        store = open_store(f"file://{home}", meter=meter).scoped(JobName("orders"))
        blobs = Blobs(store, FencingEpoch(1))
        with measuring.of("a full checkpoint", meter):
            copies = copied(work, blobs)
        with measuring.of("the same again", meter):
            copied(work, blobs)
        with measuring.of("a restore", meter):
            restore(store, manifest_of(copies), work_directory(target).at("here"))
        shutil.rmtree(home)
        shutil.rmtree(target)


def main() -> None:
    by, size, place = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    measuring = Measuring()
    os.fsync = lambda handle: None  # the disk of the machine is not what grows
    _KINDS[by](size, place, measuring)
    print(msgspec.json.encode(measuring.costs).decode())  # noqa: T201


_KINDS = {"entries": entries, "jobs": jobs, "retained": retained, "shards": shards, "state": state}


if __name__ == "__main__":
    main()
