"""Hadoop's checksum of a local file, kept beside it as `.<name>.crc`.

It begins with `crc` and a zero byte, then the length of a piece (32 bits, big-endian), then the CRC-32 of each piece.
"""

import struct
import zlib

from holdfast.workdir.interface import WorkDirectory

_HEADER = struct.Struct(">4si")
_MAGIC = b"crc\0"


def checksum_name(name: str) -> str:
    """The name of Hadoop's checksum file for this file, in the same folder."""
    return f".{name}.crc"


def _checksum_of(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{checksum_name(name)}"


def matches_checksum(directory: WorkDirectory, path: str) -> bool:
    """Whether the file's bytes match its checksum; True when there is no checksum."""
    try:
        stored = directory.read(_checksum_of(path))
    except FileNotFoundError:
        return True
    piece = _piece(stored)
    return piece is not None and stored[_HEADER.size :] == _checksums(directory.read(path), piece)


def fits_length(directory: WorkDirectory, path: str) -> bool:
    """Whether the checksum file covers as many pieces as the file has. Hadoop does not notice when some are missing."""
    checksum = _checksum_of(path)
    try:
        with directory.open(checksum) as file:
            piece = _piece(file.read(_HEADER.size))
        length = directory.stat(checksum).size
    except FileNotFoundError:
        return True
    return piece is not None and length == _HEADER.size + 4 * -(-directory.stat(path).size // piece)


def _piece(stored: bytes) -> int | None:
    """The length of a piece, None when this is no checksum."""
    if len(stored) < _HEADER.size:
        return None
    magic, piece = _HEADER.unpack_from(stored)
    return piece if magic == _MAGIC and piece > 0 else None


def _checksums(data: bytes, piece: int) -> bytes:
    view = memoryview(data)
    starts = range(0, len(data), piece)
    return b"".join(zlib.crc32(view[start : start + piece]).to_bytes(4, "big") for start in starts)
