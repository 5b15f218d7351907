"""The end of a run: stops the query, answers the requests, and records how the run ended in its last entry.

With that entry the next run need not wait for the heartbeat to go stale.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.coordination.commands import AnswerRequest, EndRun
from holdfast.coordination.events import RunFenced
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.errors import Fenced, FencedByMaintenance, HoldfastError, StorageError
from holdfast.identifiers import BatchId, JobName, RequestId
from holdfast.job_log import log
from holdfast.repository.entries import RunEnded
from holdfast.repository.journal import Journal
from holdfast.runtime.checkpoints.checkpointing import Checkpointing
from holdfast.runtime.errors_and_reasons import end_of_run
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.own_writer import Taken, asked, may_have_more
from holdfast.runtime.ports import Query
from holdfast.runtime.query.query_life import QueryLife
from holdfast.runtime.reports.state_reporter import StateReporter
from holdfast.runtime.requests.wanted import Answer


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    job: JobName
    command: EndRun
    failure: HoldfastError | None
    """The query's failure, when it ends the run."""
    answers: list[tuple[RequestId, Answer]]
    """The callbacks of stop requests."""
    query: Query
    life: QueryLife
    journal: Journal
    checkpointing: Checkpointing
    reporter: StateReporter
    lanes: Lanes
    finished: Callable[[HoldfastError | None], None]

    def begin(self) -> None:
        self.lanes.submit("query", self._stop_query)

    def _stop_query(self) -> None:
        self.query.stop()
        self.lanes.submit("journal", self._answer)

    def _answer(self) -> None:
        self.query.stop()  # again: this lane may have restarted it meanwhile
        failure = self._failure()
        failed = (FailureReason.RUN_STOPPED, failure.message) if failure else None
        for request, answer in self.answers:
            answer(AnswerRequest(request, failure=failed))
        self.lanes.submit("journal", self._leave)  # after the entries of those who were answered

    def _leave(self) -> None:
        failure = self._failure()
        if not self.command.fenced:
            self._record(failure)
        self.reporter.ended(failure.message if failure else "stopped")
        self.finished(failure)

    def _failure(self) -> HoldfastError | None:
        if self.command.fenced is not None:
            return _taken(self.job, self.command.fenced)
        if self.command.failure is not None and self.failure is None:
            return end_of_run(f"job {self.job!r} stopped: {self.command.failure}", self.command.reason)
        return self.failure

    def _record(self, failure: HoldfastError | None) -> None:
        self.checkpointing.write_unrecorded()
        if self.checkpointing.journal_answers:
            reason = failure.message if failure else "stopped"
            taken = self._taken()
            has = None if taken is None else taken.newest
            record_run_end(
                self.journal,
                reason,
                self._written(taken),
                failed=failure is not None,
                writer_has=has,
                needs_every_batch=taken is not None and taken.earlier == "all",
            )
        else:
            log.warning("could not record the end of the run: the home has just failed to take an entry")

    def _taken(self) -> Taken | None:
        """How far the query's own writer is; the query has stopped."""
        return asked(lambda: self.query.own_writer(self.life.resumed.directory))

    def _written(self, taken: Taken | None) -> BatchId | None:
        """The newest batch that the query's own writer may have, for the next run."""
        if taken is None:
            return None
        state, resumed = self.journal.state, self.life.resumed
        repeats = resumed.abandons is None and state.run is not None and state.run.plans != ""
        more = may_have_more(state, taken.planned, local=resumed.is_local, repeats=repeats)
        return None if more else taken.planned


def record_run_end(
    journal: Journal,
    reason: str,
    planned: BatchId | None = None,
    *,
    failed: bool = False,
    never_ran: bool = False,
    untouched: bool = False,
    writer_has: BatchId | None = None,
    needs_every_batch: bool = False,
) -> None:
    """Best effort: without the entry, later runs find this one dead when its heartbeat is stale."""
    try:
        journal.append(
            lambda stamp: RunEnded(
                **stamp,
                reason=reason,
                planned=planned,
                failed=failed,
                never_ran=never_ran,
                untouched=untouched,
                writer_has=writer_has,
                needs_every_batch=needs_every_batch,
            )
        )
    except (StorageError, Fenced) as error:
        log.warning("could not record the end of the run: %s", error.message)


def _taken(job: JobName, by: RunFenced) -> Fenced:
    if by.by_maintenance:
        return FencedByMaintenance(
            f"job {job!r} was taken by a command while this run sent no heartbeat, this run stops: {by.message}",
            hint="start it again, it resumes where it was; and find out why it sent no heartbeat",
        )
    return Fenced(f"job {job!r} was taken over, this run stops: {by.message}", hint="stop one of the two deployments")
