"""A rate limit for a store: requests per second, bytes per second, or both.

For background work that must not slow down other work, such as collection, scrubbing and copying.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator

from holdfast.storage.chunks import passed_through
from holdfast.storage.interface import Created, ObjectStore, StoredAt, StoredObject

LISTED_PER_REQUEST = 1000


class Allowance:
    """A token bucket that goes into debt: a caller that takes more tokens than there are waits until the debt is paid.

    The lock guards a few additions and is never held while waiting.
    """

    def __init__(
        self,
        per_second: float,
        *,
        burst_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,  # noqa: TID251
        sleep: Callable[[float], None] = time.sleep,  # noqa: TID251
    ) -> None:
        self._rate = per_second
        self._burst = per_second * burst_seconds
        self._clock = clock
        self._sleep = sleep
        self._left = self._burst
        self._at = clock()
        self._lock = threading.Lock()

    def take(self, amount: float) -> None:
        with self._lock:
            now = self._clock()
            self._left = min(self._burst, self._left + (now - self._at) * self._rate) - amount
            self._at = now
            debt = -self._left / self._rate
        if debt > 0:
            self._sleep(debt)


class LimitedStore:
    def __init__(
        self, store: ObjectStore, *, requests: Allowance | None = None, bytes: Allowance | None = None
    ) -> None:
        """The allowances are shared with every scope, and may be shared with other stores."""
        self._store = store
        self._requests = requests
        self._bytes = bytes

    @property
    def url(self) -> str:
        return self._store.url

    def scoped(self, name: str) -> ObjectStore:
        return LimitedStore(self._store.scoped(name), requests=self._requests, bytes=self._bytes)

    def create(self, key: str, data: bytes) -> Created:
        self._take(len(data))
        return self._store.create(key, data)

    def put(self, key: str, data: bytes) -> None:
        self._take(len(data))
        self._store.put(key, data)

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        self._take(0)
        self._store.upload(key, passed_through(chunks, self._paced))

    def copy_inside(self, source: StoredAt, key: str, through: str) -> str | None:
        self._take(0)
        return self._store.copy_inside(source, key, through)

    def stored_at(self, key: str, version: str) -> StoredAt | None:
        return self._store.stored_at(key, version)

    def get(self, key: str) -> bytes:
        self._take(0)
        data = self._store.get(key)
        self._take_bytes(len(data))
        return data

    def read(self, key: str, offset: int, length: int) -> bytes:
        self._take(length)
        return self._store.read(key, offset, length)

    def stream(self, key: str) -> Iterator[bytes]:
        self._take(0)
        yield from self._paced(self._store.stream(key))

    def exists(self, key: str) -> bool:
        self._take(0)
        return self._store.exists(key)

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        for number, item in enumerate(self._store.list(prefix, after)):
            if number % LISTED_PER_REQUEST == 0:
                self._take(0)
            yield item

    def children(self) -> tuple[str, ...]:
        self._take(0)
        return self._store.children()

    def delete(self, key: str) -> None:
        self._take(0)
        self._store.delete(key)

    def temporaries(self) -> Iterator[StoredObject]:
        self._take(0)
        return self._store.temporaries()

    def _take(self, size: int) -> None:
        if self._requests is not None:
            self._requests.take(1)
        self._take_bytes(size)

    def _take_bytes(self, size: int) -> None:
        if self._bytes is not None and size:
            self._bytes.take(size)

    def _paced(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._take_bytes(len(piece))
            yield piece
