"""What Spark's checkpoint directory on an object store needs beyond what a home does: versions of objects, folders, and
copies inside the store. Every call is retried; none returns the bytes of another version than was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from holdfast.storage.clients import clients_for
from holdfast.storage.interface import Created, StoredAt, StoredObject
from holdfast.storage.location import parse_location
from holdfast.storage.object_store import Part, RemoteStore
from holdfast.storage.retrying import CALL_REQUESTS, SHORTEST_REQUEST_TIMEOUT, Patience, RetryingStore, repeated

_AT_ONCE = 16
"""Deletions under way at the same time."""


class ObjectFiles:
    def __init__(self, url: str, deadline: float) -> None:
        """`deadline` as in `open_store`."""
        location = parse_location(url)
        timeout = max(SHORTEST_REQUEST_TIMEOUT, deadline / CALL_REQUESTS)
        self._patience = Patience(deadline)
        clients = clients_for(location, request_timeout=timeout)
        self._bucket = RemoteStore(clients, location.root)
        self._remote = RemoteStore(clients, location.root, within=location.path, bucket=location.bucket)
        self._store = RetryingStore(self._remote, self._patience)

    def look(self, key: str) -> StoredObject:
        return repeated(lambda: self._remote.look(key), self._patience)

    def part(self, key: str, offset: int, length: int, version: str | None) -> Part | None:
        """A part of that version, or of any; None when the object has another version."""
        return repeated(lambda: self._remote.part(key, offset, length, version), self._patience)

    def get(self, key: str) -> bytes:
        return self._store.get(key)

    def put(self, key: str, data: bytes) -> None:
        self._store.put(key, data)

    def create(self, key: str, data: bytes) -> Created:
        return self._store.create(key, data)

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        self._store.upload(key, chunks)

    def stored_at(self, key: str, version: str) -> StoredAt | None:
        return self._remote.stored_at(key, version)

    def copy_inside(self, source: StoredAt, to: str) -> bool:
        """Over what is at `to`. False when the object is in another bucket, or has another version.

        The version is compared after the copy: it was that of the object before, and no object gets an earlier version
        back.
        """
        target = self._remote.stored_at(to, "")
        if target is None or target.bucket != source.bucket:
            return False
        repeated(lambda: self._bucket.copy(source.key, target.key), self._patience)
        return repeated(lambda: self._bucket.look(source.key), self._patience).version == source.version

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Without marks of folders."""
        before: StoredObject | None = None
        for found in self._store.list(prefix):
            if before is not None and not _marks(before, found.key):
                yield before
            before = found
        if before is not None:
            yield before

    def folder(self, folder: str) -> tuple[tuple[StoredObject, ...], tuple[str, ...]]:
        """Objects and names of folders directly in it, without marks of folders."""
        objects, folders = repeated(lambda: self._remote.folder(folder), self._patience)
        marked = {folder, *(f"{folder}/{name}" if folder else name for name in folders)}
        return tuple(found for found in objects if found.size or found.key not in marked), folders

    def delete(self, key: str) -> None:
        self._store.delete(key)

    def delete_all(self, keys: Iterable[str]) -> None:
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="delete") as pool:
            for _ in pool.map(self.delete, keys):
                pass


def _marks(found: StoredObject, next_key: str) -> bool:
    """Whether it is one of the empty objects by which Hadoop marks a folder. Their names end with a slash, which the
    client drops; so one with nothing below it cannot be told from an empty file, which Spark does not write."""
    return not found.size and next_key.startswith(f"{found.key}/")
