"""Where a run begins: one algorithm for the first start, a restart, another host, and a damaged home.

0. The checkpoint that somebody asked to go back to, once.
1. Else the previous run's directory on this host, when it is intact and no other run came in between.
2. Else the newest checkpoint whose every byte is there and right; then the one before it, and so on.
3. Nothing at all only when the job has never completed a checkpoint.

Then the sink is brought to the same point: published up to the newest checkpoint of that line of batches, nothing
staged beyond the barrier where the query resumes.

Whatever lies behind the chosen checkpoint is given up in the journal first: marked as passed over when it is damaged,
abandoned (`went-back`) when somebody asked to go back. It belongs to a line of batches that ends here, and choosing it
later would put two different histories of the same batches in the sink. A checkpoint that was only found damaged, while
its batches went on, is no obstacle to the previous run's directory: the sink stays at its barrier.
"""

from dataclasses import dataclass

from holdfast.errors import Corrupt
from holdfast.identifiers import BatchId, CheckpointId
from holdfast.job_log import log
from holdfast.repository.damage import load_manifest, mark_corrupt
from holdfast.repository.entries import CheckpointCompleted, WentBack
from holdfast.repository.going_back import GoBack, abandoned_by
from holdfast.repository.journal import Journal
from holdfast.repository.state import JobState
from holdfast.runtime.ports import WorkDirectory, Workplace
from holdfast.sinks.protocol import Sink
from holdfast.storage.interface import ObjectStore


@dataclass(frozen=True)
class Resumed:
    directory: WorkDirectory
    barrier: BatchId | None
    """The newest committed batch in the directory; the query goes on with the one after it."""
    durable: BatchId | None
    """The barrier of the newest checkpoint that this line of batches contains. Output is shown up to here."""
    durable_id: CheckpointId | None
    """That checkpoint; None when there is none, or it is damaged and its barrier needs another one."""
    checkpoint: CheckpointId | None
    """The checkpoint that the directory was restored from, None for a local or fresh one."""


