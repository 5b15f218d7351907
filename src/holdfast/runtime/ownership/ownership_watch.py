"""Writes this run's heartbeat, and detects when a newer run has fenced it.

Correctness does not depend on the heartbeat, nor on how soon a fenced run stops. A fenced run can do no harm for other
reasons: its appends lose, its sink is fenced, and it deletes only keys that newer runs never use.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from holdfast.coordination.events import Event, RunFenced
from holdfast.errors import Fenced, HomeReplaced, StorageError
from holdfast.identifiers import AttemptId
from holdfast.job_log import about_the_same, log
from holdfast.repository.entries import Process
from holdfast.repository.journal import Journal
from holdfast.repository.ownership import FORMAT, MISSED_BEATS, Heartbeat, write_heartbeat
from holdfast.repository.self_report import SelfReport
from holdfast.repository.state import JobState
from holdfast.runtime.clock import Clock
from holdfast.storage.interface import ObjectStore


class Beats(Protocol):
    def beat(self) -> None: ...


@contextmanager
def beating_in_a_thread(watch: Beats, interval: float) -> Iterator[None]:
    """Keeps the heartbeat going during recovery, which can take minutes."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(interval):
            watch.beat()

    threading.Thread(target=about_the_same(beat), name="holdfast-recovery-heartbeat", daemon=True).start()
    try:
        yield
    finally:
        done.set()


class OwnershipWatch:
    def __init__(
        self,
        *,
        store: ObjectStore,
        journal: Journal,
        process: Process,
        started_at: datetime,
        interval: float,
        application_id: Callable[[], str | None],
        clock: Clock,
        post: Callable[[Event], None],
        home_replaced: Callable[[HomeReplaced | None], None] = lambda error: None,
        report: Callable[[], SelfReport | None] = lambda: None,
    ) -> None:
        """`home_replaced` is called when this run's entries are no longer in the home, and with None when they are
        again."""
        self._store = store
        self._journal = journal
        self._process = process
        self._started_at = started_at
        self._interval = interval
        self._application_id = application_id
        self._clock = clock
        self._post = post
        self._home_replaced = home_replaced
        self._report = report
        self._replaced = False
        self._heard_at = clock.monotonic()
        """When the last check ended; or when it began, if it took so long that another run may have claimed the job
        meanwhile."""
        self._beats = itertools.count(1)
        self._looking = False
        self._fenced = False
        self._silent = False

    def beat(self) -> None:
        """Check first, then write: a fenced run must not overwrite its successor's heartbeat."""
        try:
            if not self._look():
                return
            write_heartbeat(
                self._store,
                Heartbeat(
                    process=self._process,
                    fencing_epoch=self._journal.fencing_epoch,
                    started_at=self._started_at,
                    heartbeat_at=self._clock.wall(),
                    interval_s=self._interval,
                    application_id=self._application_id(),
                    format=FORMAT,
                    beat=next(self._beats),
                    claim=_claim(self._journal.state),
                    head=self._journal.state.head,
                    state_file=_state_file(self._journal.state),
                    report=self._report(),
                ),
            )
        except StorageError as error:
            if not self._silent:
                log.warning("could not write the heartbeat, retrying: %s", error.message)
            self._silent = True
        else:
            self._silent = False

    def still_owner(self) -> bool:
        """False only when a newer run is known. Checks again when the last check is too old to rule one out.

        The query calls this before each batch and must not wait for a home that is down: while the heartbeat checks, or
        has just failed to, there is no second check. This covers a process that was suspended and missed heartbeats.
        """
        if self._fenced:
            return False
        if self._looking or self._clock.monotonic() - self._heard_at < self._interval * MISSED_BEATS / 2:
            return True
        try:
            return self._look()
        except StorageError:
            return True  # then this run cannot write either

    def _look(self) -> bool:
        before = self._clock.monotonic()
        self._looking = True
        try:
            self._journal.require_standing()
        except Fenced as error:
            self._fenced = True
            self._post(RunFenced(error.message, error.by_maintenance))
            return False
        except StorageError as error:
            self._heard_at = self._clock.monotonic()
            if isinstance(error, HomeReplaced) and not self._replaced:
                self._replaced = True
                self._home_replaced(error)
            raise
        finally:
            self._looking = False
        now = self._clock.monotonic()
        self._heard_at = now if now - before < self._interval * MISSED_BEATS else before
        if self._replaced:
            self._replaced = False
            self._home_replaced(None)
        return True


def _claim(state: JobState) -> AttemptId:
    return state.run.attempt if state.run else AttemptId("")


def _state_file(state: JobState) -> str:
    return state.run.state_file if state.run else ""
