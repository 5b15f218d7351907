"""Starts a run that protects somebody else's query: compare, claim, assemble. The query is not touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.alarm import Receiver
from holdfast.checkpoint.layout import FileTrouble, NotPlannable
from holdfast.checkpoint.manifest import Manifest, digest_of
from holdfast.checkpoint.rewritten import is_log_entry, rewritten
from holdfast.coordination.events import QueryEnded, QueryStarted
from holdfast.errors import Corrupt, HoldfastError, InvalidSettings, NotFound, StopAsked
from holdfast.job_log import begin_step, log
from holdfast.plans.query_id import query_id
from holdfast.repository.damage import load_manifest
from holdfast.repository.entries import WentBack
from holdfast.repository.going_back import abandoned_by
from holdfast.repository.journal import Journal
from holdfast.runtime.errors_and_reasons import message_of
from holdfast.runtime.protecting.directory import ProtectedDirectory
from holdfast.runtime.protecting.fitting import Fit, FoundDirectory, fit
from holdfast.runtime.protecting.query import ProtectedQuery
from holdfast.runtime.protecting.shipping import PlanShipper
from holdfast.runtime.protecting.watching import DirectoryWatch, Watchers
from holdfast.runtime.query.query_life import QueryDone
from holdfast.runtime.recovery.recovery import Resumed
from holdfast.runtime.run.assembly.checkpoints import checkpoint_parts
from holdfast.runtime.run.assembly.query import runtime_of
from holdfast.runtime.run.assembly.storage import impatient_store, storage_parts
from holdfast.runtime.run.claiming import claim_beside, home_identity, require_claimable
from holdfast.runtime.run.components import QueryParts, StorageParts, Threads
from holdfast.runtime.run.job_location import JobLocation
from holdfast.runtime.run.launching import keep_beating, stored_manifests
from holdfast.runtime.run.loop import Finished, Runtime
from holdfast.runtime.run.run_end import record_run_end
from holdfast.runtime.work_marker import read_marker
from holdfast.storage.durable import storage_errors
from holdfast.workdir.barriers import newest_barrier
from holdfast.workdir.interface import WorkDirectory
from holdfast.workdir.soundness import damage

GONE = "directory_gone"
OVER = "directory_replaced"
TWO_WRITERS = "two_writers"
_STOPPING = "stopping: the job takes a last checkpoint, if batches were committed since the newest one"


def find(files: WorkDirectory, above: WorkDirectory) -> FoundDirectory:
    """Raises `HoldfastError` when it is no checkpoint directory of plain Spark with a committed batch, or not a sound
    one."""
    shown = files.location
    with storage_errors(f"read {shown}"):
        if (marker := read_marker(above)) is not None:
            raise InvalidSettings(
                f"could not protect {shown}: it is a work directory of job {marker.job!r} of {marker.home}",
                hint="the runs of that job take its checkpoints",
            )
        if not files.exists("metadata"):
            raise NotFound(
                f"could not protect {shown}: it is not a checkpoint directory of Spark: it has no file metadata",
                hint="give the checkpointLocation of the query",
            )
        barrier = newest_barrier(files)
        if barrier is None:
            raise NotFound(
                f"could not protect {shown}: the query has committed no batch yet", hint="wait for its first batch"
            )
        if (damaged := damage(files)) is not None and newest_barrier(files) == barrier:
            raise Corrupt(
                f"could not protect {shown} at batch {barrier}: {damaged}",
                hint="plain Spark would not resume from it either: stop the query, and restore the directory",
            )
        metadata = files.read("metadata")
        return FoundDirectory(files, query_id(metadata.decode()), barrier, digest_of(metadata))


def protect(
    location: JobLocation,
    found: FoundDirectory,
    query: ProtectedQuery,
    threads: Threads,
    finished: Finished,
    receivers: tuple[Receiver, ...] = (),
    *,
    accept_older: bool = False,
) -> Runtime:
    """The directory is `location.work`. The caller drives the returned runtime."""
    around = location.around
    journal = Journal(location.store, new_attempt=around.new_attempt, now=around.clock.wall, readers=around.readers)
    begin_step("comparing the directory with the job's journal")
    require_claimable(location, journal)
    where = fit(
        location.job,
        journal.state,
        found,
        lambda entry: load_manifest(location.store, entry),
        accept_older=accept_older,
    )
    leftovers = stored_manifests(location.store)
    home_identity(location)
    claimed = claim_beside(location, journal)
    storage = storage_parts(location, journal, claimed, query, receivers, threads)
    try:
        log.info("run %s owns the job, and protects %s", claimed.fencing_epoch, location.work.location)
        _leave(storage.journal, where, location.work.location)
        keep_beating(storage, threads)
    except (Exception, StopAsked) as error:
        failed = isinstance(error, Exception)
        why = message_of(error) if isinstance(error, Exception) else "stopped"
        record_run_end(storage.journal, f"could not start: {why}", failed=failed, never_ran=True, untouched=True)
        raise
    return _assembled(storage, found, where, query, threads, finished, leftovers)


def _assembled(
    storage: StorageParts,
    found: FoundDirectory,
    where: Fit,
    query: ProtectedQuery,
    threads: Threads,
    finished: Finished,
    leftovers: tuple[str, ...],
) -> Runtime:
    location, newest = storage.location, where.newest
    shipper = PlanShipper(
        files=found.files,
        store=impatient_store(location),
        journal=storage.journal,
        new_attempt=location.around.new_attempt,
        alarms=storage.alarms,
        lanes=threads.lanes,
        post=threads.post,
    )
    query.ships_with(shipper.ship)
    telling = _Telling(storage, threads)
    watchers = Watchers(shipper.planned, telling.gone, telling.back, telling.rewritten, telling.over)
    watch = DirectoryWatch(location.job, found.files, found.query, watchers)
    directory = ProtectedDirectory(found.files, found.query, watch.look)
    judge = Judge(storage, found, telling.rewritten)
    checkpoints = checkpoint_parts(storage, query, leftovers, threads, judge)
    resumed = Resumed(
        barrier=found.barrier,
        durable=None if newest is None else newest.barrier_batch_id,
        durable_id=None if newest is None else newest.id,
        directory=directory,
    )
    parts = QueryParts(query, remember=lambda head: None, stopping=_STOPPING)
    return runtime_of(storage, checkpoints, parts, resumed, threads, finished)


def _leave(journal: Journal, where: Fit, location: str) -> None:
    """The user goes on with an older directory: its batches get a line of their own."""
    chosen = where.newest
    if where.left is None or chosen is None:
        return
    asked = f"{location} is older than checkpoint {where.left.id}"
    abandoned = abandoned_by(journal.state, chosen)
    journal.append(lambda stamp: WentBack(**stamp, chosen=chosen.id, abandoned=abandoned, asked=asked, published=None))
    log.warning("%s: the job goes on after checkpoint %s, at batch %s", asked, chosen.id, chosen.barrier_batch_id)


@dataclass
class _Telling:
    """Alarms about the directory. Called on any lane."""

    storage: StorageParts
    threads: Threads
    _gone: bool = False

    def gone(self, why: str) -> None:
        if not self._gone:
            self._gone = True
            self.threads.post(QueryEnded())  # no checkpoint begins meanwhile
            self._raise(
                GONE,
                f"{self.storage.location.work.location} cannot be read: {why}; no checkpoint is taken meanwhile",
                "if it was moved: stop this, and protect the new place under the same job; if it is lost: "
                f"holdfast restore {self.storage.location.job} DIR",
            )

    def back(self) -> None:
        if self._gone:
            self._gone = False
            alarms, place = self.storage.alarms, self.storage.location.work.location
            self.threads.post(QueryStarted(replaced=False))
            self.threads.post(lambda: alarms.clear(GONE, f"{place} is there again"))

    def rewritten(self, path: str) -> None:
        place = self.storage.location.work.location
        if is_log_entry(path):
            self._raise(
                TWO_WRITERS,
                f"{path} in {place} was written again with other contents: two drivers work on one checkpointLocation, "
                "or somebody has changed it",
                "stop one of the two; then compare the rows of the output with those of the source since that batch",
            )
        else:
            self._raise(
                TWO_WRITERS,
                f"{path} in {place} was written again with other contents after its batch was committed: two drivers "
                "work on one checkpointLocation, or a task ran twice (speculation)",
                "see whether the query runs twice; with spark.speculation off, nothing else explains it",
                critical=False,
            )

    def over(self, error: HoldfastError) -> None:
        """What is under way is of the directory that was there before: no last checkpoint is taken."""
        self._raise(OVER, error.message, error.hint or "")
        self.threads.post(QueryEnded(replaced=True))
        self.threads.post(QueryDone(error))

    def _raise(self, code: str, message: str, hint: str, *, critical: bool = True) -> None:
        alarms = self.storage.alarms

        def once() -> None:
            if code not in alarms.active:
                alarms.raise_alarm(code, "critical" if critical else "warning", message, hint)

        self.threads.post(once)


class Judge:
    """Says of what was copied whether it is a checkpoint of the query, before it becomes one."""

    def __init__(self, storage: StorageParts, found: FoundDirectory, tell: Callable[[str], None]) -> None:
        self._storage = storage
        self._found = found
        self._tell = tell

    def __call__(self, manifest: Manifest) -> None:
        """Raises `NotPlannable`. Tells of files that an earlier checkpoint has with other bytes."""
        self._require_the_query(manifest)
        newest = self._storage.journal.state.newest_of_the_line()
        before = None if newest is None else self._storage.manifests.get(newest.id)
        if before is None:
            return
        changed = rewritten(before, manifest)
        for path in sorted(changed, key=is_log_entry, reverse=True)[:1]:
            self._tell(path)

    def _require_the_query(self, manifest: Manifest) -> None:
        """The directory may have been replaced while it was copied."""
        copied = next(file for file in manifest.files() if file.path == "metadata")
        if copied.digest != self._found.metadata:
            raise NotPlannable("metadata was replaced while the directory was copied", FileTrouble.CHANGED)
