"""When every byte of a checkpoint was last read and found right: `verified.json`, one object beside the heartbeat.

For display only: it decides nothing, so writers need not own the job, and of two that write at once one is forgotten.
A note names the manifest that was read, so it never speaks of another checkpoint with the same number. Each write drops
the notes of checkpoints that are not retained any more: there are never more notes than checkpoints.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import msgspec

from holdfast.checkpoint.manifest import digest_of
from holdfast.errors import ObjectNotFound
from holdfast.identifiers import CheckpointId, Digest
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.moments import Moment
from holdfast.repository.sealing import opened, sealed
from holdfast.storage.interface import ObjectStore

KEY = "verified.json"
FORMAT = 1

LastVerified = Mapping[Digest, datetime]
"""By manifest."""


class VerifiedNote(msgspec.Struct, frozen=True):
    checkpoint: CheckpointId
    manifest: Digest
    at: Moment
    """When the reading began: what was damaged later is not denied by it."""


class VerifiedNotes(msgspec.Struct, frozen=True):
    format: int = FORMAT
    notes: tuple[VerifiedNote, ...] = ()


# Created at import: msgspec crashes the process when threads create the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(VerifiedNotes)


def read_last_verified(store: ObjectStore) -> LastVerified:
    """Nothing where the object is damaged, or of a newer version. Raises `StorageError` when it cannot be read."""
    return {note.manifest: note.at for note in _read(store).notes}


def note_verified(
    store: ObjectStore,
    retained: Iterable[CheckpointCompleted],
    at: datetime,
    right: Collection[CheckpointId],
    wrong: Collection[CheckpointId] = (),
) -> None:
    """`wrong`: read as well, and damaged or not readable: what was noted before no longer holds."""
    before = read_last_verified(store)
    notes = []
    for entry in retained:
        noted = at if entry.id in right else None if entry.id in wrong else before.get(entry.manifest)
        if noted is not None:
            notes.append(VerifiedNote(entry.id, entry.manifest, noted))
    if notes or before:
        store.put(KEY, sealed(msgspec.json.encode(VerifiedNotes(notes=tuple(notes)))))


def _read(store: ObjectStore) -> VerifiedNotes:
    try:
        proof = opened(store.get(KEY))
    except ObjectNotFound:
        return VerifiedNotes()
    if proof is None or digest_of(proof[0]) != proof[1]:
        return VerifiedNotes()
    try:
        notes = _DECODER.decode(proof[0])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return VerifiedNotes()
    return notes if notes.format <= FORMAT else VerifiedNotes()
