"""What holdfast requires of durable storage.

Every guarantee rests on one primitive: `create`, which writes an object only if its key is free. A call to it has one
of three outcomes:

    WON       the object did not exist and now holds these bytes
    LOST      an object already exists at this key; an earlier try of the same caller may have written it
    unknown   `OutcomeUnknown` is raised: the write may have taken effect, may not, or may still do so later

`delete` can be unknown, too. Any other `StorageError` from these two means that nothing was changed. `put` and `upload`
may be repeated without harm, so it does not matter whether a failed one took effect: any `StorageError` of theirs may
mean either.

Listings are complete and contain every finished write. Every method may be called from any thread.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Created(Enum):
    WON = "won"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class StoredObject:
    key: str
    size: int
    modified_at: float
    """Seconds since 1970 by the store's clock; only good for grace periods, decides nothing."""
    version: str = ""
    """The ETag, where the store has one: other bytes have another."""


@dataclass(frozen=True, slots=True)
class StoredAt:
    """One version of an object, wherever in its bucket."""

    bucket: str
    """Equal for two objects that can be copied to one another inside the store."""
    key: str
    """From the root of the bucket."""
    version: str


class Uploads(Protocol):
    """The part of a store that copying needs."""

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        """See `ObjectStore.upload`."""

    def copy_inside(self, source: StoredAt, key: str, through: str) -> str | None:
        """See `ObjectStore.copy_inside`."""

    def stored_at(self, key: str, version: str) -> StoredAt | None:
        """See `ObjectStore.stored_at`."""


class ObjectStore(Protocol):
    @property
    def url(self) -> str:
        """Where this store is, safe to show to a user."""

    def scoped(self, name: str) -> "ObjectStore":
        """The same storage below one more path component."""

    def create(self, key: str, data: bytes) -> Created:
        """Write `data` if `key` is free. The module's docstring has the three outcomes."""

    def put(self, key: str, data: bytes) -> None:
        """Write or replace. Only for objects that decide nothing (the heartbeat)."""

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        """Write a content-addressed object. Doing it twice, or at once from two places, is harmless.

        `chunks` may be iterated again for another try, unless it is an iterator, which gives its bytes only once.
        When `chunks` raises, no object appears at `key` and the exception passes through.
        """

    def copy_inside(self, source: StoredAt, key: str, through: str) -> str | None:
        """An ability that object stores have: copy that version to `key`, without its bytes passing through here.

        Returns the version of the copy. None when this store cannot copy it, or there is another version; then nothing
        has happened to `key`. May be repeated, as an upload, and done at once from two places. `through` is a key that
        nobody else uses: whether the right version was copied shows there. It may be left behind.
        """

    def stored_at(self, key: str, version: str) -> StoredAt | None:
        """Where that object is, for `copy_inside`, without a look at it. None in a store without that ability."""

    def get(self, key: str) -> bytes:
        """The whole object; `ObjectNotFound` when there is none."""

    def read(self, key: str, offset: int, length: int) -> bytes:
        """A part of the object, shorter at its end."""

    def stream(self, key: str) -> Iterator[bytes]:
        """The whole object in pieces."""

    def exists(self, key: str) -> bool: ...

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        """Objects whose key starts with `prefix` and is greater than `after`, in ascending order of key."""

    def children(self) -> tuple[str, ...]:
        """Names of the path components directly below this store that hold objects."""

    def delete(self, key: str) -> None:
        """Remove the object; a key that is already gone is no error."""

    def temporaries(self) -> Iterator[StoredObject]:
        """Unfinished writes: they are not objects and not listed. `delete` takes their keys.

        Those of active writers are among them: only an old one surely belongs to a crashed writer. A store that keeps
        nothing of an unfinished write has none.
        """
