"""The query within a run: barriers, failure, restart. Called on the loop's thread unless noted otherwise.

A query that failed restarts in the same directory, or, when that is unreadable, from the next candidate. `supervision`
decides, this module acts. It returns the consequences for the rest of the run as happenings, in their order.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from holdfast.coordination.events import BarrierReached, Event, QueryEnded, RunFenced
from holdfast.errors import Corrupt, Fenced, HoldfastError, InvalidSettings, StorageError
from holdfast.identifiers import BatchId, JobName
from holdfast.job_log import end_phase, log
from holdfast.repository.entries import QueryRestarted
from holdfast.repository.journal import Journal
from holdfast.runtime.clock import Clock
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.ports import Query, RunDirectory
from holdfast.runtime.query.candidates import Candidates
from holdfast.runtime.query.causes import FailureCause, QueryFailure, failure_of_end, failure_of_start
from holdfast.runtime.query.supervision import PermanentFailure, Restart, Supervision
from holdfast.runtime.query_end import AS_ASKED, QueryEnd
from holdfast.runtime.recovery.recovery import Resumed
from holdfast.runtime.reports.alarms import Alarms
from holdfast.runtime.start_profile import FIRST_BATCH
from holdfast.showing import masked

QUERY_DIED = "query_died"
"""The alarm for a query that failed; cleared when a batch completes again."""


@dataclass(frozen=True)
class Seen:
    """One check of the query and of its directory."""

    directory: RunDirectory
    end: QueryEnd | None
    """How the query ended, None while it runs."""
    barrier: BatchId | None
    unseen: StorageError | None = None
    """Why the directory could not be read."""


@dataclass(frozen=True)
class QueryResumed:
    """The query runs."""

    resumed: Resumed
    replaced: bool
    """In another directory than before."""


@dataclass(frozen=True)
class QueryDone:
    """The query will not be restarted: it ended, or failed permanently."""

    failure: HoldfastError | None


Happening = Event | QueryResumed | QueryDone
Happenings = Sequence[Happening]


class QueryLife:
    def __init__(
        self,
        *,
        job: JobName,
        query: Query,
        resumed: Resumed,
        supervision: Supervision | None,
        candidates: Candidates | None,
        journal: Journal,
        alarms: Alarms,
        clock: Clock,
        lanes: Lanes,
        post: Callable[[Event | Callable[[], Happenings]], None],
    ) -> None:
        """`supervision` and `candidates` are None for a query that somebody else runs: it is never seen to end."""
        self._job = job
        self._query = query
        self._supervision = supervision
        self._candidates = candidates
        self._journal = journal
        self._alarms = alarms
        self._clock = clock
        self._lanes = lanes
        self._post = post
        self._restart: Restart | None = None
        self._died_at = 0.0
        self._gone = False
        self._committed = False
        self._blind = False
        """The work directory did not answer, and this was logged."""
        self._looking = False
        self._told: tuple[RunDirectory, int | None] | None = None
        """What Spark had told when the directory was last looked at."""
        self._looks = 0
        """Number of checks begun."""
        self._look_again = False
        """Something happened since the current check began."""
        self._after_look: list[tuple[int, Event]] = []
        """Events to post when the check of that number, or a later one, has ended."""
        self.resumed = resumed
        self.running = True
        self.barrier: BatchId | None = None
        self.restarts = 0
        self.stop_asked = False
        """From now on the query's end is not a failure."""

    def poll(self, *, may_restart: bool) -> None:
        if self.running:
            if not self._looking:
                self._begin_look()
        elif may_restart and not self.stop_asked:
            self._restart_when_due()

    def _restart_when_due(self) -> None:
        if self._restart is not None and self._clock.monotonic() >= self._restart.at:
            self._begin_restart(self._restart)

    def stopped(self, seen: Seen) -> Happenings:
        """It was stopped on request; `seen` is from after the stop."""
        self._restart = None
        if not self.running:
            return ()
        self.running = False
        unseen = [QueryDone(seen.unseen)] if seen.unseen is not None else []
        return [*self._note_barrier(seen), QueryEnded(), *unseen]

    def look(self) -> Seen:
        """Runs on any lane: a hanging mount, or a JVM that does not answer, must not block the thread that decides.

        The query's end is read first: then the check also sees everything that an ended query committed.
        """
        directory = self.resumed.directory
        end = self._query.end()
        told = (directory, self._query.commits_told())
        if end is None and told[1] is not None and told == self._told:
            return Seen(directory, None, self.barrier)
        try:
            seen = Seen(directory, end, directory.newest_barrier())
        except StorageError as error:
            return Seen(directory, end, None, error)
        self._told = told
        return seen

    def look_then(self, event: Event) -> Happenings:
        """`event` happens when everything that was committed before this call has been seen."""
        if not self.running:
            return (event,)
        self._after_look.append((self._looks + 1, event))
        self.look_anew()
        return ()

    def look_anew(self) -> None:
        """Also called when the query reports its end, so that the end is noticed at once."""
        if not self.running:
            return
        self._look_again = self._looking
        if not self._looking:
            self._begin_look()

    def _begin_look(self) -> None:
        """At most one at a time."""
        self._looking = True
        self._looks += 1
        self._lanes.submit("look", self._look)

    def _look(self) -> None:
        seen: Seen | None = None
        try:
            seen = self.look()
        finally:
            self._post(lambda: self._looked(seen))

    def _looked(self, seen: Seen | None) -> Happenings:
        self._looking = False
        happened: list[Happening] = []
        if self.running and seen is not None and seen.directory is self.resumed.directory:
            happened += [*self._note_barrier(seen), *self._note_end(seen)]
        if self._look_again and self.running:
            self._look_again = False
            self._begin_look()
        ended = self._looks - self._looking
        due = [event for number, event in self._after_look if number <= ended or not self.running]
        self._after_look = [(n, event) for n, event in self._after_look if n > ended and self.running]
        return [*happened, *due]

    def _note_barrier(self, seen: Seen) -> Happenings:
        """A work directory on another machine may be unreachable. While the query runs, a later check may succeed. When
        the query has ended, there may be committed batches that no checkpoint has, so the run has failed."""
        if seen.unseen is not None:
            level = logging.DEBUG if self._blind else logging.WARNING
            log.log(level, "could not check for new batches: %s", seen.unseen.message)
        self._blind = seen.unseen is not None
        barrier = seen.barrier
        if barrier is None or (self.barrier is not None and barrier <= self.barrier):
            return ()
        self.barrier = barrier
        if self.resumed.barrier is None or barrier > self.resumed.barrier:
            if not self._committed:
                self._committed = True
                log.info("the first batch of this run is committed: %s", barrier)
                end_phase(FIRST_BATCH)
            if self._supervision is not None:
                self._supervision.progressed()
            self._alarms.clear(QUERY_DIED, f"the query completed batch {barrier}")
        return (BarrierReached(barrier),)

    def _note_end(self, seen: Seen) -> Happenings:
        if seen.end is None or self.stop_asked:
            return ()
        failure = failure_of_end(seen.end)
        if failure.cause is FailureCause.SPARK_GONE and not self._gone:
            # A signal to the whole process group also ends the JVM, and our own handler may run slightly later.
            self._gone = True
            return ()
        self.running = False
        self._died_at = self._clock.monotonic()
        return (QueryEnded(), QueryDone(seen.unseen)) if seen.end == AS_ASKED else self._died(failure)

    def _died(self, failure: QueryFailure) -> Happenings:
        assert self._supervision is not None
        verdict = self._supervision.died(failure, self._died_at, resumed=self.resumed.barrier is not None)
        if isinstance(verdict, PermanentFailure):
            return (QueryEnded(), self._end_for(verdict))
        delay = verdict.at - self._died_at
        self._warn(f"the query died ({failure.cause}), restarting in {delay:.1f} s: {failure.message}", failure)
        self._restart = verdict
        self.restarts += 1
        return (QueryEnded(replaced=verdict.elsewhere),)

    def _warn(self, message: str, failure: QueryFailure) -> None:
        self._alarms.raise_alarm(QUERY_DIED, "warning", message, failure.hint)

    def _end_for(self, verdict: PermanentFailure) -> Happening:
        if verdict.failure.cause is FailureCause.FENCED:
            return RunFenced(verdict.failure.message)
        return self._fail_permanently(verdict.error(self._job))

    def _fail_permanently(self, error: HoldfastError) -> QueryDone:
        self._alarms.raise_alarm(QUERY_DIED, "critical", error.message, error.hint or "")
        return QueryDone(error)

    def _begin_restart(self, restart: Restart) -> None:
        self._restart = None
        if restart.elsewhere:
            # On the journal lane: no checkpoint of the old directory can be appended while the new one is chosen.
            self._lanes.submit(
                "journal", lambda: self._restarting(restart, lambda: self._resume_elsewhere(restart.failure))
            )
        else:
            self._lanes.submit("query", lambda: self._restarting(restart, self._start_again))

    def _restarting(self, restart: Restart, start: Callable[[], Resumed]) -> None:
        """Runs on a lane."""
        try:
            resumed = start()
        except Fenced as error:
            self._post(RunFenced(error.message, error.by_maintenance))
        except (Corrupt, InvalidSettings) as error:
            refused = error
            self._post(lambda: self._cannot_resume(restart, refused))
        except Exception as error:
            failure = failure_of_start(error)
            self._post(lambda: self._restart_failed(restart, failure))
        else:
            self._post(lambda: self._restarted(restart, resumed))

    def _start_again(self) -> Resumed:
        assert self._candidates is not None
        self._candidates.start_again(self.resumed.directory)
        return self.resumed

    def _resume_elsewhere(self, failure: QueryFailure) -> Resumed:
        assert self._candidates is not None
        return self._candidates.start(self._candidates.after(self.resumed, failure))

    def _cannot_resume(self, restart: Restart, error: HoldfastError) -> Happenings:
        self._record(restart, None)
        return (self._fail_permanently(error),)

    def _restart_failed(self, failed: Restart, failure: QueryFailure) -> Happenings:
        assert self._supervision is not None
        self._record(failed, None)
        self._died_at = self._clock.monotonic()
        verdict = self._supervision.died(failure, self._died_at)
        if isinstance(verdict, PermanentFailure):
            return (self._end_for(verdict),)
        self._warn(f"the restart failed ({failure.cause}), trying again: {failure.message}", failure)
        # An abandoned directory stays abandoned: the sink may have discarded what was staged from it.
        self._restart = replace(verdict, elsewhere=verdict.elsewhere or failed.elsewhere)
        self.restarts += 1
        return ()

    def _restarted(self, restart: Restart, resumed: Resumed) -> Happenings:
        self._record(restart, self._clock.monotonic() - self._died_at)
        replaced = resumed is not self.resumed
        self.running = True
        if replaced:
            self.resumed = resumed
            self.barrier = None
        return (QueryResumed(resumed, replaced),)

    def _record(self, restart: Restart, seconds: float | None) -> None:
        """Records each restart in the history, with the time from the failure until the query ran again."""
        number, journal, failure = self.restarts, self._journal, restart.failure

        def record() -> None:
            try:
                journal.append(
                    lambda stamp: QueryRestarted(
                        **stamp,
                        cause=failure.cause.value,
                        message=masked(failure.message),
                        attempt_number=number,
                        hint=failure.hint,
                        duration_ms=None if seconds is None else round(seconds * 1000),
                    )
                )
            except Fenced as error:
                self._post(RunFenced(error.message, error.by_maintenance))
            except StorageError as error:
                log.warning("could not record the restart: %s", error.message)

        self._lanes.submit("journal", record)
