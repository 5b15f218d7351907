"""From a directory that Spark cannot read to the next one that it can.

What cannot be read is set aside for inspection and never resumed from again, nor is the checkpoint it came from. So
every step takes one candidate of recovery away, and it ends: with a query that runs, or with `Corrupt` when none is
left. It is the same for the start of a run and for a restart within it.
"""

from collections.abc import Callable, Collection

from holdfast.errors import Incompatible
from holdfast.identifiers import CheckpointId
from holdfast.job_log import log
from holdfast.repository.journal import Journal
from holdfast.runtime.causes import Cause, StartFailed, death_of_start
from holdfast.runtime.ports import Query
from holdfast.runtime.recovery import Recovery, Resumed, align_sink
from holdfast.runtime.supervision import Supervision

Distrust = Callable[[Collection[CheckpointId], CheckpointId | None], None]
"""These checkpoints were found damaged, and the query goes on from that one."""


class Candidates:
    def __init__(
        self, *, query: Query, recovery: Recovery, journal: Journal, supervision: Supervision, distrust: Distrust
    ) -> None:
        self._query = query
        self._recovery = recovery
        self._journal = journal
        self._supervision = supervision
        self._distrust = distrust

    def start(self, resumed: Resumed) -> Resumed:
        """Start the query there or, when Spark says at once that it cannot read it, in the first one that it can."""
        while True:
            try:
                self._query.start(resumed.directory)
            except StartFailed as error:
                why = self._unreadable(resumed, error)
            else:
                return resumed
            log.error("Spark cannot read %s, trying the next candidate: %s", resumed.directory.location, why)
            resumed = self.after(resumed, why)

    def _unreadable(self, resumed: Resumed, error: StartFailed) -> str:
        """Why the directory cannot be read; raises when that is not what went wrong, or nothing came from before."""
        death = self._supervision.blamed(death_of_start(error))
        if death.cause is Cause.INCOMPATIBLE:
            raise Incompatible(f"could not start the query: {death.message}", hint=death.hint) from error
        if death.cause is not Cause.STATE_UNREADABLE or resumed.barrier is None:
            raise error
        return death.message

    def after(self, unreadable: Resumed, why: str) -> Resumed:
        """The directory to start in instead, and the sink at the same point. Raises `Corrupt` when there is none.

        The checkpoint that the directory came from is to blame, too, if nothing was committed since.
        """
        self._journal.settle()
        known = set(self._journal.state.corrupt)
        unreadable.directory.set_aside(f"Spark could not read it: {why}")
        if unreadable.checkpoint is not None and unreadable.directory.newest_barrier() == unreadable.barrier:
            # Passed over for ever only when another one is chosen: the last one stays, should the machine be to blame.
            detail = f"Spark could not read what was restored from it: {why}"
            self._recovery.mark_corrupt(unreadable.checkpoint, detail, passed_over=False)
        resumed = self._recovery.resume(local=False)
        self._distrust(self._journal.state.corrupt.keys() - known, resumed.checkpoint)
        self._supervision.overridden = self._query.preflight(resumed.directory, resumed.barrier)
        if self._query.sink is not None:
            align_sink(self._query.sink, resumed)
        return resumed
