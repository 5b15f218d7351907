"""How a command asks the running owner of a job for something: one object in the home, one at a time.

The asker creates it if there is none. The owner looks for it with one GET per heartbeat, does what it says, writes the
answer into the journal, and only then removes the object. So a request is served once: an owner that finds one which
the journal says was answered removes it, and one that was cut off in the middle is served again by the next owner.
Answers do not live for ever, and a request can come again late: so a request says how far its asker had seen the
journal, and one whose asker had not seen as far as answers have been forgotten is void, and removed unserved. An
asker that waits no longer removes its request; one that cannot any more has said until when it is worth serving.
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

RequestKind = Literal["savepoint", "delete-savepoint", "stop", "collect"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    id: str
    """Unique; the answer carries it."""
    kind: RequestKind
    name: str | None = None
    """Of the savepoint to make or delete; for a stop, the one to make on the way."""
    checkpoint: CheckpointId | None = None
    """For a savepoint: name this one instead of making a new one."""
    head: Sequence
    """The newest journal entry that the asker had seen."""
    asked_at: datetime
    expires_at: datetime
    """By the asker's clock. Not begun later than this."""
    asker: Process


class _RequestFormat(msgspec.Struct):
    format: int = FORMAT


def place_request(store: ObjectStore, request: Request) -> bool:
    """False when another one is waiting: try again later."""
    if store.create(KEY, msgspec.json.encode(request)) is Created.WON:
        return True
    standing = read_request(store)
    return standing is not None and standing.id == request.id


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(Request)
_FORMAT_DECODER = msgspec.json.Decoder(_RequestFormat)


def read_request(store: ObjectStore) -> Request | None:
    """None when there is none. One that cannot be read is nobody's, and is removed.

    One that a newer version wrote is left to it: it is not served here, and its asker takes it away again.
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
    """When it is read again as it was: one wrong answer is no reason to remove what somebody asks for."""
    with suppress(ObjectNotFound):
        if store.get(KEY) == data:
            store.delete(KEY)


def remove_request(store: ObjectStore, request: Request) -> None:
    """Take it away if it is still there. An object store cannot delete on a condition: in the moment between looking
    and deleting, another asker's request may have come, and that asker then hears nothing and asks again."""
    standing = read_request(store)
    if standing is not None and standing.id == request.id:
        store.delete(KEY)


def withdraw(store: ObjectStore, request: Request) -> None:
    """The asker waits no longer. Best effort: the request expires by itself."""
    try:
        remove_request(store, request)
    except StorageError:
        return
