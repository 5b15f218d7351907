"""Stands for the run of a job that the page asks for something."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.cli.dashboard.guard import Guard
from holdfast.repository.entries import Failure, RequestAnswered
from holdfast.repository.mailbox import Request, read_request, remove_request
from tests.unit.job_histories import History

TOKEN = "0123456789abcdef"
GUARD = Guard(frozenset(), TOKEN, actions=True, form_key=b"drawn at the start")


class Owner(threading.Thread):
    """Takes requests from the real mailbox, and answers in the real journal."""

    def __init__(self, history: History, failure: Failure | None = None) -> None:
        super().__init__()
        self._history, self._failure = history, failure
        self.next = len(history.state().completed) + 1
        self._over = threading.Event()
        self.served: list[tuple[str, str | None]] = []

    def run(self) -> None:
        while not self._over.wait(0.02):
            request = read_request(self._history.store)
            if request is None:
                continue
            self.served.append((request.kind, request.name))
            made = self._made(request) if self._failure is None else None
            said = "7 objects are deleted" if request.kind == "collect" else ""
            answer = {"checkpoint": made, "failure": self._failure, "message": said}
            self._history._append(RequestAnswered, request=request.id, **answer)
            remove_request(self._history.store, request)

    def _made(self, request: Request) -> int | None:
        if request.kind == "collect":
            return None
        if request.kind == "delete-savepoint":
            dropped = self._history.state().savepoint(request.name or "")
            assert dropped is not None
            self._history.delete(request.name or "", dropped.id)
            return dropped.id
        self._history.complete(self.next, batch=999, name=request.name)
        self.next += 1
        return self.next - 1

    def close(self) -> None:
        self._over.set()
        self.join()


@contextmanager
def owned(history: History, failure: Failure | None = None) -> Iterator[Owner]:
    owner = Owner(history, failure)
    owner.start()
    try:
        yield owner
    finally:
        owner.close()
