"""How a command sends a request to the running owner of a job: one object in the home, one request at a time.

The requester creates it with create-if-absent. The owner looks for it with one GET per heartbeat, serves it, writes the
answer into the journal, and only then removes the object. So a request is served once: an owner removes a request that
the journal has an answer to, and the next owner serves one that was interrupted. Answers are dropped some day, and a
delayed write can bring a request back. So a request names the newest journal entry that its requester had read; if
answers after that entry have been dropped, the request is void, and the owner removes it unserved. A requester that
stops waiting removes its request; for one that cannot, the request has an expiry time.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Literal

import msgspec

from holdfast.errors import ObjectNotFound, StorageError
from holdfast.identifiers import CheckpointId, Sequence
from holdfast.repository.entries import Process
from holdfast.storage.interface import Created, ObjectStore

KEY = "requests/next.json"
FORMAT = 1

RequestKind = Literal["checkpoint", "savepoint", "delete-savepoint", "stop", "collect"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    id: str
    """Unique; the answer carries it."""
    kind: RequestKind
    name: str | None = None
    """Of the savepoint to create or delete; for a stop, the one to create before it."""
    checkpoint: CheckpointId | None = None
    """For a savepoint: name this checkpoint instead of taking a new one."""
    head: Sequence
    """The newest journal entry that the requester had read."""
    asked_at: datetime
    expires_at: datetime
    """By the requester's clock. The owner does not begin to serve it later than this."""
    asker: Process


class _RequestFormat(msgspec.Struct):
    format: int = FORMAT


def place_request(store: ObjectStore, request: Request) -> bool:
    """False when another request is waiting: try again later."""
    if store.create(KEY, msgspec.json.encode(request)) is Created.WON:
        return True
    standing = read_request(store)
    return standing is not None and standing.id == request.id


# Created at import: msgspec crashes the process when threads create the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(Request)
_FORMAT_DECODER = msgspec.json.Decoder(_RequestFormat)


def read_request(store: ObjectStore) -> Request | None:
    """None when there is none. Removes one that cannot be decoded.

    A request of a newer version stays: this version does not serve it, and its requester removes it.
    """
    try:
        data = store.get(KEY)
    except ObjectNotFound:
        return None
    try:
        return _DECODER.decode(data) if _FORMAT_DECODER.decode(data).format <= FORMAT else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        _remove_garbage(store, data)
        return None


def _remove_garbage(store: ObjectStore, data: bytes) -> None:
    """Only if a second read returns the same bytes: one wrong read must not remove a request."""
    with suppress(ObjectNotFound):
        if store.get(KEY) == data:
            store.delete(KEY)


def remove_request(store: ObjectStore, request: Request) -> None:
    """Remove it if it is still there. An object store has no conditional delete: between the read and the delete
    another request may arrive. Its requester then gets no answer and tries again."""
    standing = read_request(store)
    if standing is not None and standing.id == request.id:
        store.delete(KEY)


def withdraw(store: ObjectStore, request: Request) -> None:
    """The requester stops waiting. Best effort: the request expires by itself."""
    try:
        remove_request(store, request)
    except StorageError:
        return
