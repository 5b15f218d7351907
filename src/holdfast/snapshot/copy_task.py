"""Copying a group of shards in another process, which may be on another machine: what it is told, and what it answers.

The process has the work directory and the home before it, or it is unfit and says so. It gets no credentials: it finds
them in its own environment, as every process that opens a home. What it uploads has the keys that the run itself would
have given it.
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
from holdfast.storage.interface import ObjectStore, Uploads
from holdfast.storage.limited import Allowance, LimitedStore
from holdfast.storage.metered import Meter, Usage
from holdfast.storage.urls import open_store
from holdfast.workdir.interface import WorkDirectory

_BURST_SECONDS = 0.1
"""A limited copy task begins with so little that many short ones keep to the limit, too."""


class WorkerUnavailable(Exception):
    """This process cannot do the copy task, another one may."""


@dataclass(frozen=True)
class CopyPlace:
    """Where a copy task is done. Two machines can have different directories of one name, so each proves its own."""

    home: str
    job: str
    storage_deadline: float
    witness: str
    """Key of an entry of the journal that this run has seen: a home that has not got it is another home."""
    witness_digest: Digest
    directory: WorkDirectory
    """With the pins that this run holds."""
    directory_identity: str


@dataclass(frozen=True)
class CopyTask:
    place: CopyPlace
    fencing_epoch: FencingEpoch
    shards: tuple[ShardPlan, ...]
    """Only files of which it is not known where the home has them."""
    expected: tuple[ManifestFile, ...]
    """What the home probably has of them; a file with other bytes is uploaded."""
    damaged: frozenset[str]
    bytes_per_second: float | None = None


@dataclass(frozen=True)
class CopyReport:
    host: str
    pid: int
    found: tuple[ManifestFile, ...]
    """The files that the home has now, all of them or as far as it went."""
    written: tuple[tuple[ShardId, int, int], ...]
    """Of each shard the new bytes and objects; empty when it was not done."""
    usage: Usage
    failure: ShardDeclined | HoldfastError | WorkerUnavailable | None = None


def run_copy_task(copy_task: CopyTask) -> CopyReport:
    """Called in the other process. Whatever stands in the way is in the report."""
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
    """What is there is not sent again. A copy task that was cut short, or whose answer got lost, has left things there
    that nobody knows of."""

    uploads: Uploads
    store: ObjectStore
    damaged: frozenset[str]

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        if key in self.damaged or not self.store.exists(key):
            self.uploads.upload(key, chunks)
