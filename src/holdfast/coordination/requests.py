"""Checkpoints that were requested and have not begun yet: at most one per kind and name, savepoints first."""

from dataclasses import dataclass

from holdfast.coordination.events import Kind
from holdfast.identifiers import RequestId


@dataclass
class Waiting:
    kind: Kind
    name: str | None
    requests: tuple[RequestId, ...]


class WaitingRequests:
    def __init__(self) -> None:
        self._waiting: list[Waiting] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, kind: Kind, name: str | None, request: RequestId) -> None:
        """Join the one that is already queued, if there is one."""
        for waiting in self._waiting:
            if (waiting.kind, waiting.name) == (kind, name):
                waiting.requests = (*waiting.requests, request)
                return
        self._waiting.append(Waiting(kind, name, (request,)))

    def take(self) -> Waiting:
        """The one to begin now. There must be one."""
        first = min(self._waiting, key=lambda waiting: waiting.kind != "savepoint")
        self._waiting.remove(first)
        return first

    def clear(self) -> tuple[RequestId, ...]:
        """Drop all of them; returns every request in them."""
        requests = tuple(request for waiting in self._waiting for request in waiting.requests)
        self._waiting = []
        return requests

    def has_name(self, name: str) -> bool:
        return any(waiting.name == name for waiting in self._waiting)
