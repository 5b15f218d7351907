"""Hadoop's checksum of a local file, kept beside it as `.<name>.crc`.

It begins with `crc` and a zero byte, then the length of a piece (32 bits, big-endian), then the CRC-32 of each piece.
"""

import struct
import zlib
from pathlib import Path

_HEADER = struct.Struct(">4si")
_MAGIC = b"crc\0"
_PIECES_AT_ONCE = 2048


def matches_checksum(path: Path) -> bool:
    """Whether the file's bytes are those that were written; True when there is no checksum to tell by."""
    try:
        stored = (path.parent / f".{path.name}.crc").read_bytes()
    except FileNotFoundError:
        return True
    if len(stored) < _HEADER.size:
        return False
    magic, piece = _HEADER.unpack_from(stored)
    if magic != _MAGIC or piece <= 0:
        return False
    return stored[_HEADER.size :] == _checksums(path, piece)


def _checksums(path: Path, piece: int) -> bytes:
    sums = bytearray()
    with path.open("rb") as file:
        while data := file.read(piece * _PIECES_AT_ONCE):
            view = memoryview(data)
            for start in range(0, len(data), piece):
                sums += zlib.crc32(view[start : start + piece]).to_bytes(4, "big")
    return bytes(sums)
