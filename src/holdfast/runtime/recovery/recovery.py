"""Chooses where a run resumes: one algorithm for the first start, a restart, another host, and a damaged home.

0. The checkpoint that the user asked to go back to, once.
1. Else the previous run's directory on this host, when it is intact, no other run came in between, and the sink still
   has what its batches staged.
2. Else the newest checkpoint whose every byte is present and right; then the one before it, and so on. The batches that
   followed an older one are repeated as they were, where all their plans are there (`replaying`): then nothing newer is
   abandoned but what readers have not seen.
3. Batch 0, only when the job has never completed a checkpoint.

A checkpoint that is proved damaged may be passed over. One that cannot be read now is not damaged: recovery uses an
older one only when that takes no row back from readers; otherwise the user must ask for it.

This module makes a directory and records no decision. `resuming` asks query, sink and source, and then calls
`record_abandonment`: the journal names the checkpoints after the chosen one. Their timeline ends here. Choosing one
of them later would put two different histories of the same batches in the sink. A checkpoint that was only found
damaged while its batches continued does not rule out the previous run's directory: the sink stays at its barrier. It
is usable again when its bytes are. One that was passed over is so only until the other timeline has a checkpoint
(`memory.may_return`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.checkpoint.manifest import Manifest, ManifestFile, digest_of, manifest_key
from holdfast.errors import Corrupt, NewerFormat, ObjectNotFound, StorageError, StorageUnreachable
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch
from holdfast.job_log import log
from holdfast.repository.absence import absent_among
from holdfast.repository.damage import load_manifest, mark_corrupt, mark_repaired
from holdfast.repository.entries import CheckpointCompleted, WentBack
from holdfast.repository.going_back import GoBack, abandoned_by
from holdfast.repository.journal import READERS, Journal
from holdfast.repository.state import JobState
from holdfast.repository.verification import verify
from holdfast.runtime.ports import RunDirectory, Workplace
from holdfast.runtime.recovery.replaying import Replay, Replaying
from holdfast.sinks import ledger
from holdfast.sinks.protocol import StagedBatch
from holdfast.storage.interface import ObjectStore
from holdfast.storage.retrying import patience_of, pauses


@dataclass(frozen=True)
class Abandonment:
    """What the journal must record before the sink is changed."""

    back: GoBack | None = None
    passed_over: Mapping[CheckpointId, str] = field(default_factory=dict)
    """Checkpoints that are newer than the chosen one, and why they were not used."""

    @property
    def why(self) -> str:
        if self.back is not None:
            return f"go back to {self.back.asked}"
        return f"resume without checkpoint {_listed(self.passed_over)}"


@dataclass(frozen=True, kw_only=True)
class Point:
    """Where a timeline continues."""

    barrier: BatchId | None
    """The newest committed batch in the directory; the query continues with the next one."""
    durable: BatchId | None
    """The barrier of the newest checkpoint that this timeline contains. Output is published up to here."""
    durable_id: CheckpointId | None = None
    """That checkpoint; None when there is none, or it is damaged and its barrier needs a new one."""
    abandons: Abandonment | None = None
    replay: Replay | None = None
    """The batches behind `barrier` that are repeated as they were before anything else runs, in place of newer
    checkpoints that cannot be used."""

    @property
    def passes_over(self) -> bool:
        """Newer checkpoints are left behind because they are damaged."""
        return self.abandons is not None and self.abandons.back is None

    @property
    def why(self) -> str:
        """Completes "to …"."""
        if self.abandons is not None:
            return self.abandons.why
        if self.replay is not None:
            return f"repeat the batches up to {self.replay.upto} without checkpoint {_listed(self.replay.damaged)}"
        return "resume from the home's newest checkpoint"


@dataclass(frozen=True, kw_only=True)
class Resumed(Point):
    directory: RunDirectory
    checkpoint: CheckpointId | None = None
    """The checkpoint that the directory was restored from, None for a local or fresh one."""

    @property
    def is_local(self) -> bool:
        """The job resumes in the previous run's directory, with the batches that Spark had planned there."""
        return self.checkpoint is None and self.barrier is not None


def foreseen(state: JobState, back: GoBack | None) -> Point | None:
    """Where the job resumes, as far as the journal alone shows; None when it does not."""
    chosen = back.to if back is not None else state.newest_of_the_line()
    if chosen is None or chosen.id in state.corrupt:
        return None
    barrier, abandons = chosen.barrier_batch_id, Abandonment(back) if back is not None else None
    return Point(barrier=barrier, durable=barrier, durable_id=chosen.id, abandons=abandons)


Cost = Callable[[BatchId], str | None]
"""What resuming at that barrier would take back from readers, None for nothing."""

Lost = Callable[[RunDirectory], str | None]
"""Staged output of a directory's batches that is gone, None for nothing."""


