"""Which home this is: `home.json`, one object directly below the home's URL, made once and never changed.

A path or a bucket's name says where a home is looked for, not which one is found there: a disk that is not mounted, a
bucket that was replaced and a home that was put back all answer under the same name.

Homes of older versions have none; the next claim makes one.
"""

from datetime import datetime

import msgspec

from holdfast.errors import Corrupt, NewerFormat, ObjectNotFound, OutcomeUnknown
from holdfast.storage.interface import ObjectStore

KEY = "home.json"
FORMAT = 1


class HomeIdentity(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    id: str
    """Unique; compared, never ordered."""
    created_at: datetime


class _IdentityFormat(msgspec.Struct):
    format: int


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_FORMAT_DECODER = msgspec.json.Decoder(_IdentityFormat)
_DECODER = msgspec.json.Decoder(HomeIdentity)


def encode_home_identity(identity: HomeIdentity) -> bytes:
    return msgspec.json.encode(identity)


def decode_home_identity(data: bytes, place: str) -> HomeIdentity:
    """Raises `Corrupt` when it is not what was written, `NewerFormat` when a newer version wrote it."""
    try:
        version = _FORMAT_DECODER.decode(data).format
        if version > FORMAT:
            raise NewerFormat.of_format(f"{place}/{KEY}", version, FORMAT)
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(
            f"could not tell which home {place} is: {KEY} cannot be read: {error}",
            hint=f"put {KEY} back from a copy of the home",
        ) from error


def read_home_identity(home: ObjectStore) -> HomeIdentity | None:
    """`home` is the store of the home's URL itself, not of a job in it. None: nobody with this version claimed here."""
    try:
        return decode_home_identity(home.get(KEY), home.url)
    except ObjectNotFound:
        return None


def ensure_home_identity(home: ObjectStore, *, id: str, now: datetime) -> HomeIdentity:
    """The home's identity, made from `id` when it has none yet. Of several that make one at once, one is the home's.

    Called by whoever is about to claim a job, before it does.
    """
    if (standing := read_home_identity(home)) is not None:
        return standing
    try:
        home.create(KEY, encode_home_identity(HomeIdentity(id=id, created_at=now)))
    except OutcomeUnknown as error:
        if (standing := read_home_identity(home)) is None:
            raise error
        return standing
    standing = read_home_identity(home)
    if standing is None:
        raise ObjectNotFound(f"could not read {home.url}/{KEY}: it was written and is not there")
    return standing
