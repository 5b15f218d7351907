"""A store that fails on purpose, for tests: errors before and after the effect, delays, interrupted transfers.

Every fault is drawn from one seed: the same calls in the same order get the same faults.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from holdfast.errors import OutcomeUnknown, StorageError, StorageUnreachable
from holdfast.storage.chunks import passed_through
from holdfast.storage.interface import Created, ObjectStore, StoredAt, StoredObject

T = TypeVar("T")


@dataclass(frozen=True)
class Faults:
    """Probabilities per call, and for `torn` per chunk that is transferred."""

    before: float = 0.0
    """An error without an effect."""
    after: float = 0.0
    """An error after the effect."""
    torn: float = 0.0
    """An upload, download or listing breaks off in the middle."""
    slow: float = 0.0
    slow_seconds: float = 0.2
    error: type[StorageError] = StorageUnreachable
    """What `before` raises."""


class _Torn(Exception):
    pass


class _Injector:
    """Shared by a store and all its scopes."""

    def __init__(self, faults: Faults, seed: int, sleep: Callable[[float], None]) -> None:
        self.faults = faults
        self.sleep = sleep
        self._random = random.Random(seed)

    def strikes(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability


class FaultyStore:
    def __init__(
        self,
        store: ObjectStore,
        faults: Faults,
        seed: int = 0,
        sleep: Callable[[float], None] = time.sleep,  # noqa: TID251
    ) -> None:
        self._store = store
        self._injector = _Injector(faults, seed, sleep)

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def faults(self) -> Faults:
        """May be set at any time, for this store and its scopes: `Faults()` ends all faults."""
        return self._injector.faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._injector.faults = faults

    def scoped(self, name: str) -> "FaultyStore":
        scope = FaultyStore(self._store.scoped(name), Faults())
        scope._injector = self._injector
        return scope

    def create(self, key: str, data: bytes) -> Created:
        return self._with_faults("create", key, lambda: self._store.create(key, data), OutcomeUnknown)

    def put(self, key: str, data: bytes) -> None:
        self._with_faults("write", key, lambda: self._store.put(key, data))

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        self._with_faults("upload", key, lambda: self._upload(key, chunks))

    def copy_inside(self, source: StoredAt, key: str, through: str) -> str | None:
        return self._with_faults("copy", key, lambda: self._store.copy_inside(source, key, through))

    def stored_at(self, key: str, version: str) -> StoredAt | None:
        return self._store.stored_at(key, version)

    def get(self, key: str) -> bytes:
        return self._with_faults("read", key, lambda: self._store.get(key))

    def read(self, key: str, offset: int, length: int) -> bytes:
        return self._with_faults("read", key, lambda: self._store.read(key, offset, length))

    def stream(self, key: str) -> Iterator[bytes]:
        pieces = self._with_faults("read", key, lambda: self._store.stream(key))
        return self._transferred("read", key, pieces)

    def exists(self, key: str) -> bool:
        return self._with_faults("look for", key, lambda: self._store.exists(key))

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        items = self._with_faults("list", prefix, lambda: self._store.list(prefix, after))
        return self._transferred("list", prefix, items)

    def children(self) -> tuple[str, ...]:
        return self._with_faults("list", "", self._store.children)

    def delete(self, key: str) -> None:
        self._with_faults("delete", key, lambda: self._store.delete(key), OutcomeUnknown)

    def temporaries(self) -> Iterator[StoredObject]:
        return self._store.temporaries()

    def _upload(self, key: str, chunks: Iterable[bytes]) -> None:
        try:
            self._store.upload(key, passed_through(chunks, self._interrupted))
        except _Torn:
            raise StorageUnreachable(f"could not upload {self.url}/{key}: the connection broke") from None

    def _interrupted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            if self._injector.strikes(self.faults.torn):
                yield chunk[: len(chunk) // 2]
                raise _Torn
            yield chunk

    def _transferred(self, operation: str, key: str, items: Iterator[T]) -> Iterator[T]:
        for item in items:
            if self._injector.strikes(self.faults.torn):
                raise StorageUnreachable(f"could not {operation} {self.url}/{key}: the connection broke")
            yield item

    def _with_faults(
        self, operation: str, key: str, call: Callable[[], T], lost_answer: type[StorageError] = StorageUnreachable
    ) -> T:
        if self._injector.strikes(self.faults.slow):
            self._injector.sleep(self.faults.slow_seconds)
        if self._injector.strikes(self.faults.before):
            raise self.faults.error(f"could not {operation} {self.url}/{key}: a fault was injected before the effect")
        result = call()
        if self._injector.strikes(self.faults.after):
            raise lost_answer(f"could not {operation} {self.url}/{key}: a fault was injected after the effect")
        return result