class Known:
    """Reads what the home holds about the checkpoints in its journal. Only reads."""

    def __init__(self, store: ObjectStore, journal: Journal) -> None:
        self._store = store
        self._journal = journal

    def made_by(self, point: Point) -> FencingEpoch | None:
        """The run that made the checkpoint at `point.durable`, as recorded by the sink; None when that is unknown."""
        state = self._journal.state
        newest = state.newest_of_the_line() if point.durable_id is None else state.completed[point.durable_id]
        if newest is None:
            return None
        if newest.rescaled is None and not is_copied(state, newest.id):
            return newest.fencing_epoch
        return self.manifest(newest.id).fencing_epoch  # the entry names the command that copied or rescaled it

    def manifest(self, id: CheckpointId) -> Manifest:
        """Raises `Corrupt` or `StorageError`."""
        return load_manifest(self._store, self._journal.state.completed[id])

    def ledger_of(self, id: CheckpointId) -> tuple[StagedBatch, ...]:
        """What its batches had staged and not published. Raises `Corrupt` or `StorageError`."""
        files = [file for file in self.manifest(id).files() if file.path.startswith(f"{ledger.FOLDER}/")]
        return tuple(sorted((ledger.decoded(self.read(file), file.path) for file in files), key=_batch_id))

    def logs_of_sources(self, point: Point) -> Iterator[bytes]:
        """Spark's logs of the sources in the abandoned batches, as far as the home has them."""
        state, abandons = self._journal.state, point.abandons
        if abandons is None:
            return
        ids = abandons.passed_over if abandons.back is None else abandoned_by(state, abandons.back.to)
        for id in sorted(ids, reverse=True):
            try:
                files = [file for file in self.manifest(id).files() if _is_source_log(file, point.barrier)]
                logs = [self.read(file) for file in files]
            except (Corrupt, StorageError) as error:
                log.debug("could not read which input the batches of checkpoint %s used: %s", id, error.message)
                continue
            yield from logs
            return

    def read(self, file: ManifestFile) -> bytes:
        """One file of a checkpoint. Raises `Corrupt` or `StorageError`."""
        data = self._store.read(file.key, file.offset, file.size)
        if digest_of(data) != file.digest:
            raise Corrupt(f"{file.path} is damaged")
        return data


