"""A process that dies at a chosen step: of the runtime, of the sink, or of the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from holdfast.runtime.ports import RunDirectory, Supervisor
from holdfast.runtime.query_end import AS_ASKED, EndedBy, QueryEnd
from holdfast.storage.interface import Created, StoredObject
from tests.attacks.engine import Engine
from tests.unit.churning_runs import WatchedStore


class Killed(BaseException):
    """As by `kill -9`: nothing that comes after has an effect."""


class Mortal:
    """A process that dies at its n-th step."""

    def __init__(self, dies_at: int | None) -> None:
        self._left = dies_at
        self.dead = False

    def __call__(self, name: str) -> None:
        self.require_alive()
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self.dead = True
                raise Killed(name)

    def require_alive(self) -> None:
        if self.dead:
            raise Killed("dead")

    def watch(self, operation: str, key: str) -> None:
        self(f"{operation} {key}")


class MortalStore(WatchedStore):
    def __init__(self, root: Path, mortal: Mortal) -> None:
        super().__init__(root, mortal.watch)
        self._mortal = mortal

    def create(self, key: str, data: bytes) -> Created:
        self._mortal.require_alive()
        return super().create(key, data)

    def put(self, key: str, data: bytes) -> None:
        self._mortal.require_alive()
        super().put(key, data)

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        self._mortal.require_alive()
        super().upload(key, chunks)

    def delete(self, key: str) -> None:
        self._mortal.require_alive()
        super().delete(key)

    def get(self, key: str) -> bytes:
        self._mortal.require_alive()
        return super().get(key)

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        self._mortal.require_alive()
        return super().list(prefix, after)


class SwiftQuery(Engine):
    """Runs a batch when it is told to."""

    def __init__(self, sink: Any, source: Path, mortal: Mortal, per_batch: int) -> None:
        super().__init__(sink, source, mortal, ends=False, per_batch=per_batch, pause=0)

    def start(self, directory: RunDirectory, supervisor: Supervisor) -> None:
        self._begin(directory, supervisor)

    def stop(self) -> None:
        self._end = self._end or AS_ASKED

    def batch(self) -> bool:
        if self._end is not None:
            return False
        try:
            return self._batch()
        except Exception as error:
            self._end = QueryEnd(EndedBy.ERROR, f"{type(error).__name__}: {error}")
            assert self._supervisor is not None
            self._supervisor.ended()
            return False
