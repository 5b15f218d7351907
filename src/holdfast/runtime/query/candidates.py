"""Moves the query from a directory that Spark cannot read to the next one that it can.

A directory that is proved unreadable is set aside for inspection, and no run resumes from it again. A checkpoint is
damaged only when its bytes are wrong in the home, or when Spark refuses them twice although they are proved right. So
every step removes a candidate, and the search ends: with a query that runs, or with `Corrupt` when no candidate is
left. The start of a run and a restart within it use the same search.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

from holdfast.errors import Corrupt, Incompatible, StorageUnreachable
from holdfast.identifiers import CheckpointId
from holdfast.job_log import log
from holdfast.plans.query_id import is_on_line
from holdfast.repository.journal import Journal
from holdfast.repository.lines import line_of
from holdfast.runtime.plans.catching_up import CatchingUp, packed_in
from holdfast.runtime.ports import Query, RunDirectory, Supervisor
from holdfast.runtime.query.causes import (
    SUSPICIONS,
    DirectoryBehind,
    FailureCause,
    QueryFailure,
    StartFailed,
    failure_of_start,
)
from holdfast.runtime.query.supervision import Supervision
from holdfast.runtime.recovery.evidence import Verdict, difference, verdict
from holdfast.runtime.recovery.recovery import Recovery, Resumed
from holdfast.runtime.recovery.resuming import Resuming

MarkDamaged = Callable[[Collection[CheckpointId], CheckpointId | None], None]
"""Arguments: the checkpoints that were found damaged, and the one from which the query resumes."""


class Candidates:
    def __init__(
        self,
        *,
        query: Query,
        supervisor: Supervisor,
        recovery: Recovery,
        resuming: Resuming,
        journal: Journal,
        supervision: Supervision,
        mark_damaged: MarkDamaged,
        catching_up: CatchingUp,
    ) -> None:
        self._catching_up = catching_up
        self._query = query
        self._supervisor = supervisor
        self._recovery = recovery
        self._resuming = resuming
        self._journal = journal
        self._supervision = supervision
        self._mark_damaged = mark_damaged
        self._refusals: Counter[str] = Counter()
        self._set_aside: set[str] = set()
        self._proved: dict[CheckpointId, str] = {}
        """Checkpoints whose bytes are right but which Spark cannot read."""

    def start(self, resumed: Resumed) -> Resumed:
        """Start the query there, or, when Spark reports at once that it cannot read the directory, in the first that it
        can."""
        while True:
            try:
                self._catching_up.ship_left(resumed)
                self._catching_up.catch_up(resumed.directory, packed_in(resumed))
                self._query.start(resumed.directory, self._supervisor)
            except StartFailed as error:
                failure = self._suspicion(resumed, error)
                unread = error
            else:
                return resumed
            following = self.after(resumed, failure)
            if following.directory is resumed.directory:
                raise unread
            resumed = following

    def start_again(self, directory: RunDirectory) -> None:
        """Restart in the same directory. Raises as `require_not_behind` does."""
        self.require_not_behind(directory)
        self._catching_up.catch_up(directory)
        self._query.start(directory, self._supervisor)

    def require_not_behind(self, directory: RunDirectory) -> None:
        """Refuse a directory that lost batches of the newest checkpoint, before the query restarts in it: the query
        would run batches again whose output readers have seen. Raises `DirectoryBehind`, or `StorageUnreachable` when
        the directory is empty, for example because its disk is not mounted."""
        newest, barrier = self._journal.state.newest_of_the_line(), directory.newest_barrier()
        if newest is None or (barrier is not None and barrier >= newest.barrier_batch_id):
            return
        if barrier is None:
            raise StorageUnreachable(
                f"could not start the query in {directory.location}: it no longer holds a batch, the newest checkpoint "
                f"has batch {newest.barrier_batch_id}; a new start of the job restores it from the home"
            )
        raise DirectoryBehind(
            f"{directory.location} ends with batch {barrier}, the newest checkpoint has batch "
            f"{newest.barrier_batch_id}: it was restored from an older copy, or it lost files"
        )

    def _suspicion(self, resumed: Resumed, error: StartFailed) -> QueryFailure:
        """Raises when the directory is not suspected, or when the query did not resume from anything."""
        failure = self._supervision.blamed(failure_of_start(error))
        if failure.cause is FailureCause.INCOMPATIBLE:
            raise Incompatible(f"could not start the query: {failure.message}", hint=failure.hint) from error
        if failure.cause not in SUSPICIONS or resumed.barrier is None:
            raise error
        return failure

    def after(self, suspect: Resumed, failure: QueryFailure) -> Resumed:
        """The directory to start in next, with the sink at the same point: the same directory when nothing is wrong
        with it.

        Raises `Corrupt` when there is none, `StorageError` when that cannot be determined.
        """
        self._journal.settle()
        written = self._query.own_writer(suspect.directory)
        found = self._examined(suspect, failure)
        if found is Verdict.KEEP:
            log.warning("%s has the right bytes, trying it again: %s", suspect.directory.location, failure.message)
            return self._same_again(suspect)
        log.error("Spark cannot read %s, trying the next candidate: %s", suspect.directory.location, failure.message)
        if found is Verdict.CHECKPOINT and suspect.checkpoint is not None:
            self._proved[suspect.checkpoint] = f"Spark could not read what was restored from it: {failure.message}"
        known = set(self._journal.state.corrupt)
        if suspect.directory.location not in self._set_aside:
            suspect.directory.set_aside(f"Spark could not read it: {failure.message}")
            self._set_aside.add(suspect.directory.location)
        resumed = self._recovery.resume(local=False, damaged=self._proved)
        self._catching_up.require_no_skips(resumed, lambda batch: written is not None and written.planned > batch)
        self._supervision.started(overridden=self._resuming.go_on(resumed))
        self._mark_damaged(self._journal.state.corrupt.keys() - known, resumed.checkpoint)
        return resumed

    def _examined(self, suspect: Resumed, failure: QueryFailure) -> Verdict:
        directory = suspect.directory
        if directory.location in self._set_aside:
            return Verdict.SET_ASIDE  # the sink may have discarded what was staged from it
        try:
            self.require_not_behind(directory)
        except DirectoryBehind:
            return Verdict.SET_ASIDE
        # What was repeated behind a checkpoint, and cannot be read, speaks against the checkpoint.
        as_restored = directory.newest_barrier() == suspect.barrier or suspect.replay is not None
        restored = suspect.checkpoint if as_restored else None
        covered, different = self._compared(suspect, restored)
        if different is not None:
            log.error("%s is damaged: %s", directory.location, different)
        # A second restore has the same bytes in another directory.
        refused = f"checkpoint {restored}" if restored is not None else directory.location
        self._refusals[refused] += 1
        return verdict(
            found_wrong=failure.cause is FailureCause.STATE_UNREADABLE,
            different=different is not None,
            covered=covered,
            restored=restored is not None,
            refusals=self._refusals[refused],
        )

    def _compared(self, suspect: Resumed, restored: CheckpointId | None) -> tuple[bool, str | None]:
        """Whether every file of the directory's barrier was compared with its checkpoint, and what differs."""
        newest = self._journal.state.newest_of_the_line()
        id = restored if restored is not None or newest is None else newest.id
        if id is None:
            return False, None
        try:
            manifest = self._recovery.manifest(id)
        except Corrupt as error:
            log.warning("could not compare %s with checkpoint %s: %s", suspect.directory.location, id, error.message)
            return False, None
        state = self._journal.state
        line, lineage = line_of(state), state.lineage or ""
        different = difference(suspect.directory, manifest, lambda metadata: is_on_line(metadata, line, lineage))
        return suspect.directory.newest_barrier() == manifest.barrier_batch_id, different

    def _same_again(self, suspect: Resumed) -> Resumed:
        """As of now: checkpoints may have completed since."""
        newest = self._journal.state.newest_of_the_line()
        barrier = suspect.directory.newest_barrier()
        if newest is None:
            return replace(suspect, barrier=barrier, abandons=None)
        durable_id = newest.id if newest.id not in self._journal.state.corrupt else None
        again = Resumed(
            directory=suspect.directory,
            barrier=barrier,
            durable=newest.barrier_batch_id,
            durable_id=durable_id,
            checkpoint=suspect.checkpoint,
        )
        self._resuming.align(again)
        return again
