"""The bytes of one local file, decompressed as they are read, and whether they are a log at all."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, cast

from holdfast.doctor.reading.windows import REACH, Read

SAMPLE = 16 * 1024
_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\n\r\x0c\x1b"
_BINARY_SHARE = 0.3
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
_BINARIES = (
    b"\x7fELF",
    b"\xca\xfe\xba\xbe",
    b"PK\x03\x04",
    b"PAR1",
    b"\x89PNG",
    b"%PDF",
    b"SQLite format 3",
    b"\xff\xd8\xff",
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of one local file; `end` None: to its end, however far that is."""

    path: str
    start: int = 0
    end: int | None = None


class Damaged(Exception):
    """Compressed bytes that end too early or are invalid; the bytes before were read."""


def compression_of(path: str) -> str | None:
    """By the first bytes: rotated logs may have any name."""
    with open(path, "rb") as file:
        return _compression(file.read(8))


def is_binary(sample: bytes) -> bool:
    """NUL bytes alone do not make a file binary: a log that was truncated while it was written begins with them."""
    if sample.startswith(_BINARIES):
        return True
    written = sample.replace(b"\x00", b"")
    try:
        written.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.end < len(written) - 4:
            return len(written.translate(None, _PLAIN)) > _BINARY_SHARE * len(written)
    controls = len(written.translate(None, _PLAIN + bytes(range(0x80, 0x100))))
    return controls > _BINARY_SHARE * max(1, len(written))


def sample_of(path: str) -> bytes:
    """The first bytes, decompressed."""
    try:
        with opened(path) as read:
            return read(SAMPLE)
    except Damaged:
        return b""


@contextmanager
def opened(path: str, start: int = 0) -> Iterator[Read]:
    """Reads from `start`, minus what a window needs before it. Only uncompressed files can be read from the middle."""
    compression = compression_of(path)
    if compression is None:
        with open(path, "rb", buffering=0) as file:
            file.seek(max(0, start - REACH))
            yield lambda size: file.read(size) or b""
        return
    assert start == 0, "a compressed file is one piece"
    with _decompressed(path, compression) as stream:
        yield lambda size: _read(stream, size, path)


def _compression(first: bytes) -> str | None:
    return next((name for magic, name in _COMPRESSIONS.items() if first.startswith(magic)), None)


def _decompressed(path: str, compression: str) -> BinaryIO:
    if compression == "gzip":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if compression == "bz2":
        return cast(BinaryIO, bz2.open(path, "rb"))
    if compression == "xz":
        return cast(BinaryIO, lzma.open(path, "rb"))
    return _zstd(path)


def _zstd(path: str) -> BinaryIO:
    """Python reads it by itself only from 3.14 on."""
    try:
        import pyarrow as pa
    except ImportError:
        raise Damaged(f"{path}: pip install 'holdfast-spark[doctor]' to read zstd, or decompress it first") from None
    return cast(BinaryIO, pa.input_stream(path, compression="zstd"))


def _read(stream: BinaryIO, size: int, path: str) -> bytes:
    try:
        return stream.read(size)
    except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:  # Arrow's errors are ValueErrors
        raise Damaged(f"{path}: {error}") from error
