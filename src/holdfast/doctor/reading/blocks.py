"""The bytes of one local file, decompressed and as UTF-8 as they are read, and whether they are a log at all."""

from __future__ import annotations

import bz2
import codecs
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
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
"""What PowerShell writes with `>`, and some consoles export."""
_WIDE_SAMPLE = 512
_MOSTLY = 0.9
_CHUNK = 256 * 1024
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


def packing_of(path: str) -> str | None:
    """How the text is compressed or widened, so that it can only be read from its beginning. By the first bytes:
    rotated logs may have any name."""
    with open(path, "rb") as file:
        first = file.read(_WIDE_SAMPLE)
    return _compression(first) or _widening(first)


def _widening(first: bytes) -> str | None:
    """UTF-16, by its mark or by its zeros: every other byte of plain text is one. Without a zero the mark is damage."""
    marked = next((name for mark, name in _WIDE.items() if first.startswith(mark)), None)
    if 0 not in first:
        return None
    if marked is not None or len(first) < 16:
        return marked
    even, odd = first[::2], first[1::2]
    zeros = (even.count(0) / len(even), odd.count(0) / len(odd))
    if zeros[1] >= _MOSTLY and zeros[0] <= 1 - _MOSTLY:
        return "utf-16-le"
    return "utf-16-be" if zeros[0] >= _MOSTLY and zeros[1] <= 1 - _MOSTLY else None


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
    packing = packing_of(path)
    if packing is None:
        with open(path, "rb", buffering=0) as file:
            file.seek(max(0, start - REACH))
            yield lambda size: file.read(size) or b""
        return
    assert start == 0, "a compressed file is one piece"
    if packing in _WIDE.values():
        with open(path, "rb") as file:
            yield _narrowed(file, packing)
        return
    with _decompressed(path, packing) as stream:
        yield lambda size: _read(stream, size, path)


def _narrowed(file: BinaryIO, encoding: str) -> Read:
    """As UTF-8."""
    decoder, waiting, ended = codecs.getincrementaldecoder(encoding)("replace"), b"", False

    def read(size: int) -> bytes:
        nonlocal waiting, ended
        while not waiting and not ended:
            chunk = file.read(_CHUNK)
            ended = not chunk
            waiting = decoder.decode(chunk, final=ended).encode("utf-8", "replace").removeprefix(codecs.BOM_UTF8)
        taken, waiting = waiting[:size], waiting[size:]
        return taken

    return read


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
