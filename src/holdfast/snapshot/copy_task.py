"""Copies a group of shards in another process, perhaps on another machine: the task, and its report.

The process must reach the same work directory and the same home; otherwise it reports `WorkerUnavailable`. It gets no
credentials: like every process that opens a home, it finds them in its own environment. Its uploads have the same keys
as uploads of the run itself.
"""

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.checkpoint.layout import ShardPlan
from holdfast.checkpoint.manifest import ManifestFile, digest_of
from holdfast.errors import HoldfastError, InvalidSettings, StorageError
from holdfast.identifiers import Digest, FencingEpoch, ShardId
from holdfast.repository.blobs import Blobs
from holdfast.snapshot.carrier import ShardDeclined, copy_shards
from holdfast.snapshot.low_priority import in_the_background
from holdfast.storage.interface import ObjectStore, StoredAt, Uploads
from holdfast.storage.limited import Allowance, LimitedStore
from holdfast.storage.metered import Meter, Usage
from holdfast.storage.urls import open_store
from holdfast.workdir.interface import WorkDirectory

_BURST_SECONDS = 0.1
"""Initial burst of a rate-limited copy task: small, so that many short tasks keep to the limit too."""


class WorkerUnavailable(Exception):
    """This process cannot run the copy task; another one may."""


@dataclass(frozen=True)
class CopyPlace:
    """Where a copy task reads and writes. A path can be another directory on another machine, so each process checks
    it."""

    home: str
    job: str
    storage_deadline: float
    witness: str
    """Key of a journal entry that this run has seen: a home without it is another home."""
    witness_digest: Digest
    directory: WorkDirectory
    """Includes the pins of this run."""
    directory_identity: str


@dataclass(frozen=True)
class CopyTask:
    place: CopyPlace
    fencing_epoch: FencingEpoch
    shards: tuple[ShardPlan, ...]
    """Only files whose object in the home is not known."""
    expected: tuple[ManifestFile, ...]
    """Objects that probably hold these files; a file with other bytes is uploaded."""
    damaged: frozenset[str]
    bytes_per_second: float | None = None


@dataclass(frozen=True)
class CopyReport:
    host: str
    pid: int
    found: tuple[ManifestFile, ...]
    """The files that are in the home now: all, or those copied before the failure."""
    written: tuple[tuple[ShardId, int, int], ...]
    """New bytes and objects of each shard; empty after a failure."""
    usage: Usage
    failure: ShardDeclined | HoldfastError | WorkerUnavailable | None = None


def run_copy_task(copy_task: CopyTask) -> CopyReport:
    """Called in the other process. The report contains any failure."""
    return in_the_background(lambda: _perform(copy_task))


def _perform(copy_task: CopyTask) -> CopyReport:
    meter = Meter()
    blobs: Blobs | None = None
    written: tuple[tuple[ShardId, int, int], ...] = ()
    failure: ShardDeclined | HoldfastError | WorkerUnavailable | None = None
    try:
        store = _opened(copy_task.place, meter)
        blobs = Blobs(
            _SentOnce(_limited(store, copy_task.bytes_per_second), store, copy_task.damaged), copy_task.fencing_epoch
        )
        blobs.add_known(copy_task.expected)
        copies = copy_shards(copy_task.place.directory, copy_task.shards, blobs, lambda: False)
        written = tuple((copy.shard, copy.bytes_new, copy.objects_written) for copy in copies)
    except (ShardDeclined, HoldfastError, WorkerUnavailable) as error:
        failure = error
    files = (file for shard in copy_task.shards for file in shard.files)
    found = [at for file in files if blobs is not None and (at := blobs.locate(file)) is not None]
    return CopyReport(socket.gethostname(), os.getpid(), tuple(found), written, meter.usage, failure)


def _opened(place: CopyPlace, meter: Meter) -> ObjectStore:
    host = socket.gethostname()
    work = place.directory.location
    try:
        identity = place.directory.identity()
    except OSError as error:
        raise WorkerUnavailable(f"{host} does not see the work directory {work}: {error.strerror}") from error
    except InvalidSettings as error:
        raise WorkerUnavailable(f"{host} cannot use the work directory: {error.message}") from error
    if identity != place.directory_identity:
        raise WorkerUnavailable(f"{work} on {host} is another directory than on the driver")
    try:
        store = open_store(place.home, deadline=place.storage_deadline, meter=meter).scoped(place.job)
        found = store.get(place.witness)
    except (StorageError, InvalidSettings) as error:
        raise WorkerUnavailable(f"{host} cannot use the home: {error.message}") from error
    if digest_of(found) != place.witness_digest:
        raise WorkerUnavailable(f"{store.url} on {host} is another home than on the driver")
    return store


def _limited(store: ObjectStore, bytes_per_second: float | None) -> ObjectStore:
    if bytes_per_second is None:
        return store
    return LimitedStore(store, bytes=Allowance(bytes_per_second, burst_seconds=_BURST_SECONDS))


@dataclass(frozen=True)
class _SentOnce:
    """Does not upload objects that exist. An interrupted copy task, or one whose answer was lost, leaves objects that
    are in no index."""

    uploads: Uploads
    store: ObjectStore
    damaged: frozenset[str]

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        if key in self.damaged or not self.store.exists(key):
            self.uploads.upload(key, chunks)

    def copy_inside(self, source: StoredAt, key: str, through: str) -> str | None:
        """As an upload: what is there need not be copied."""
        if key not in self.damaged and self.store.exists(key):
            return None
        return self.uploads.copy_inside(source, key, through)

    def stored_at(self, key: str, version: str) -> StoredAt | None:
        return self.uploads.stored_at(key, version)
