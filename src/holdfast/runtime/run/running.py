"""A running run: the loop's thread, and the handle by which its process asks it for something."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Literal, Self

from holdfast.coordination.commands import AnswerRequest
from holdfast.coordination.events import Kind
from holdfast.errors import CheckpointFailed, HoldfastError, InvalidSettings, JobFailed, StopAsked, StopOverdue
from holdfast.identifiers import CheckpointId, savepoint_name
from holdfast.job_log import about_the_same, log
from holdfast.monitoring.metrics_server import MetricsServer
from holdfast.repository.views import history_rows
from holdfast.runtime.lanes import DOING, ThreadLanes
from holdfast.runtime.ports import Query
from holdfast.runtime.reports.status import JobStatus
from holdfast.runtime.run.components import Item, Threads
from holdfast.runtime.run.job_location import JobLocation
from holdfast.runtime.run.loop import Finished, Runtime
from holdfast.settings import Duration, seconds

if TYPE_CHECKING:
    import pandas
    import pyarrow

_ALARMS_CLOSE_S = 5.0
"""How long the end of a job waits for receivers of alarms."""
_TRACES_CLOSE_S = 3.0
_OFFSETS_SETTLE_S = 3.0
"""How long it waits for brokers that answered before to take the last offsets."""


Launch = Callable[[Threads, Finished], Runtime]
"""Starts the run on these threads; the function is called when it has ended."""


class Running:
    """A run with its threads. Its process drives it until it ends."""

    def __init__(self, location: JobLocation, query: Query, launch: Launch) -> None:
        """Raises what `launch` raises."""
        self._location = location
        self._ends = query
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._lanes = ThreadLanes(copying=location.settings.parallelism)
        self._done: Future[None] = Future()
        self._finishing = threading.Lock()
        self._over = False
        self._stop_by = float("inf")
        """On the monotonic clock."""
        try:
            self._runtime: Runtime = launch(Threads(self._lanes, self._items.put), self._finish)
        except (Exception, StopAsked):
            query.stop()
            self._lanes.close()
            raise
        self._metrics = _metrics_server(location, self._runtime)
        threading.Thread(target=about_the_same(self._drive), name="holdfast-coordinator", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Leaving the block stops the job with a last checkpoint. An error of the block goes before one of the stop."""
        try:
            self.stop()
        except HoldfastError as failure:
            if error is None:
                raise
            log.warning("the job did not stop cleanly: %s", failure.message)

    def status(self) -> JobStatus:
        return self._runtime.status

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

    def history(self, form: Literal["pandas", "arrow"] = "pandas") -> pandas.DataFrame | pyarrow.Table:
        """Every checkpoint that the journal still holds, newest first, as a table with one row for each."""
        rows = history_rows(self._runtime.observation())
        if form == "pandas":
            import pandas

            return pandas.DataFrame(rows)
        if form == "arrow":
            import pyarrow

            return pyarrow.Table.from_pylist(rows)
        raise InvalidSettings.of("form", form, "must be pandas or arrow")

    def checkpoint(self, timeout: Duration | None = None) -> CheckpointId:
        """Take a checkpoint now, wait for it, and return its id. Raises `CheckpointFailed`."""
        return self._request("checkpoint", None, timeout)

    def savepoint(self, name: str, timeout: Duration | None = None) -> CheckpointId:
        """A named checkpoint, exempt from retention."""
        return self._request("savepoint", savepoint_name(name), timeout)

    def stop(self, savepoint: str | None = None, timeout: Duration | None = None) -> None:
        """Stop the query, take a last checkpoint (a savepoint if named), publish it, end. Raises when that fails."""
        self.begin_stop(savepoint)
        if not self.await_termination(timeout):
            raise CheckpointFailed(f"job {self._location.job!r} did not stop within {timeout}")

    def begin_stop(self, savepoint: str | None = None) -> None:
        """As `stop`, without waiting; safe in a signal handler."""
        name = savepoint_name(savepoint) if savepoint is not None else None
        limit = self._location.settings.stop_timeout_s
        self._stop_by = min(self._stop_by, self._location.around.clock.monotonic() + limit)
        overdue = threading.Timer(limit, about_the_same(self._overdue), args=(limit,))
        overdue.daemon = True
        overdue.start()
        self._done.add_done_callback(lambda _: overdue.cancel())
        self._runtime.stop(name, lambda answer: None)

    def _overdue(self, limit: float) -> None:
        """End the stop although something hangs. The error names what is unfinished; the next start completes it."""
        now = self._location.around.clock.monotonic()
        under_way = [f"{DOING[lane]} (for {now - began:.0f} s)" for lane, began in self._lanes.busy_since().items()]
        waiting = ", ".join(under_way) or "the last checkpoint"
        self._finish(
            StopOverdue(
                f"job {self._location.job!r} did not stop within {limit:.0f} s: unfinished: {waiting}",
                hint="start it again when that works: the next run resumes without loss; or allow more time: "
                "--stop-timeout 10m",
            )
        )

    def await_termination(self, timeout: Duration | None = None) -> bool:
        """Wait until the job ends; True when it has. Raises the error that ended it."""
        try:
            self._done.result(_limit(timeout))
        except FutureTimeout:
            return False
        return True

    def _request(self, kind: Kind, name: str | None, timeout: Duration | None) -> CheckpointId:
        answered: Future[AnswerRequest] = Future()
        self._runtime.request(kind, name, answered.set_result)
        try:
            answer = self._wait(answered, _limit(timeout))
        except FutureTimeout as error:
            raise CheckpointFailed(f"the {kind} did not complete within {timeout}; it is still in progress") from error
        if answer.completed is None:
            reason, message = answer.failure or (None, "the run ended")
            hint = reason.rule.hint if reason else None
            raise CheckpointFailed(f"the {kind} failed: {reason.value if reason else ''}: {message}", hint=hint)
        return answer.completed

    def _wait(self, answered: Future[AnswerRequest], limit: float | None) -> AnswerRequest:
        """Waits for an answer or the end of the job, whichever comes first."""
        deadline = None if limit is None else self._location.around.clock.monotonic() + limit
        while True:
            try:
                return answered.result(
                    0.5 if deadline is None else max(0.0, min(0.5, deadline - self._location.around.clock.monotonic()))
                )
            except FutureTimeout:
                if self._done.done() and not answered.done():
                    raise CheckpointFailed("the job ended before the checkpoint was complete") from None
                if deadline is not None and self._location.around.clock.monotonic() >= deadline:
                    raise

    def _drive(self) -> None:
        clock = self._location.around.clock
        try:
            self._runtime.begin()
            while not self._done.done():
                wait = max(0.0, self._runtime.next_deadline() - clock.monotonic())
                try:
                    self._runtime.turn(self._items.get(timeout=wait))
                except queue.Empty:
                    self._runtime.poll()
                    continue
                if clock.monotonic() >= self._runtime.next_deadline():
                    self._runtime.poll()
        except Exception as error:
            log.exception("holdfast: internal error in the coordinator's loop")
            self._lanes.submit("query", self._ends.stop)  # not here: a JVM that hangs would block the end of the job
            hint = "report it with the log, which says where its traceback is"
            self._finish(JobFailed(f"internal error: {error}", hint=hint))

    def _finish(self, failure: HoldfastError | None) -> None:
        """The first caller decides how the job ends."""
        with self._finishing:
            if self._over:
                return
            self._over = True
        left = max(0.0, self._stop_by - self._location.around.clock.monotonic())
        self._runtime.settle_offsets(min(_OFFSETS_SETTLE_S, left))
        self._lanes.close()
        if self._metrics is not None:
            self._metrics.close()
        clock = self._location.around.clock
        self._runtime.close_alarms(min(_ALARMS_CLOSE_S, max(0.0, self._stop_by - clock.monotonic())))
        self._runtime.close_traces(min(_TRACES_CLOSE_S, max(0.0, self._stop_by - clock.monotonic())))
        if failure is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(failure)


def _metrics_server(location: JobLocation, runtime: Runtime) -> MetricsServer | None:
    """Metrics are no reason not to run: a port that is taken is a warning."""
    settings = location.settings
    if settings.metrics_port is None:
        return None
    try:
        server = MetricsServer(settings.metrics_address, settings.metrics_port, lambda: [runtime.observation()])
    except InvalidSettings as error:
        log.warning("%s. Try: %s", error.message, error.hint)
        return None
    log.info("metrics are at http://%s:%s/metrics", settings.metrics_address, server.port)
    return server


def _limit(timeout: Duration | None) -> float | None:
    return None if timeout is None else seconds("timeout", timeout)
