"""The carrier that lets other processes copy groups of shards.

Files that are known to be in the home are left out. Groups that other processes cannot copy, or that are too small, are
copied here: a checkpoint does not fail because no worker is available.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.checkpoint.layout import ShardPlan, WorkFile
from holdfast.checkpoint.manifest import ManifestFile, digest_of
from holdfast.identifiers import Digest, FencingEpoch
from holdfast.job_log import log
from holdfast.repository.blobs import Blobs, RemoteUploads
from holdfast.repository.chain import entry_key
from holdfast.repository.names import JOURNAL, is_entry
from holdfast.snapshot.carrier import ShardCopy, copy_shards, key_being_deleted
from holdfast.snapshot.copy_task import CopyPlace, CopyReport, CopyTask, WorkerUnavailable
from holdfast.storage.interface import ObjectStore
from holdfast.storage.metered import Meter
from holdfast.workdir.interface import WorkDirectory


class TaskRunner(Protocol):
    def at_once(self) -> int:
        """How many tasks run at the same time, at most."""

    def send(self, copy_task: CopyTask, cancelled: Callable[[], bool]) -> CopyReport:
        """Run it. Raises `Cancelled`, or `WorkerUnavailable` when no process can run it."""


@dataclass(frozen=True)
class HomeOfCopies:
    """The job's home, as this process uses it and as it is sent to others."""

    url: str
    job: str
    store: ObjectStore
    storage_deadline: float
    bandwidth: float | None = None
    """Bytes per second, of all tasks together."""
    meter: Meter | None = None


class RemoteCopier:
    def __init__(self, runner: TaskRunner, home: HomeOfCopies, *, worthwhile: int) -> None:
        """Groups with less than `worthwhile` bytes to be read are copied here."""
        self._runner = runner
        self._home = home
        self._worthwhile = worthwhile
        self._witness: tuple[str, Digest] | None = None
        self._warned = ""

    def __call__(
        self,
        directory: WorkDirectory,
        group: Sequence[ShardPlan],
        blobs: Blobs,
        cancelled: Callable[[], bool],
    ) -> tuple[ShardCopy, ...]:
        known = {file.path: at for shard in group for file in shard.files if (at := blobs.locate(file)) is not None}
        unknown = _without(group, known)
        if sum(shard.size for shard in unknown) >= self._worthwhile and unknown:
            with blobs.remote_uploads() as remote:
                report = self._sent(self._copy_task(directory, unknown, blobs, remote), cancelled)
                if report is not None:
                    refused = blobs.merge_remote(remote, _matched(unknown, report.found))
                    return _copies(group, known, report, refused)
        return copy_shards(directory, group, blobs, cancelled)

    def _copy_task(
        self,
        directory: WorkDirectory,
        shards: tuple[ShardPlan, ...],
        blobs: Blobs,
        remote: RemoteUploads,
    ) -> CopyTask:
        home = self._home
        witness, digest = self._entry(blobs.epoch)
        files = [file for shard in shards for file in shard.files]
        return CopyTask(
            CopyPlace(
                home=home.url,
                job=home.job,
                storage_deadline=home.storage_deadline,
                witness=witness,
                witness_digest=digest,
                directory=directory,
                directory_identity=directory.identity(),
            ),
            fencing_epoch=blobs.epoch,
            shards=shards,
            expected=tuple(at for file in files if (at := blobs.expect(file)) is not None),
            damaged=remote.damaged,
            bytes_per_second=home.bandwidth / self._runner.at_once() if home.bandwidth is not None else None,
        )

    def _entry(self, epoch: FencingEpoch) -> tuple[str, Digest]:
        """The oldest entry of the run that no fold stands for yet."""
        if self._witness is None:
            store = self._home.store
            listed = (item.key for item in store.list(JOURNAL, after=entry_key(epoch - 1)) if is_entry(item.key))
            key = next(listed, entry_key(epoch))
            self._witness = (key, digest_of(store.get(key)))
        return self._witness

    def _sent(self, copy_task: CopyTask, cancelled: Callable[[], bool]) -> CopyReport | None:
        """None when no process could run it."""
        try:
            report = self._runner.send(copy_task, cancelled)
            if self._home.meter is not None:
                self._home.meter.add(report.usage)
            if isinstance(report.failure, WorkerUnavailable):
                raise report.failure
        except WorkerUnavailable as error:
            self._witness = None  # it may have been folded since
            self._tell(str(error))
            return None
        log.debug("%d shards were copied by process %d on %s", len(copy_task.shards), report.pid, report.host)
        return report

    def _tell(self, why: str) -> None:
        """Logs each reason once, until another one occurs."""
        if why != self._warned:
            self._warned = why
            log.warning("the driver copies by itself: %s", why)


def _without(group: Sequence[ShardPlan], known: Mapping[str, ManifestFile]) -> tuple[ShardPlan, ...]:
    left = (ShardPlan(shard.shard, tuple(f for f in shard.files if f.path not in known)) for shard in group)
    return tuple(shard for shard in left if shard.files)


def _matched(shards: Sequence[ShardPlan], found: Sequence[ManifestFile]) -> list[tuple[WorkFile, ManifestFile]]:
    files = {file.path: file for shard in shards for file in shard.files}
    return [(files[at.path], at) for at in found]


def _copies(
    group: Sequence[ShardPlan], known: Mapping[str, ManifestFile], report: CopyReport, refused: frozenset[str]
) -> tuple[ShardCopy, ...]:
    if report.failure is not None:
        raise report.failure
    where = {**known, **{at.path: at for at in report.found}}
    for shard in group:
        for file in shard.files:
            if (key := where[file.path].key) in refused:
                raise key_being_deleted(shard.shard, file.path, key)
    written = {shard: (size, objects) for shard, size, objects in report.written}
    return tuple(
        ShardCopy(
            shard.shard,
            tuple(where[file.path] for file in shard.files),
            *written.get(shard.shard, (0, 0)),
            host=report.host if shard.shard in written else "",
        )
        for shard in group
    )
