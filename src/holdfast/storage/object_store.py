"""S3, Google Cloud Storage and Azure Blob Storage through obstore.

create-if-absent is a conditional put: `If-None-Match: *`, on Google `x-goog-if-generation-match: 0`. A request is sent
once: a decorator retries, because an answer may be lost after the effect. Keys include the prefix here, because
obstore lists by path components and holdfast by any prefix.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import AzureStore, GCSStore, S3Store

from holdfast.errors import ObjectNotFound
from holdfast.storage.chunks import ChunkSource
from holdfast.storage.interface import Created, ObjectStore, StoredAt, StoredObject
from holdfast.storage.keys import checked_key, checked_prefix
from holdfast.storage.object_store_answers import Answer, Effect, named
from holdfast.storage.whole import not_whole

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ObjectMeta

T = TypeVar("T")
Client = S3Store | GCSStore | AzureStore

SINGLE_PUT = 68 << 20
"""An object up to this size is one request: every pack, and nearly every file of RocksDB, whose files are 64 MiB. In
parts it would be six requests. It is held in memory until it is sent, by each thread that copies."""
PART = 16 << 20
SMALL = 1 << 20
"""An upload up to this size is a small request. Most manifests are, and their upload blocks the journal lane."""
PARTS_AT_ONCE = 2
_CHUNK = 1 << 20
_PAGE = 1000


@dataclass(frozen=True)
class Clients:
    """The same bucket with different time-outs. Every request times out, whatever the network does."""

    quick: Client
    """For small requests: a short time-out for the whole request."""
    sending: Client
    """A long time-out for one request to be sent and answered."""
    receiving: Client
    """A short time-out for the first piece, and from each piece to the next."""


@dataclass(frozen=True)
class Part:
    """Bytes of an object, with what they are part of."""

    data: bytes
    size: int
    version: str


class RemoteStore:
    def __init__(self, clients: Clients, root: str, *, within: str = "", bucket: str = "") -> None:
        """`root` is the bucket's URL without any option; `within` the path below it. `bucket` as in `StoredAt`; without
        it, nothing is copied from elsewhere in the bucket."""
        self._clients = clients
        self._root = root
        self._within = within
        self._bucket = bucket

    @property
    def url(self) -> str:
        return f"{self._root}/{self._within}" if self._within else self._root

    def __repr__(self) -> str:
        return f"RemoteStore({self.url})"

    def scoped(self, name: str) -> ObjectStore:
        within = self._below(checked_key("use", name, self.url))
        return RemoteStore(self._clients, self._root, within=within, bucket=self._bucket)

    def create(self, key: str, data: bytes) -> Created:
        def put() -> Created:
            try:
                self._clients.quick.put(self._below(key), data, mode="create")
            except (AlreadyExistsError, PreconditionError) as error:
                if Answer.of(error).an_object_exists:
                    return Created.LOST
                raise
            return Created.WON

        return self._tried("create", key, put, Effect.DECIDING)

    def put(self, key: str, data: bytes) -> None:
        def put() -> None:
            self._clients.quick.put(self._below(key), data, use_multipart=False)

        self._tried("write", key, put, Effect.REPEATABLE)

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        """In parts when it is large. A failed upload's parts are dropped, on S3 and Google by an explicit abort."""
        source = ChunkSource(chunks)
        beginning = source.beginning(SINGLE_PUT)
        if source.exhausted:
            self._tried("upload", key, lambda: self._put_whole(key, beginning), Effect.REPEATABLE)
            return
        try:
            self._tried("upload", key, lambda: self._put_parts(key, chain(beginning, source)), Effect.REPEATABLE)
        except BaseException:
            if source.failure is not None:
                raise source.failure from None
            raise

    def copy_inside(self, source: StoredAt, key: str, through: str) -> str | None:
        if source.bucket != self._bucket:
            return None
        bucket = RemoteStore(self._clients, self._root)
        passing = self._below(checked_key("copy", through, self.url))
        bucket.copy(source.key, passing)
        # Compared after the copy, for want of a condition: no object gets an earlier version back. Until then nobody
        # has proved the bytes, so they are not under the name of their digest: what another copy has proved may be.
        proved = bucket._still_has(source)
        if proved:
            bucket.copy(passing, self._below(checked_key("copy", key, self.url)))
        self.delete(through)
        return self.look(key).version if proved else None

    def _still_has(self, source: StoredAt) -> bool:
        try:
            return self.look(source.key).version == source.version
        except ObjectNotFound:
            return False

    def stored_at(self, key: str, version: str) -> StoredAt | None:
        return StoredAt(self._bucket, self._below(key), version) if self._bucket else None

    def get(self, key: str) -> bytes:
        return b"".join(self._pieces(key))

    def read(self, key: str, offset: int, length: int) -> bytes:
        def part() -> tuple[bytes, int]:
            try:
                found = self._clients.receiving.get(self._below(key), options={"range": (offset, offset + length)})
                return bytes(found.bytes()), _size(found.meta)
            except BaseError as error:
                if not Answer.of(error).beyond_the_end:
                    raise
                return b"", _size(self._clients.quick.head(self._below(key)))

        if length == 0:
            self._require_object(key)
            return b""
        data, size = self._tried("read", key, part)
        expected = min(length, max(0, size - offset))
        if len(data) != expected:
            raise not_whole(self._shown(key), len(data), expected)
        return data

    def stream(self, key: str) -> Iterator[bytes]:
        return self._pieces(key)

    def _pieces(self, key: str) -> Iterator[bytes]:
        def answered() -> "tuple[GetResult, int]":
            found = self._clients.receiving.get(self._below(key))
            return found, _size(found.meta)

        found, size = self._tried("read", key, answered)
        given = 0
        pieces = iter(found.stream(_CHUNK))
        while (piece := self._tried("read", key, lambda: next(pieces, None))) is not None:
            given += len(piece)
            yield bytes(piece)
        if given != size:
            raise not_whole(self._shown(key), given, size)

    def exists(self, key: str) -> bool:
        try:
            self._require_object(key)
        except ObjectNotFound:
            return False
        return True

    def _require_object(self, key: str) -> None:
        def look() -> None:
            try:
                _size(self._clients.quick.head(self._below(key)))
            except FileNotFoundError:
                # Without a body, a gateway may have sent this 404. The answer to a GET has a body.
                self._first_byte(key)

        self._tried("look for", key, look)

    def _first_byte(self, key: str) -> None:
        try:
            _size(self._clients.quick.get(self._below(key), options={"range": (0, 1)}).meta)
        except BaseError as error:
            if not Answer.of(error).beyond_the_end:
                raise

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        """An empty result is requested twice: the page of a captive portal can look like an empty listing."""
        found = self._listed(prefix, after)
        first = next(found, None)
        if first is None and not after:
            yield from self._listed(prefix, after)
        elif first is not None:
            yield first
            yield from found

    def _listed(self, prefix: str, after: str) -> Iterator[StoredObject]:
        whole = self._below(checked_prefix(prefix, self.url))
        folder, _, _ = whole.rpartition("/")
        offset = self._below(after) if after >= prefix and after else None
        pages = self._clients.quick.list(folder or None, offset=offset, chunk_size=_PAGE)
        base = len(self._below(""))
        while (page := self._tried("list", prefix, lambda: next(pages, None))) is not None:
            for item in page:
                path = item["path"]
                if path.startswith(whole) and path[base:] > after:
                    yield _found(path[base:], item)
                elif path > whole and not path.startswith(whole):
                    return

    def children(self) -> tuple[str, ...]:
        found = self._tried("list", "", lambda: self._clients.quick.list_with_delimiter(self._within or None))
        return tuple(sorted(path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"]))

    # --- for checkpoint directories (`object_files`) ---

    def look(self, key: str) -> StoredObject:
        def look() -> StoredObject:
            try:
                return _found(key, self._clients.quick.head(self._below(key)))
            except FileNotFoundError:
                # As in `_require_object`.
                return _found(key, self._clients.quick.get(self._below(key)).meta)

        return self._tried("look for", key, look)

    def part(self, key: str, offset: int, length: int, version: str | None) -> Part | None:
        def part() -> Part | None:
            options: GetOptions = {"range": (offset, offset + length)}
            if version is not None:
                options["if_match"] = f'"{version}"'
            try:
                found = self._clients.receiving.get(self._below(key), options=options)
                return Part(bytes(found.bytes()), _size(found.meta), _version(found.meta))
            except PreconditionError:
                return None
            except BaseError as error:
                if not Answer.of(error).beyond_the_end:
                    raise
                meta = self._clients.quick.head(self._below(key))
                return Part(b"", _size(meta), _version(meta)) if version in (None, _version(meta)) else None

        found = self._tried("read", key, part)
        if found is not None and len(found.data) != (expected := min(length, max(0, found.size - offset))):
            raise not_whole(self._shown(key), len(found.data), expected)
        return found

    def copy(self, key: str, to: str) -> None:
        """Inside the store, over what is at `to`."""

        def copy() -> None:
            self._clients.sending.copy(self._below(key), self._below(checked_key("copy", to, self.url)))

        self._tried("copy", key, copy)

    def folder(self, folder: str) -> tuple[tuple[StoredObject, ...], tuple[str, ...]]:
        """Objects and names of folders directly in it. Asked twice when there are none, as in `list`."""
        whole = self._below(checked_prefix(folder, self.url)) if folder else self._within
        base = len(self._below(""))

        def folder_() -> tuple[tuple[StoredObject, ...], tuple[str, ...]]:
            found = self._clients.quick.list_with_delimiter(whole or None)
            objects = tuple(_found(item["path"][base:], item) for item in found["objects"])
            return objects, tuple(path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"])

        found = self._tried("list", folder, folder_)
        return found if any(found) else self._tried("list", folder, folder_)

    def delete(self, key: str) -> None:
        def delete() -> None:
            try:
                self._clients.quick.delete(self._below(key))
            except FileNotFoundError as error:
                if not Answer.of(error).no_object:
                    raise

        self._tried("delete", key, delete, Effect.DECIDING)

    def temporaries(self) -> Iterator[StoredObject]:
        """None are visible here: the store's lifecycle rule drops parts of a failed upload."""
        return iter(())

    def _put_whole(self, key: str, pieces: Sequence[bytes]) -> None:
        # The pieces are sent as they are; joined, they would be in memory twice.
        small = sum(len(piece) for piece in pieces) <= SMALL
        client = self._clients.quick if small else self._clients.sending
        client.put(self._below(key), iter(pieces), use_multipart=False)

    def _put_parts(self, key: str, chunks: Iterable[bytes]) -> None:
        self._clients.sending.put(
            self._below(key), iter(chunks), use_multipart=True, chunk_size=PART, max_concurrency=PARTS_AT_ONCE
        )

    def _tried(self, operation: str, key: str, call: Callable[[], T], effect: Effect = Effect.NONE) -> T:
        if operation != "list":
            checked_key(operation, key, self.url)
        try:
            return call()
        except (BaseError, OSError) as error:
            failure = named(operation, self._shown(key), error, effect)
        # Raised outside of the handler: the original can hold secrets and must not be the context.
        raise failure

    def _shown(self, key: str) -> str:
        return f"{self._root}/{self._below(key)}"

    def _below(self, key: str) -> str:
        return f"{self._within}/{key}" if self._within else key


def _size(meta: "ObjectMeta") -> int:
    """The size of the object. An answer with neither ETag nor time is not from a store, but from a captive portal."""
    if not meta["e_tag"] and meta["last_modified"].timestamp() == 0:
        raise ConnectionError("an answer with neither ETag nor time")
    return meta["size"]


def _version(meta: "ObjectMeta") -> str:
    """Some services quote it in a listing, some do not."""
    return (meta["e_tag"] or "").strip('"')


def _found(key: str, meta: "ObjectMeta") -> StoredObject:
    return StoredObject(key, _size(meta), meta["last_modified"].timestamp(), _version(meta))


def put_requests(size: int) -> int:
    """How many requests an upload of this many bytes takes: one put, or all parts and their begin and end."""
    return 1 if size <= SINGLE_PUT else 2 + -(-size // PART)