class Recovery(Known):
    def __init__(
        self,
        store: ObjectStore,
        journal: Journal,
        workplace: Workplace,
        readers: int = READERS,
        *,
        cost: Cost = lambda barrier: None,
        lost: Lost = lambda directory: None,
        replaying: Replaying | None = None,
    ) -> None:
        """`replaying` is None when no plans are kept."""
        super().__init__(store, journal)
        self._replaying = replaying
        self._readers = readers
        self._workplace = workplace
        self._cost = cost
        self._lost = lost
        self._refused: set[CheckpointId] = set()
        self._waited = False

    @property
    def repeats(self) -> bool:
        """Whether batches after an older checkpoint are repeated, if their plans exist."""
        return self._replaying is not None

    def resume(
        self, *, local: bool, back: GoBack | None = None, damaged: Mapping[CheckpointId, str] | None = None
    ) -> Resumed:
        """Build the directory to start in. `local` allows the previous run's directory; `damaged` names checkpoints
        that Spark refuses although their bytes are right. Call `record_abandonment` before the sink is changed."""
        self._refused |= set(damaged or ())
        if back is not None:
            return self._going_back(back)
        if local and (resumed := self._from_previous_run()):
            return resumed
        return self._from_home(dict(damaged or {}))

    def _going_back(self, back: GoBack) -> Resumed:
        try:
            directory = self._restored(back.to)
        except Corrupt as error:
            self.mark_corrupt(back.to.id, error.message, passed_over=False)
            raise Corrupt(
                f"could not go back to {back.asked}: it is damaged: {error.message}",
                hint="start without it: the job resumes where it was",
            ) from error
        log.info("going back to %s: resuming at batch %s", back.asked, back.to.barrier_batch_id)
        return self._resumed(directory, back.to, Abandonment(back))

    def _from_previous_run(self) -> Resumed | None:
        """The directory follows the newest checkpoint of the timeline if it has its barrier, even when the checkpoint's
        copy in the home is damaged."""
        previous = self._journal.state.previous_run
        if previous is None:
            return None
        state = self._journal.state
        newest = state.newest_of_the_line()
        if any(id > (newest.id if newest else 0) for id in state.abandoned):
            # A newer checkpoint was abandoned. The directory may belong to its timeline: the sink is rewound past it,
            # and what the directory's ledger has dropped could not be published again.
            return None
        if state.returned is not None and state.returned.sequence > previous.sequence:
            return None  # it resumed from an older checkpoint, on a timeline that was abandoned
        if state.is_rescaled_since(previous):
            return None
        directory = self._workplace.intact(previous)
        if directory is None:
            return None
        barrier = directory.newest_barrier()
        if barrier is None or (newest is not None and newest.barrier_batch_id > barrier):
            return None
        if (lost := self._lost(directory)) is not None:
            log.warning("the previous run's directory %s is not used: %s", directory.location, lost)
            return None
        try:
            adopted = self._workplace.adopt(directory, self._journal.fencing_epoch)
        except StorageUnreachable:
            self._journal.require_standing()  # a newer run takes over directories
            raise
        # A query that outlived its driver may have committed one more batch, which the takeover includes.
        barrier = adopted.newest_barrier()
        log.info("resuming at batch %s from the previous run's directory %s", barrier, directory.location)
        if newest is None:
            return Resumed(directory=adopted, barrier=barrier, durable=None)
        durable_id = newest.id if newest.id not in state.corrupt else None
        return Resumed(directory=adopted, barrier=barrier, durable=newest.barrier_batch_id, durable_id=durable_id)

    def _from_home(self, damaged: dict[CheckpointId, str]) -> Resumed:
        unreadable: dict[CheckpointId, StorageError] = {}
        for entry in self._journal.state.restorable():
            if entry.id in damaged:
                continue
            try:
                directory = self._restored(entry)
            except Corrupt as error:
                log.error("checkpoint %s is damaged: %s", entry.id, error.message)
                damaged[entry.id] = error.message
                continue
            except StorageError as error:
                log.error("checkpoint %s cannot be read now: %s", entry.id, error.message)
                unreadable[entry.id] = error
                continue
            self._require_no_cost(entry, unreadable)
            log.info("resuming at batch %s from checkpoint %s", entry.barrier_batch_id, entry.id)
            passed = self._passed_over(entry, damaged | {id: error.message for id, error in unreadable.items()})
            if passed and not unreadable and (replay := self._replay(entry, passed)) is not None:
                return self._replayed(directory, entry, replay)
            return self._resumed(directory, entry, Abandonment(passed_over=passed) if passed else None)
        if unreadable:
            raise next(iter(unreadable.values()))
        if self._journal.state.completed:
            for id, detail in damaged.items():
                self.mark_corrupt(id, detail, passed_over=False)
            raise Corrupt(
                "could not resume: no checkpoint of this job verifies, and starting from scratch would lose its state",
                hint="if the machine caused this, repair it and run `holdfast verify --all --mark`, which brings back "
                "what is sound; or restore a copy of the home; or start from scratch with a new job name and a sink "
                "of its own, since the same one would get every row again",
            )
        log.info("there is no checkpoint yet: beginning at batch 0")
        return Resumed(directory=self._workplace.fresh(self._journal.fencing_epoch), barrier=None, durable=None)

    def _require_no_cost(self, chosen: CheckpointCompleted, unreadable: Mapping[CheckpointId, StorageError]) -> None:
        """What cannot be read now may be readable later: recovery does not take rows back for that on its own."""
        for id, error in unreadable.items():
            if (cost := self._cost(chosen.barrier_batch_id)) is not None:
                raise type(error)(
                    f"could not resume from checkpoint {id}: {error.message}. Checkpoint {chosen.id} at batch "
                    f"{chosen.barrier_batch_id} can be read, but resuming from it {cost}",
                    hint=f"make checkpoint {id} readable (holdfast verify --all shows what is not), or accept that: "
                    f"--from-checkpoint {chosen.id}",
                )

    def _replay(self, chosen: CheckpointCompleted, passed: Mapping[CheckpointId, str]) -> Replay | None:
        if self._replaying is None or is_copied(self._journal.state, max(passed)):
            return None  # who made a checkpoint of a copy is in its manifest only
        return self._replaying.behind(chosen, passed)

    def _replayed(self, directory: RunDirectory, entry: CheckpointCompleted, replay: Replay) -> Resumed:
        log.info("batches up to %s are repeated as they were: nothing is taken back", replay.upto)
        return Resumed(
            directory=directory,
            barrier=entry.barrier_batch_id,
            durable=replay.durable,
            checkpoint=entry.id,
            abandons=Abandonment(passed_over=replay.passed_over) if replay.passed_over else None,
            replay=replay,
        )

    def _resumed(self, directory: RunDirectory, entry: CheckpointCompleted, abandons: Abandonment | None) -> Resumed:
        barrier = entry.barrier_batch_id
        return Resumed(
            directory=directory,
            barrier=barrier,
            durable=barrier,
            durable_id=entry.id,
            checkpoint=entry.id,
            abandons=abandons,
        )

    def _restored(self, entry: CheckpointCompleted) -> RunDirectory:
        """Read twice before it is passed over, which is final: bytes that arrive wrong may be stored right."""
        try:
            return self._restore(entry)
        except Corrupt as error:
            log.warning("checkpoint %s is read once more: %s", entry.id, error.message)
        self._wait_out()
        try:
            return self._restore(entry)
        except Corrupt as error:
            if isinstance(error.__cause__, ObjectNotFound):
                self._require_absent(entry, error)
            raise

    def _wait_out(self) -> None:
        """A proxy in front of the store can answer with its own pages for seconds, and they look like objects. Waits
        once for all checkpoints."""
        if not self._waited:
            for _ in pauses(patience_of(self._store)):
                pass
            self._waited = True

    def _require_absent(self, entry: CheckpointCompleted, error: Corrupt) -> None:
        """An object that one answer reports as missing is missing only when a listing agrees."""
        keys = {manifest_key(entry.manifest)}
        if not absent_among(self._store, keys):
            keys = {file.key for file in load_manifest(self._store, entry).files()}
            if not absent_among(self._store, keys):
                raise StorageUnreachable(
                    f"could not read checkpoint {entry.id}: a read reports an object as missing, a "
                    f"listing shows it: {error.message}",
                    hint="start again; if it happens again, contact the operator of the storage",
                ) from error

    def _restore(self, entry: CheckpointCompleted) -> RunDirectory:
        manifest = load_manifest(self._store, entry)
        return self._workplace.restore(self._store, manifest, self._journal.fencing_epoch)

    def _passed_over(self, chosen: CheckpointCompleted, damaged: Mapping[CheckpointId, str]) -> dict[CheckpointId, str]:
        """Every damaged checkpoint newer than the chosen one, including those found damaged earlier. One that the job
        went back behind is not among them: it must never come back, even if its bytes do."""
        state = self._journal.state
        known = {id: entry.detail for id, entry in state.corrupt.items() if id not in state.retired}
        behind = {id: detail for id, detail in sorted({**known, **damaged}.items()) if id > chosen.id}
        return {id: detail for id, detail in behind.items() if id not in state.abandoned}

    def record_abandonment(self, resumed: Resumed, published: BatchId | None) -> None:
        """Record what is abandoned: after this the sink may be rewound. `published` is the newest batch that it
        shows."""
        abandons = resumed.abandons
        for id, detail in resumed.replay.damaged.items() if resumed.replay is not None else ():
            self.mark_corrupt(id, detail, passed_over=False)
        if abandons is None:
            return
        if abandons.back is not None:
            self._go_back(abandons.back, published)
        for id, detail in abandons.passed_over.items():
            self.mark_corrupt(id, detail, published=published)

    def _go_back(self, back: GoBack, published: BatchId | None) -> None:
        ids = abandoned_by(self._journal.state, back.to)
        self._journal.append(
            lambda stamp: WentBack(
                **stamp,
                chosen=back.to.id,
                abandoned=ids,
                asked=back.asked,
                published=published,
            )
        )

    def mark_corrupt(
        self, id: CheckpointId, detail: str, *, passed_over: bool = True, published: BatchId | None = None
    ) -> None:
        if id in self._journal.state.passed_over:
            return
        refused = id in self._refused
        mark_corrupt(self._journal, id, detail, passed_over=passed_over, published=published, refused=refused)

    def is_sound(self, entry: CheckpointCompleted) -> bool:
        """Reads every byte of it."""
        try:
            return verify(self._store, entry.id, entry.manifest, parallelism=self._readers).sound
        except (StorageError, NewerFormat) as error:
            log.debug("checkpoint %s is not proved: %s", entry.id, error.message)
            return False

    def bring_back(self, id: CheckpointId) -> None:
        """It was passed over, and may be chosen again from here on."""
        detail = "every byte was read and is right again, and nothing was published since it was passed over"
        mark_repaired(self._journal, id, detail, returns=True)


def _listed(ids: Iterable[CheckpointId]) -> str:
    return ", ".join(str(id) for id in ids)


def _batch_id(batch: StagedBatch) -> BatchId:
    return batch.batch_id


def _is_source_log(file: ManifestFile, after: BatchId | None) -> bool:
    """`sources/<number>/<batch>`, or `<batch>.compact` with all before it."""
    top, _, rest = file.path.partition("/")
    number = rest.rpartition("/")[2].partition(".")[0]
    return top == "sources" and number.isdecimal() and (after is None or int(number) > after)


def is_copied(state: JobState, id: CheckpointId | None) -> bool:
    """Whether a copy of the job brought the checkpoint here: then no pipeline wrote its entry, nor that of the
    checkpoint which it was rescaled from."""
    epochs = {run.fencing_epoch for run in state.runs if run.purpose == "pipeline"}
    entry = None if id is None else state.completed.get(id)
    while entry is not None and entry.rescaled is not None and entry.rescaled.checkpoint in state.completed:
        entry = state.completed[entry.rescaled.checkpoint]
    return entry is not None and entry.fencing_epoch not in epochs
