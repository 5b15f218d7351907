"""The owner's side of the mailbox: handles one request at a time and answers in the journal.

Its own lane checks for requests, the journal lane writes answers, and everything else happens on the loop's thread.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.coordination.commands import AnswerRequest
from holdfast.coordination.events import Event, RunFenced, SavepointsKnown
from holdfast.errors import Fenced, HoldfastError, StorageError
from holdfast.identifiers import CheckpointId
from holdfast.job_log import log
from holdfast.repository.entries import Failure, RequestAnswered, SavepointDeleted
from holdfast.repository.journal import Journal
from holdfast.repository.mailbox import Request, read_request, remove_request
from holdfast.repository.savepoints import delete_savepoint, name_checkpoint
from holdfast.runtime.clock import Clock
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.requests.wanted import CheckpointWanted, StopWanted
from holdfast.storage.interface import ObjectStore


@dataclass(frozen=True)
class RequestOutcome:
    checkpoint: CheckpointId | None = None
    failure: Failure | None = None
    message: str = ""


Reply = Callable[[RequestOutcome], None]


class Serving:
    def __init__(
        self,
        *,
        store: ObjectStore,
        journal: Journal,
        clock: Clock,
        lanes: Lanes,
        post: Callable[[Event | CheckpointWanted | StopWanted | Callable[[], None]], None],
        retire: Callable[[], None],
        collect: Callable[[Reply], None],
    ) -> None:
        """`retire` applies retention, `collect` deletes what retention and failures left; both in the background."""
        self._store = store
        self._journal = journal
        self._clock = clock
        self._lanes = lanes
        self._post = post
        self._retire = retire
        self._collect = collect
        self._looking = False
        self._serving: Request | None = None
        self._unwritten: RequestOutcome | None = None
        """The answer to `_serving` that could not be written yet."""

    def poll(self) -> None:
        """Check for a request, one check at a time."""
        if self._unwritten is not None:
            self._lanes.submit("journal", self._write_answer)
        elif not self._looking:
            self._looking = True
            self._lanes.submit("requests", self._look)

    def _look(self) -> None:
        """One GET. The loop's thread handles the result."""
        request: Request | None = None
        try:
            request = read_request(self._store)
        except StorageError as error:
            log.debug("could not check for a request: %s", error.message)  # the heartbeat reports the same
        finally:
            self._post(lambda: self._looked(request))

    def _looked(self, request: Request | None) -> None:
        self._looking = False
        if request is not None:
            self._take(request)

    def _take(self, request: Request) -> None:
        if self._serving is not None:
            return  # this one, or a later one that waits for its turn
        self._serving = request
        state = self._journal.state
        if request.id in state.answers:
            self._lanes.submit("journal", self._finish)
            return
        if state.is_void(request.id, request.head):
            log.warning("removed a request that may have been answered already; its sender must ask again")
            self._lanes.submit("journal", self._finish)
            return
        asked = f"{request.kind} {request.name}" if request.name else request.kind
        log.info("request from %s, pid %s: %s", request.asker.host, request.asker.pid, asked)
        if self._clock.wall() > request.expires_at:
            self._reply(_refused("expired", "it came too late by this host's clock", "ask again; compare the clocks"))
        else:
            self._serve(request)

    def _serve(self, request: Request) -> None:
        name, made = request.name, self._made_since(request)
        match request.kind:
            case "checkpoint":
                self._post(CheckpointWanted("checkpoint", None, lambda answer: self._reply(_outcome(answer))))
            case "savepoint" if request.checkpoint is not None:
                self._lanes.submit("journal", lambda: self._on_journal(request))
            case "savepoint" if made is not None:
                self._reply(RequestOutcome(made))
            case "savepoint" if name is not None:
                self._post(CheckpointWanted("savepoint", name, lambda answer: self._reply(_outcome(answer))))
            case "delete-savepoint":
                self._lanes.submit("journal", lambda: self._on_journal(request))
            case "stop":
                self._stop(request, made)
            case "collect":
                self._collect(self._reply)
            case _:
                self._reply(
                    _refused("not_understood", f"{request.kind} without a name", "use the same version of holdfast")
                )

    def _stop(self, request: Request, made: CheckpointId | None) -> None:
        """Refused before anything stops when the name is taken. The savepoint exists already when the previous run
        failed after it."""
        if request.name is not None and made is None and self._journal.state.savepoint(request.name) is not None:
            self._reply(_refused("name_taken", f"savepoint {request.name!r} exists", "choose another name"))
            return

        def stopped(answer: AnswerRequest) -> None:
            savepoint = self._journal.state.savepoint(request.name) if request.name else None
            failed = _outcome(answer).failure
            self._reply(RequestOutcome(savepoint.id if savepoint else None, failed, "" if failed else "stopped"))

        self._post(StopWanted(None if made is not None else request.name, stopped))

    def _made_since(self, request: Request) -> CheckpointId | None:
        """The savepoint, when it was made after the command saw that there was none: by a run that failed before it
        answered, or on another request for the same name."""
        entry = self._journal.state.savepoint(request.name) if request.name else None
        return entry.id if entry is not None and entry.sequence > request.head else None

    def _deleted(self, request: Request) -> CheckpointId:
        """Also when a run deleted it and failed before it answered."""
        for sequence, entry in reversed(self._journal.state.sequences):
            if sequence <= request.head:
                break
            if isinstance(entry, SavepointDeleted) and entry.name == request.name:
                return entry.id
        return delete_savepoint(self._journal, request.name or "").id

    def _on_journal(self, request: Request) -> None:
        try:
            if request.kind == "savepoint":
                assert request.checkpoint is not None
                id = name_checkpoint(self._journal, request.checkpoint, request.name or "").id
            else:
                id = self._deleted(request)
        except Fenced as error:
            self._post(RunFenced(error.message, error.by_maintenance))
            return
        except HoldfastError as error:
            self._reply(_refused(type(error).__name__, error.message, error.hint or ""))
            return
        names = frozenset(entry.name for entry in self._journal.state.retained() if entry.name)
        self._post(SavepointsKnown(names))
        if request.kind == "delete-savepoint":
            self._retire()
        self._reply(RequestOutcome(id))

    def _reply(self, outcome: RequestOutcome) -> None:
        self._unwritten = outcome
        self._lanes.submit("journal", self._write_answer)

    def _write_answer(self) -> None:
        request, outcome = self._serving, self._unwritten
        if request is None or outcome is None:
            return
        try:
            self._journal.settle()
            if request.id not in self._journal.state.answers:
                self._journal.append(
                    lambda stamp: RequestAnswered(
                        **stamp,
                        request=request.id,
                        checkpoint=outcome.checkpoint,
                        failure=outcome.failure,
                        message=outcome.message,
                    )
                )
        except Fenced as error:
            self._post(RunFenced(error.message, error.by_maintenance))
            return
        except StorageError as error:
            log.warning("could not answer a request, retrying: %s", error.message)
            return
        self._unwritten = None
        self._finish()

    def _finish(self) -> None:
        """The answer is in the journal. When the object cannot be removed now, the next check finds it answered."""
        request = self._serving
        try:
            if request is not None:
                self._journal.require_standing()  # a restored home has the request again, without the answer
                remove_request(self._store, request)
        except Fenced as error:
            self._post(RunFenced(error.message, error.by_maintenance))
        except StorageError as error:
            log.warning("could not remove an answered request, retrying: %s", error.message)
        self._post(self._be_free)

    def _be_free(self) -> None:
        self._serving = None


def _outcome(answer: AnswerRequest) -> RequestOutcome:
    if answer.failure is None:
        return RequestOutcome(answer.completed)
    reason, message = answer.failure
    return _refused(reason.value, message, reason.rule.hint)


def _refused(reason: str, message: str, hint: str) -> RequestOutcome:
    return RequestOutcome(failure=Failure(reason, message, False, hint))
