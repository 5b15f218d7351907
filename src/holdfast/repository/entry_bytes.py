"""Encodes and decodes journal entries; a checksum proves each entry.

An entry without a checksum was written before checksums existed and has known fields only. An entry whose checksum
field was damaged has an unknown field, so it is not mistaken for an old one.

A fold is sealed in the same way. It holds the stored bytes of its entries unchanged. So each entry is still proved by
its own checksum, and the next entry still follows the last of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import msgspec

from holdfast.checkpoint.manifest import digest_of
from holdfast.errors import DamagedJournal, NewerFormat
from holdfast.identifiers import Digest, Sequence
from holdfast.repository.entries import CHAINED_SINCE, FORMAT, AnyEntry
from holdfast.repository.sealing import opened, sealed

_HINT = (
    "nothing was changed; put this object back from a copy of the home, "
    "and run `holdfast verify` to find what else is damaged"
)


@dataclass(frozen=True)
class StoredEntry:
    """An entry, and its bytes as they are in the home."""

    entry: AnyEntry
    data: bytes

    @cached_property
    def digest(self) -> Digest:
        return digest_of(self.data)

    @property
    def sequence(self) -> Sequence:
        return self.entry.sequence


class _EntryFormat(msgspec.Struct):
    format: int


class _Fold(msgspec.Struct):
    upto: Sequence
    entries: tuple[msgspec.Raw, ...]


# Created at import: msgspec crashes the process when threads create the decoder of a type at the same time.
_FORMAT_DECODER = msgspec.json.Decoder(_EntryFormat)
_ENTRY_DECODER: msgspec.json.Decoder[AnyEntry] = msgspec.json.Decoder(AnyEntry)
_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FOLD_DECODER = msgspec.json.Decoder(_Fold)


def encode_entry(entry: AnyEntry) -> bytes:
    return sealed(msgspec.json.encode(entry))


def stored_entry(entry: AnyEntry) -> StoredEntry:
    return StoredEntry(entry, encode_entry(entry))


def encode_fold(upto: Sequence, entries: Iterable[StoredEntry]) -> bytes:
    documents = b",\n".join(entry.data for entry in entries)
    return sealed(b'{"format":%d,"upto":%d,"entries":[\n%b\n]}' % (FORMAT, upto, documents))


def decode_fold(key: str, data: bytes) -> tuple[StoredEntry, ...]:
    """Its entries, oldest first. Raises what `decode_entry` raises."""
    proof = opened(data)
    if proof is None:
        raise damaged_entry(key, "it has no checksum")
    _require_checksum(key, *proof)
    try:
        _require_known_format(key, _FORMAT_DECODER.decode(data).format)
        fold = _FOLD_DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged_entry(key, str(error)) from error
    documents = [bytes(document) for document in fold.entries]
    return tuple(StoredEntry(decode_entry(key, document), document) for document in documents)


def decode_entry(key: str, data: bytes) -> AnyEntry:
    """The entry in `data`.

    Raises `DamagedJournal` when the bytes are not what was written, `NewerFormat` when this version does not know the
    format.
    """
    proof = opened(data)
    if proof is not None:
        _require_checksum(key, *proof)
    try:
        _require_known_format(key, _FORMAT_DECODER.decode(data).format)
        entry = _ENTRY_DECODER.decode(data)
        if proof is None and entry.format >= CHAINED_SINCE:
            raise damaged_entry(key, "it has no checksum")
        if proof is None:
            _require_known_fields(key, data, entry)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged_entry(key, str(error)) from error
    return entry


def damaged_entry(key: str, why: str) -> DamagedJournal:
    return DamagedJournal(f"could not read journal entry {key}: {why}", hint=_HINT)


def _require_checksum(key: str, body: bytes, expected: str) -> None:
    if (found := digest_of(body)) != expected:
        raise damaged_entry(key, f"its bytes have digest {found}, its checksum is {expected}")


def _require_known_format(key: str, version: int) -> None:
    if version > FORMAT:
        raise NewerFormat.of_format(key, version, FORMAT)


def _require_known_fields(key: str, data: bytes, entry: AnyEntry) -> None:
    known = {"kind", *entry.__struct_fields__}
    unknown = sorted(set(_FIELDS_DECODER.decode(data)) - known)
    if unknown:
        raise damaged_entry(key, f"it has no checksum, but a field {unknown[0]!r}")
