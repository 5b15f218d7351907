"""A store that counts: requests by kind, bytes both ways, how long requests take.

It wraps the store directly, below the one that retries: every try is a request and costs money. `put_requests` is the
number of requests of one upload, for a store that uploads in parts.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from threading import Lock
from typing import TypeVar

from holdfast.storage.chunks import passed_through
from holdfast.storage.interface import Created, ObjectStore, StoredAt, StoredObject

T = TypeVar("T")

_LATENCIES_KEPT = 1000
_LISTED_PER_REQUEST = 1000


class StoreRequest(Enum):
    PUT = "put"
    GET = "get"
    LIST = "list"
    DELETE = "delete"


@dataclass(frozen=True)
class Usage:
    """Requests to a store, up to a moment or between two."""

    put: int = 0
    get: int = 0
    list: int = 0
    delete: int = 0
    bytes_out: int = 0
    """Sent to the store."""
    bytes_in: int = 0
    seconds: float = 0.0
    """The time it covers."""

    def since(self, earlier: "Usage") -> "Usage":
        return Usage(*(getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Latency:
    """Seconds, over the newest requests of one kind."""

    requests: int
    p50: float
    p99: float


@dataclass
class Meter:
    """The counters of one store and all its scopes. The lock guards additions only."""

    clock: Callable[[], float] = time.monotonic  # noqa: TID251
    _usage: Usage = field(default_factory=Usage)
    _latencies: dict[StoreRequest, deque[float]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._latencies.update((kind, deque(maxlen=_LATENCIES_KEPT)) for kind in StoreRequest)

    @property
    def usage(self) -> Usage:
        """Since the meter was made."""
        with self._lock:
            return replace(self._usage, seconds=self.clock() - self._began)

    def latency(self, kind: StoreRequest) -> Latency | None:
        with self._lock:
            taken = sorted(self._latencies[kind])
        if not taken:
            return None
        return Latency(len(taken), taken[len(taken) // 2], taken[min(len(taken) - 1, len(taken) * 99 // 100)])

    def count(self, kind: StoreRequest, requests: int = 1, *, bytes_out: int = 0, bytes_in: int = 0) -> None:
        with self._lock:
            self._usage = replace(
                self._usage,
                **{kind.value: getattr(self._usage, kind.value) + requests},
                bytes_out=self._usage.bytes_out + bytes_out,
                bytes_in=self._usage.bytes_in + bytes_in,
            )

    def add(self, other: Usage) -> None:
        """Requests of another process to the same store; its time is not added."""
        for kind in StoreRequest:
            self.count(kind, getattr(other, kind.value))
        self.count(StoreRequest.PUT, 0, bytes_out=other.bytes_out, bytes_in=other.bytes_in)

    def took(self, kind: StoreRequest, seconds: float) -> None:
        with self._lock:
            self._latencies[kind].append(seconds)


def one_request(size: int) -> int:
    return 1


class MeteredStore:
    def __init__(self, store: ObjectStore, meter: Meter, put_requests: Callable[[int], int] = one_request) -> None:
        """`put_requests` returns how many requests an upload of this many bytes takes."""
        self._store = store
        self._meter = meter
        self._put_requests = put_requests

    @property
    def url(self) -> str:
        return self._store.url

    def __repr__(self) -> str:
        return f"MeteredStore({self._store!r})"

    def scoped(self, name: str) -> ObjectStore:
        return MeteredStore(self._store.scoped(name), self._meter, self._put_requests)

    def create(self, key: str, data: bytes) -> Created:
        return self._timed(StoreRequest.PUT, lambda: self._store.create(key, data), bytes_out=len(data))

    def put(self, key: str, data: bytes) -> None:
        self._timed(StoreRequest.PUT, lambda: self._store.put(key, data), bytes_out=len(data))

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        sent = 0

        def counted(pieces: Iterator[bytes]) -> Iterator[bytes]:
            nonlocal sent
            for piece in pieces:
                sent += len(piece)
                yield piece

        begun = self._meter.clock()
        try:
            self._store.upload(key, passed_through(chunks, counted))
        finally:
            self._meter.count(StoreRequest.PUT, self._put_requests(sent), bytes_out=sent)
        self._meter.took(StoreRequest.PUT, self._meter.clock() - begun)

    def copy_inside(self, source: StoredAt, key: str, through: str) -> str | None:
        """Two copies, two looks and a deletion."""
        version = self._timed(StoreRequest.PUT, lambda: self._store.copy_inside(source, key, through))
        self._meter.count(StoreRequest.PUT, 1)
        self._meter.count(StoreRequest.GET, 2)
        self._meter.count(StoreRequest.DELETE, 1)
        return version

    def stored_at(self, key: str, version: str) -> StoredAt | None:
        return self._store.stored_at(key, version)

    def get(self, key: str) -> bytes:
        data = self._timed(StoreRequest.GET, lambda: self._store.get(key))
        self._meter.count(StoreRequest.GET, 0, bytes_in=len(data))
        return data

    def read(self, key: str, offset: int, length: int) -> bytes:
        data = self._timed(StoreRequest.GET, lambda: self._store.read(key, offset, length))
        self._meter.count(StoreRequest.GET, 0, bytes_in=len(data))
        return data

    def stream(self, key: str) -> Iterator[bytes]:
        self._meter.count(StoreRequest.GET)
        for piece in self._store.stream(key):
            self._meter.count(StoreRequest.GET, 0, bytes_in=len(piece))
            yield piece

    def exists(self, key: str) -> bool:
        return self._timed(StoreRequest.GET, lambda: self._store.exists(key))

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        self._meter.count(StoreRequest.LIST)
        for number, item in enumerate(self._store.list(prefix, after), 1):
            yield item
            if number % _LISTED_PER_REQUEST == 0:
                self._meter.count(StoreRequest.LIST)

    def children(self) -> tuple[str, ...]:
        return self._timed(StoreRequest.LIST, self._store.children)

    def delete(self, key: str) -> None:
        self._timed(StoreRequest.DELETE, lambda: self._store.delete(key))

    def temporaries(self) -> Iterator[StoredObject]:
        return self._store.temporaries()

    def _timed(self, kind: StoreRequest, call: Callable[[], T], *, bytes_out: int = 0) -> T:
        """Counted whether it succeeds or not: a refused request costs, too."""
        self._meter.count(kind, bytes_out=bytes_out)
        begun = self._meter.clock()
        result = call()
        self._meter.took(kind, self._meter.clock() - begun)
        return result
