"""From an entry of the journal to its bytes and back, each entry proved by its checksum.

The stored document ends with `"checksum"`: the BLAKE3 of the same document without that field. It is taken over the
bytes as they lie there, so a reader can prove an entry with fields that it does not know.

An entry without a checksum was written before there were any. Such an entry has no field but the known ones: one that
lost its checksum to a damaged byte is not taken for it.
"""

import re

import msgspec

from holdfast.checkpoint.manifest import digest_of
from holdfast.errors import DamagedJournal, InvalidSettings
from holdfast.repository.entries import FORMAT, AnyEntry

_SEAL = re.compile(rb',"checksum":"([0-9a-f]{64})"\}\Z')
_HINT = (
    "nothing was changed; put this object back from a copy of the home, "
    "and let `holdfast verify` tell what else is damaged"
)


class _Format(msgspec.Struct):
    format: int


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_FORMAT_DECODER = msgspec.json.Decoder(_Format)
_ENTRY_DECODER: msgspec.json.Decoder[AnyEntry] = msgspec.json.Decoder(AnyEntry)
_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])


def encode_entry(entry: AnyEntry) -> bytes:
    body = msgspec.json.encode(entry)
    return b'%b,"checksum":"%b"}' % (body[:-1], digest_of(body).encode())


def decode_entry(key: str, data: bytes) -> AnyEntry:
    """The entry in `data`.

    Raises `DamagedJournal` when it is not what was written, `InvalidSettings` when its format is not known here.
    """
    sealed = _SEAL.search(data)
    if sealed is not None:
        _require_checksum(key, data[: sealed.start()] + b"}", sealed[1].decode())
    try:
        _require_known_format(key, _FORMAT_DECODER.decode(data).format)
        entry = _ENTRY_DECODER.decode(data)
        if sealed is None:
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
        raise InvalidSettings(
            f"could not read {key}: it has format {version}, this holdfast knows up to {FORMAT}",
            hint="upgrade holdfast to the version that wrote this home",
        )


def _require_known_fields(key: str, data: bytes, entry: AnyEntry) -> None:
    known = {"kind", *entry.__struct_fields__}
    unknown = sorted(set(_FIELDS_DECODER.decode(data)) - known)
    if unknown:
        raise damaged_entry(key, f"it has no checksum, but a field {unknown[0]!r}")
