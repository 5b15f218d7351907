"""A store that retries transient errors, time-outs and broken connections, up to a deadline per call.

Errors such as denied, full and not found are never retried. Special cases:

- `create` with an unknown outcome is read back. The same bytes mean WON, other bytes LOST, no object: retry. As long as
  an earlier try is in doubt, LOST is read back too, because that try may have written the object. Callers put something
  unique into what they create. In doubt until the deadline: `OutcomeUnknown`.
- `list` and `stream` continue where they were interrupted: nothing is yielded twice.
- `upload` is only retried when its chunks can be iterated again; an iterator cannot.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from holdfast.errors import OutcomeUnknown, StorageError, StorageNotThere, StorageUnreachable
from holdfast.storage.interface import Created, ObjectStore, StoredAt, StoredObject

T = TypeVar("T")

DEADLINE = 30.0
"""Seconds after which a call is not retried."""
CALL_REQUESTS = 3
REQUEST_TIMEOUT = DEADLINE / CALL_REQUESTS
"""Time-out in seconds of a small request, of connecting, and between two pieces of a download."""
SHORTEST_REQUEST_TIMEOUT = 1.0
FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0
_RESUMED_READ = 8 << 20


@dataclass(frozen=True)
class Patience:
    """How long to retry, and by which clock. Delays double; each is drawn between half and all of its length."""

    deadline: float = DEADLINE
    clock: Callable[[], float] = time.monotonic  # noqa: TID251
    sleep: Callable[[float], None] = time.sleep  # noqa: TID251
    draw: Callable[[], float] = random.random  # noqa: TID251


class RetryingStore:
    def __init__(self, store: ObjectStore, patience: Patience | None = None) -> None:
        self._store = store
        self._patience = patience or Patience()
        self._created_again = ""

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def patience(self) -> Patience:
        return self._patience

    def __repr__(self) -> str:
        return f"RetryingStore({self._store!r})"

    def scoped(self, name: str) -> ObjectStore:
        return RetryingStore(self._store.scoped(name), self._patience)

    def create(self, key: str, data: bytes) -> Created:
        tries, self._created_again = _Tries(self._patience), ""
        while True:
            try:
                outcome = self._store.create(key, data)
            except StorageError as error:
                failure, self._created_again = tries.noted(error), key
            else:
                if outcome is Created.WON or not tries.in_doubt:
                    return outcome
                failure = OutcomeUnknown(f"could not create {self.url}/{key}: it exists and could not be read back")
            settled = self._read_back(key, data) if tries.in_doubt else None
            if settled is not None:
                return settled
            if not tries.again():
                raise failure

    def was_repeated(self, key: str) -> bool:
        """Whether the newest `create` was of this key, and was tried more than once. For whoever alone creates such
        keys, right after it has done so: a try without an answer may still come."""
        return self._created_again == key

    def _read_back(self, key: str, data: bytes) -> Created | None:
        """Whether the object at the key is ours; None when there is none, or when that is unknown."""
        try:
            return Created.WON if self._store.get(key) == data else Created.LOST
        except StorageError:
            return None

    def put(self, key: str, data: bytes) -> None:
        self._repeated(lambda: self._store.put(key, data))

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        if iter(chunks) is chunks:
            self._store.upload(key, chunks)
        else:
            self._repeated(lambda: self._store.upload(key, chunks))

    def copy_inside(self, source: StoredAt, key: str, through: str) -> str | None:
        return self._repeated(lambda: self._store.copy_inside(source, key, through))

    def stored_at(self, key: str, version: str) -> StoredAt | None:
        return self._store.stored_at(key, version)

    def get(self, key: str) -> bytes:
        return self._repeated(lambda: self._store.get(key))

    def read(self, key: str, offset: int, length: int) -> bytes:
        return self._repeated(lambda: self._store.read(key, offset, length))

    def stream(self, key: str) -> Iterator[bytes]:
        position = 0
        try:
            for piece in self._store.stream(key):
                position += len(piece)
                yield piece
        except StorageUnreachable:
            yield from self._rest(key, position)

    def _rest(self, key: str, position: int) -> Iterator[bytes]:
        while True:
            piece = self.read(key, position, _RESUMED_READ)
            if piece:
                yield piece
            if len(piece) < _RESUMED_READ:
                return
            position += len(piece)

    def exists(self, key: str) -> bool:
        return self._repeated(lambda: self._store.exists(key))

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        tries = _Tries(self._patience)
        while True:
            begun_after = after
            try:
                for item in self._store.list(prefix, after):
                    after = item.key
                    yield item
            except StorageUnreachable as error:
                failure = tries.noted(error)
            else:
                return
            if after != begun_after:
                tries = _Tries(self._patience)
            if not tries.again():
                raise failure

    def children(self) -> tuple[str, ...]:
        return self._repeated(self._store.children)

    def delete(self, key: str) -> None:
        self._repeated(lambda: self._store.delete(key))

    def temporaries(self) -> Iterator[StoredObject]:
        return self._store.temporaries()

    def _repeated(self, call: Callable[[], T]) -> T:
        return repeated(call, self._patience)


def patience_of(store: ObjectStore) -> Patience:
    """The patience of this store; none when it does not retry."""
    return store.patience if isinstance(store, RetryingStore) else Patience(deadline=0.0)


def was_repeated(store: ObjectStore, key: str) -> bool:
    """See `RetryingStore`; others do not try again."""
    return isinstance(store, RetryingStore) and store.was_repeated(key)


def pauses(patience: Patience) -> Iterator[None]:
    """Yields once for each retry that there is time for, after the delay before it."""
    tries = _Tries(patience)
    while tries.again():
        yield


def repeated(call: Callable[[], T], patience: Patience) -> T:
    """For calls that may take effect twice without harm."""
    tries = _Tries(patience)
    while True:
        try:
            return call()
        except StorageError as error:
            failure = tries.noted(error)
        if not tries.again():
            raise failure


def _in_doubt_because_of(error: StorageError) -> OutcomeUnknown:
    """Reports the newest failure as the cause."""
    doubt = OutcomeUnknown(error.message, hint=error.hint)
    doubt.__cause__ = error
    return doubt


class _Tries:
    """The tries of one call."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._ends = patience.clock() + patience.deadline
        self._delay = FIRST_DELAY
        self.in_doubt = False
        """An earlier try may have taken effect, or may still do so."""

    def noted(self, error: StorageError) -> StorageError:
        """What to raise if this was the last try; raises it at once when a retry cannot help."""
        is_passing = isinstance(error, StorageUnreachable | OutcomeUnknown) and not isinstance(error, StorageNotThere)
        self.in_doubt = self.in_doubt or isinstance(error, OutcomeUnknown)
        if self.in_doubt and not isinstance(error, OutcomeUnknown):
            error = _in_doubt_because_of(error)
        if not is_passing:
            raise error
        return error

    def again(self) -> bool:
        """Wait; True when there is time for another try."""
        left = self._ends - self._patience.clock()
        delay = self._delay * (0.5 + self._patience.draw() / 2)
        if delay >= left:
            return False
        self._patience.sleep(delay)
        self._delay = min(self._delay * 2, LONGEST_DELAY)
        return True
