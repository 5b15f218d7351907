"""The command's side of the mailbox: it requests something from the running owner of a job."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from holdfast.errors import CheckpointFailed, HoldfastError, StorageError
from holdfast.identifiers import CheckpointId, JobName
from holdfast.job_log import about, log
from holdfast.repository.entries import AnyEntry, JournalFolded, Process, RequestAnswered, RunEnded
from holdfast.repository.journal import read_entries_after
from holdfast.repository.mailbox import Request, RequestKind, place_request, withdraw
from holdfast.repository.state import JobState
from holdfast.runtime.clock import Clock
from holdfast.storage.interface import ObjectStore

POLL_S = 0.5


@dataclass(frozen=True)
class Asker:
    """The command and its dependencies."""

    clock: Clock
    sleep: Callable[[float], None]
    process: Process
    new_id: Callable[[], str]
    on_entry: Callable[[AnyEntry], None] = lambda entry: None
    """Called with every new journal entry during the wait."""


def ask(
    job: JobName,
    store: ObjectStore,
    state: JobState,
    kind: RequestKind,
    *,
    name: str | None = None,
    checkpoint: CheckpointId | None = None,
    timeout: float,
    asker: Asker,
) -> RequestAnswered:
    """Send the request to the owner, and wait for the answer. `state` is the job's state just before.

    The answer may be a failure. Raises `CheckpointFailed` when none came in time, or the run ended without one.
    """
    now = asker.clock.wall()
    request = Request(
        id=asker.new_id(),
        kind=kind,
        name=name,
        checkpoint=checkpoint,
        head=state.head,
        asked_at=now,
        expires_at=now + timedelta(seconds=timeout),
        asker=asker.process,
    )
    waiting = _Waiting(job, store, request, asker, asker.clock.monotonic() + timeout)
    try:
        with about(job):
            return waiting.answer(timeout)
    except BaseException:
        withdraw(store, request)
        raise


class _Waiting:
    def __init__(self, job: JobName, store: ObjectStore, request: Request, asker: Asker, deadline: float) -> None:
        self._job = job
        self._store = store
        self._request = request
        self._asker = asker
        self._deadline = deadline
        self._head = request.head
        self._placed = False

    def answer(self, timeout: float) -> RequestAnswered:
        while True:
            found = self._look()
            if found is not None:
                return found
            if self._asker.clock.monotonic() >= self._deadline:
                raise self._late(timeout)
            self._asker.sleep(POLL_S)

    def _look(self) -> RequestAnswered | None:
        """Retries until the timeout when the home does not answer."""
        try:
            self._placed = self._placed or place_request(self._store, self._request)
            return self._read_on()
        except StorageError as error:
            log.warning("could not read the answer, retrying: %s", error.message)
            return None

    def _read_on(self) -> RequestAnswered | None:
        ended: RunEnded | None = None
        void = False
        for entry in read_entries_after(self._store, self._head):
            self._head = entry.sequence
            self._asker.on_entry(entry)
            if isinstance(entry, RequestAnswered) and entry.request == self._request.id:
                return entry
            ended = entry if isinstance(entry, RunEnded) else None
            void = void or (isinstance(entry, JournalFolded) and entry.answers_lost_upto > self._request.head)
        if void:
            raise CheckpointFailed(
                f"could not get an answer: job {self._job!r} has answered so many others since that this one is void",
                hint="check whether it was done (holdfast checkpoints), and ask again if not",
            )
        if ended is not None:
            raise CheckpointFailed(
                f"could not get an answer: job {self._job!r} ended before it answered: {ended.reason}",
                hint="start the job and ask again",
            )
        return None

    def _late(self, timeout: float) -> HoldfastError:
        if not self._placed:
            why = "it is busy with another request"
        else:
            why = "its run takes up requests with its heartbeat, and does nothing later than asked"
        return CheckpointFailed(
            f"could not get an answer: job {self._job!r} did not answer within {timeout:g} s; {why}",
            hint="holdfast status shows whether the run is alive; a longer --timeout waits longer",
        )
