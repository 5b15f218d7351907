"""What a page may ask a running job for. The job's owner does it, as for a command."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.cli.asking_owner import request_of_owner
from holdfast.cli.observing import job_store, observe
from holdfast.errors import CheckpointFailed, HoldfastError, InvalidSettings, NotFound, StorageError
from holdfast.identifiers import CheckpointId, savepoint_name
from holdfast.repository.entries import RequestAnswered
from holdfast.repository.mailbox import RequestKind
from holdfast.repository.savepoints import name_taken, to_be_deleted
from holdfast.repository.views import Observation

_WAITING_AT_ONCE = 8
"""Each holds a thread of this server for as long as the checkpoint takes."""
_STATUS: tuple[tuple[type[HoldfastError], int], ...] = ((NotFound, 404), (InvalidSettings, 422), (StorageError, 502))


class Actions:
    """One at a time for each job."""

    def __init__(self, home: str, timeout: float) -> None:
        self.timeout = timeout
        """How long the answer of a job is waited for, in seconds."""
        self._home = home
        self._lock = threading.Lock()
        self._busy: set[str] = set()

    def checkpoint(self, job: str) -> CheckpointId:
        """Raises the owner's failure."""
        with self._alone(job):
            return self._asked(job, "checkpoint", None, "make a checkpoint")

    def savepoint(self, job: str, name: str) -> CheckpointId:
        savepoint_name(name)
        with self._alone(job):
            return self._asked(job, "savepoint", name, f"create savepoint {name!r}")

    def drop(self, job: str, name: str) -> CheckpointId:
        """The checkpoint that is no savepoint any more."""
        savepoint_name(name)
        with self._alone(job):
            return self._asked(job, "delete-savepoint", name, f"drop savepoint {name!r}")

    def collect(self, job: str) -> str:
        """What the owner says that it does."""
        with self._alone(job):
            return self._answered(job, "collect", None, "delete what is not needed").message

    def _asked(self, job: str, kind: RequestKind, name: str | None, doing: str) -> CheckpointId:
        answered = self._answered(job, kind, name, doing)
        if answered.checkpoint is None:
            raise CheckpointFailed(f"could not {doing} of job {job!r}: the run ended without it")
        return answered.checkpoint

    def _answered(self, job: str, kind: RequestKind, name: str | None, doing: str) -> RequestAnswered:
        store = job_store(self._home, job)
        seen = observe(self._home, job, store)
        _require_running(seen, doing)
        if name is not None:
            _require_possible(seen, kind, name)
        return request_of_owner(store, seen, kind, self.timeout, doing, name=name)

    @contextmanager
    def _alone(self, job: str) -> Iterator[None]:
        with self._lock:
            if job in self._busy or len(self._busy) >= _WAITING_AT_ONCE:
                whose = f"job {job!r} is" if job in self._busy else "other jobs are"
                raise CheckpointFailed(f"could not ask job {job!r}: {whose} busy with a request", hint="try again")
            self._busy.add(job)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(job)


def _require_possible(seen: Observation, kind: RequestKind, name: str) -> None:
    if kind == "delete-savepoint":
        to_be_deleted(seen.state, name)
    elif (holder := seen.state.savepoint(name)) is not None:
        raise name_taken(name, holder)


def _require_running(seen: Observation, doing: str) -> None:
    if not seen.running:
        raise CheckpointFailed(f"could not {doing} of job {seen.job!r}: it is not running", hint="start the job")


def status_of(error: HoldfastError) -> int:
    """Of HTTP. A job that was asked and failed is a conflict with the state that it is in."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 409)
