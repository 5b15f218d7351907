"""Hadoop's checksum of a local file, kept beside it as `.<name>.crc`.

It begins with `crc` and a zero byte, then the length of a piece (32 bits, big-endian), then the CRC-32 of each piece.
"""

import os
import struct
import zlib
from pathlib import Path

_HEADER = struct.Struct(">4si")
_MAGIC = b"crc\0"
_PIECES_AT_ONCE = 2048


def checksum_path(path: Path) -> Path:
    """Where Hadoop keeps the checksum of this file."""
    return path.parent / f".{path.name}.crc"


def matches_checksum(path: Path) -> bool:
    """Whether the file's bytes are those that were written; True when there is no checksum to tell by."""
    try:
        stored = checksum_path(path).read_bytes()
    except FileNotFoundError:
        return True
    piece = _piece(stored)
    return piece is not None and stored[_HEADER.size :] == _checksums(path, piece)


def fits_length(path: Path) -> bool:
    """Whether the checksum is that of a file with so many pieces. Hadoop does not notice when some are missing."""
    try:
        with checksum_path(path).open("rb") as file:
            piece = _piece(file.read(_HEADER.size))
            length = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return True
    return piece is not None and length == _HEADER.size + 4 * -(-path.stat().st_size // piece)


def _piece(stored: bytes) -> int | None:
    """The length of a piece, None when this is no checksum."""
    if len(stored) < _HEADER.size:
        return None
    magic, piece = _HEADER.unpack_from(stored)
    return piece if magic == _MAGIC and piece > 0 else None


def _checksums(path: Path, piece: int) -> bytes:
    sums = bytearray()
    with path.open("rb") as file:
        while data := file.read(piece * _PIECES_AT_ONCE):
            view = memoryview(data)
            for start in range(0, len(data), piece):
                sums += zlib.crc32(view[start : start + piece]).to_bytes(4, "big")
    return bytes(sums)
