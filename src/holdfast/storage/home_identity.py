"""Which home this is: `home.json`, one object directly below the home's URL, created once and never changed.

A path or a bucket's name says where a home is, not which one is there: a disk that is not mounted, a bucket that was
replaced and a home that was restored from a backup all have the same name.

Homes of older versions have none; the next claim creates it.
"""

from datetime import datetime

import msgspec

from holdfast.errors import Corrupt, NewerFormat, ObjectNotFound, OutcomeUnknown
from holdfast.identifiers import HOME_IDENTITY
from holdfast.storage.interface import ObjectStore

KEY = HOME_IDENTITY
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
    """Raises `Corrupt` when it cannot be parsed, `NewerFormat` when a newer version wrote it."""
    try:
        version = _FORMAT_DECODER.decode(data).format
        if version > FORMAT:
            raise NewerFormat.of_format(f"{place}/{KEY}", version, FORMAT)
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(
            f"could not identify the home {place}: {KEY} cannot be read: {error}",
            hint=f"restore {KEY} from a copy of the home",
        ) from error


def read_home_identity(home: ObjectStore) -> HomeIdentity | None:
    """`home` is the store of the home's URL itself, not of a job in it. None: no run has created it yet."""
    try:
        return decode_home_identity(home.get(KEY), home.url)
    except ObjectNotFound:
        return None


def ensure_home_identity(home: ObjectStore, *, id: str, now: datetime) -> HomeIdentity:
    """The home's identity, created from `id` when it has none yet. If several create it at once, one wins.

    Called before a job is claimed.
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
        raise ObjectNotFound(f"could not read {home.url}/{KEY}: it was written and is gone")
    return standing
