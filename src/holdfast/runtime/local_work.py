"""Work directories on this host's disk.

<work>/<job>/job.json               which job of which home these belong to
<work>/<job>/<epoch>-<n>/           Spark's checkpoint directory of run <epoch>, its n-th
<work>/<job>/<epoch>-<n>.aside      why the directory beside it must not be used again
<work>/<job>/.<epoch>-<n>.pins/     links to files that are being copied from it
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from holdfast.checkpoint.layout import ShardPlan, SnapshotPlan, WorkFile
from holdfast.checkpoint.manifest import Manifest
from holdfast.errors import InvalidSettings
from holdfast.identifiers import BatchId, FencingEpoch, JobName, Ticket
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import RunStarted
from holdfast.repository.restore import local_copy, restore
from holdfast.runtime.ports import WorkDirectory
from holdfast.sinks import ledger
from holdfast.sinks.protocol import StagedBatch
from holdfast.snapshot import work_directory
from holdfast.snapshot.carrier import Carrier, ShardCopy, copy_shards
from holdfast.snapshot.pins import SUFFIX as PINS
from holdfast.snapshot.pins import Pins
from holdfast.snapshot.soundness import damage
from holdfast.storage.interface import ObjectStore

_MARKER = "job.json"
_ASIDE = ".aside"
_ASIDE_KEPT = 3
_PIECE = 1 << 20
_DIRECTORY = re.compile(rf"\.?(\d+)-(\d+)(?:\.restoring-|{re.escape(PINS)}$|$)")


class _Marker(msgspec.Struct):
    job: str
    home: str
    lineage: str


class LocalWorkDirectory:
    def __init__(self, path: Path, carry: Carrier = copy_shards) -> None:
        self.path = path
        self._carry = carry
        self._pins = Pins(path)

    @property
    def location(self) -> str:
        return str(self.path)

    def newest_barrier(self) -> BatchId | None:
        return work_directory.newest_barrier(self.path)

    def plan(self, barrier: BatchId) -> SnapshotPlan:
        return work_directory.plan(self.path, barrier)

    def pin(self, ticket: Ticket, files: Sequence[WorkFile]) -> bool:
        return self._pins.hold(ticket, files)

    def unpin(self, ticket: Ticket) -> None:
        self._pins.release(ticket)

    def copy(self, shards: Sequence[ShardPlan], blobs: Blobs, cancelled: Callable[[], bool]) -> tuple[ShardCopy, ...]:
        return self._carry(self.path, shards, blobs, cancelled, self._pins.folders)

    def ledger(self) -> tuple[StagedBatch, ...]:
        return ledger.read(self.path)

    def prune_ledger(self, published: BatchId) -> None:
        ledger.prune(self.path, published)

    def drop_ledger_after(self, batch: BatchId | None) -> None:
        ledger.remove_after(self.path, batch)

    def pieces(self, path: str) -> Iterator[bytes]:
        with (self.path / path).open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece

    def set_aside(self, why: str) -> None:
        self.path.with_name(self.path.name + _ASIDE).write_text(why + "\n")


def require_free_or_ours(work: Path, job: JobName, home: str) -> None:
    """Refuse a place that holds somebody else's work, before anything is touched."""
    if (work / _MARKER).exists() or (work / "commits").exists():
        raise InvalidSettings.of("work", str(work), "it is itself a work directory", hint="name the directory above it")
    marker = _read_marker(work / job)
    if marker is not None and (marker.job, marker.home) != (job, home):
        raise InvalidSettings.of(
            "work",
            str(work),
            f"{work / job} is the work directory of job {marker.job!r} of {marker.home}",
            hint="give this job a work directory of its own: --work DIR",
        )


class LocalWorkplace:
    def __init__(self, work: Path, job: JobName, home: str, lineage: str, carry: Carrier = copy_shards) -> None:
        self._root = work / job
        self._carry = carry
        marker = _read_marker(self._root)
        if marker is not None and marker.lineage != lineage:
            # The home was emptied since. Its old work may be all that is left of it, so it is not removed.
            self._root.rename(self._root.with_name(f"{job}.stale-{marker.lineage[:8]}"))
        self._root.mkdir(parents=True, exist_ok=True)
        (self._root / _MARKER).write_bytes(msgspec.json.encode(_Marker(job, home, lineage)))

    def intact(self, run: RunStarted) -> WorkDirectory | None:
        newest = max(self._numbered(run.fencing_epoch), default=None)
        if newest is None:
            return None
        directory = LocalWorkDirectory(self._path(run.fencing_epoch, newest), self._carry)
        if directory.path.with_name(directory.path.name + _ASIDE).exists():
            return None
        if (why := damage(directory.path)) is not None:
            if directory.newest_barrier() is not None:
                directory.set_aside(why)
            return None
        return directory

    def adopt(self, previous: WorkDirectory, epoch: FencingEpoch) -> WorkDirectory:
        barrier = previous.newest_barrier()
        assert barrier is not None, "only an intact directory is adopted"
        target = self._next_path(epoch)
        local_copy(Path(previous.location), previous.plan(barrier), target)
        return LocalWorkDirectory(target, self._carry)

    def restore(self, store: ObjectStore, manifest: Manifest, epoch: FencingEpoch) -> WorkDirectory:
        target = self._next_path(epoch)
        restore(store, manifest, target)
        return LocalWorkDirectory(target, self._carry)

    def fresh(self, epoch: FencingEpoch) -> WorkDirectory:
        target = self._next_path(epoch)
        target.mkdir()
        return LocalWorkDirectory(target, self._carry)

    def clean(self, keep: WorkDirectory) -> None:
        """A run that stalled before this must not remove what a newer run on this host works in, or is building."""
        kept = _order(Path(keep.location).name)
        for path in self._root.iterdir():
            aside = path.with_name(path.name + _ASIDE).exists()
            if path.is_dir() and not aside and _order(path.name) < kept:
                shutil.rmtree(path, ignore_errors=True)
        for note in sorted(self._root.glob(f"*{_ASIDE}"), key=lambda note: note.stat().st_mtime)[:-_ASIDE_KEPT]:
            shutil.rmtree(note.with_suffix(""), ignore_errors=True)
            note.unlink()

    def _numbered(self, epoch: FencingEpoch) -> list[int]:
        prefix = f"{epoch}-"
        names = [path.name for path in self._root.iterdir() if path.is_dir() and path.name.startswith(prefix)]
        return [int(number) for name in names if (number := name.removeprefix(prefix)).isdigit()]

    def _next_path(self, epoch: FencingEpoch) -> Path:
        return self._path(epoch, max(self._numbered(epoch), default=0) + 1)

    def _path(self, epoch: FencingEpoch, number: int) -> Path:
        return self._root / f"{epoch}-{number}"


def _order(name: str) -> tuple[float, float]:
    """Of directories, half-built ones included, by run and number; what is neither comes last."""
    match = _DIRECTORY.match(name)
    return (int(match[1]), int(match[2])) if match else (math.inf, math.inf)


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_MARKER_DECODER = msgspec.json.Decoder(_Marker)


def _read_marker(root: Path) -> _Marker | None:
    try:
        return _MARKER_DECODER.decode((root / _MARKER).read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