class Recovery:
    def __init__(self, store: ObjectStore, journal: Journal, workplace: Workplace) -> None:
        self._store = store
        self._journal = journal
        self._workplace = workplace

    def resume(self, *, local: bool, back: GoBack | None = None) -> Resumed:
        """Build the directory to start in. `local` allows the previous run's directory. With `back` the caller must
        call `go_back` before it touches the sink."""
        if back is not None:
            return self._going_back(back)
        if local and (resumed := self._from_previous_run()):
            return resumed
        return self._from_home()

    def _going_back(self, back: GoBack) -> Resumed:
        try:
            directory = self._restored(back.to)
        except Corrupt as error:
            self.mark_corrupt(back.to.id, error.message, passed_over=False)
            raise Corrupt(
                f"could not go back to {back.asked}: it is damaged: {error.message}",
                hint="start without it: the job goes on from where it was",
            ) from error
        log.info("going back to %s: resuming at batch %s", back.asked, back.to.barrier_batch_id)
        return self._resumed(directory, back.to)

    def _from_previous_run(self) -> Resumed | None:
        """It leads on from the newest checkpoint of the line if it has its barrier, whatever became of the
        checkpoint's copy in the home."""
        previous = self._journal.state.previous_run
        if previous is None:
            return None
        state = self._journal.state
        newest = state.newest_of_the_line()
        if any(id > (newest.id if newest else 0) for id in state.abandoned):
            # A newer checkpoint was given up. The directory may belong to its line of batches: the sink goes back
            # behind it, and what the directory's ledger has forgotten could not be shown again.
            return None
        directory = self._workplace.intact(previous)
        if directory is None:
            return None
        barrier = directory.newest_barrier()
        if barrier is None or (newest is not None and newest.barrier_batch_id > barrier):
            return None
        adopted = self._workplace.adopt(directory, self._journal.fencing_epoch)
        # A query that outlived its driver may have committed one more, and what was taken over has it.
        barrier = adopted.newest_barrier()
        log.info("resuming at batch %s from the previous run's directory %s", barrier, directory.location)
        if newest is None:
            return Resumed(adopted, barrier, None, None, None)
        durable_id = newest.id if newest.id not in state.corrupt else None
        return Resumed(adopted, barrier, newest.barrier_batch_id, durable_id, None)

    def _from_home(self) -> Resumed:
        damaged: dict[CheckpointId, str] = {}
        for entry in self._journal.state.restorable():
            try:
                directory = self._restored(entry)
            except Corrupt as error:
                log.error("checkpoint %s is damaged: %s", entry.id, error.message)
                damaged[entry.id] = error.message
                continue
            self._pass_over(entry, damaged)
            log.info("resuming at batch %s from checkpoint %s", entry.barrier_batch_id, entry.id)
            return self._resumed(directory, entry)
        if self._journal.state.completed:
            for id, detail in damaged.items():
                self.mark_corrupt(id, detail, passed_over=False)
            raise Corrupt(
                "could not resume: no checkpoint of this job verifies, and starting from scratch would lose its state",
                hint="if the machine was to blame, mend it and run `holdfast verify --all --mark`, which brings back "
                "what is sound; or restore a copy of the home; or give the pipeline a new job name to start from "
                "scratch",
            )
        return Resumed(self._workplace.fresh(self._journal.fencing_epoch), None, None, None, None)

    def _resumed(self, directory: WorkDirectory, entry: CheckpointCompleted) -> Resumed:
        return Resumed(directory, entry.barrier_batch_id, entry.barrier_batch_id, entry.id, entry.id)

    def _restored(self, entry: CheckpointCompleted) -> WorkDirectory:
        """Read twice before it is passed over, which is for ever: bytes that came wrong may lie right."""
        try:
            return self._restore(entry)
        except Corrupt as error:
            log.warning("checkpoint %s is read once more: %s", entry.id, error.message)
            return self._restore(entry)

    def _restore(self, entry: CheckpointCompleted) -> WorkDirectory:
        manifest = load_manifest(self._store, entry)
        return self._workplace.restore(self._store, manifest, self._journal.fencing_epoch)

    def _pass_over(self, chosen: CheckpointCompleted, damaged: dict[CheckpointId, str]) -> None:
        """Give up every damaged checkpoint newer than the chosen one, those found damaged long ago included."""
        state = self._journal.state
        known = {id: entry.detail for id, entry in state.corrupt.items() if id not in state.retired}
        for id, detail in sorted((known | damaged).items()):
            if id > chosen.id:
                self.mark_corrupt(id, detail)

    def go_back(self, back: GoBack) -> None:
        """Give up what lies behind: after this the sink may be rewound."""
        ids = abandoned_by(self._journal.state, back.to)
        self._journal.append(
            lambda sequence, attempt, at: WentBack(
                sequence=sequence,
                attempt=attempt,
                at=at,
                fencing_epoch=self._journal.fencing_epoch,
                chosen=back.to.id,
                abandoned=ids,
                asked=back.asked,
            )
        )

    def mark_corrupt(self, id: CheckpointId, detail: str, *, passed_over: bool = True) -> None:
        if id in self._journal.state.passed_over:
            return
        mark_corrupt(self._journal, id, detail, passed_over=passed_over)


def is_copied(state: JobState, id: CheckpointId | None) -> bool:
    """Whether the checkpoint was brought here by a copy of the job: then no pipeline wrote its entry."""
    epochs = {run.fencing_epoch for run in state.runs if run.purpose == "pipeline"}
    return id is not None and id in state.completed and state.completed[id].fencing_epoch not in epochs


def align_sink(sink: Sink, resumed: Resumed, *, copied: bool = False) -> None:
    """Make the visible output that of batches up to `durable`; keep staged only what the directory has committed.

    A sink that never saw a job that was `copied`, and had published before, is a new one: its output begins after
    `durable`. What was staged up to there lies in the old sink.
    """
    directory, durable = resumed.directory, resumed.durable
    directory.drop_ledger_after(resumed.barrier)
    ledger = directory.ledger()
    published = sink.published()
    if durable is None:
        sink.rewind(None)
    elif published is None or published < durable:
        new_place = copied and published is None and ledger[:1] != () and ledger[0].batch_id > 0
        if new_place:
            log.warning("%s has no output of this job yet: it begins after batch %s", sink.describe(), durable)
        sink.publish(durable, () if new_place else ledger)
    elif published > durable:
        sink.rewind(durable)
    keep = tuple(batch for batch in ledger if durable is None or batch.batch_id > durable)
    sink.discard(keep)
