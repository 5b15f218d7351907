"""The user's arguments -> files to read: paths, directories, globs, URLs, standard input."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from holdfast.doctor.reading.blocks import Piece, packing_of
from holdfast.errors import InvalidSettings, NotFound

PIECE = 64 * 1024 * 1024
_GLOB = frozenset("*?[")
_SWOLLEN = 8
"""How many times larger a compressed log is to read than to store, roughly."""
_TOGETHER = 500
_PIECES_PER_CORE = 8
_SHARES_PER_CORE = 1.5
_LEAST_PIECE = 4 * 1024 * 1024
STANDARD_INPUT = "-"
_SMALL = 32 * 1024 * 1024
_FEW = 1_000


@dataclass(frozen=True)
class Inputs:
    files: tuple[str, ...]
    """Local paths, sorted, each once."""
    urls: tuple[str, ...]
    """What only Spark can read."""


def resolve(named: Iterable[str]) -> Inputs:
    files: set[str] = set()
    urls: list[str] = []
    for name in named:
        path = local_path(name)
        if path is None:
            _require_file_system(name)
            urls.append(name)
        else:
            files.update(_files(path))
    return Inputs(tuple(sorted(files)), tuple(urls))


def _require_file_system(url: str) -> None:
    """Refused early: Spark would start, wait and then report that it cannot list files of a web server."""
    if urlsplit(url).scheme in ("http", "https", "ftp"):
        raise InvalidSettings(
            f"could not read {url}: logs are read from file systems and object stores, not from web servers",
            hint=f"curl -sS '{url}' | holdfast doctor -",
        )


def local_path(name: str) -> str | None:
    scheme = urlsplit(name).scheme
    if scheme == "file":
        return unquote(urlsplit(name).path)
    return None if "://" in name or scheme in ("dbfs",) else name


def spooled(stream: BinaryIO, directory: Path) -> str:
    """Standard input cannot be read twice, nor by several workers: it is written to a file first."""
    path = directory / "standard-input"
    with path.open("wb") as file:
        shutil.copyfileobj(stream, file, 1024 * 1024)
    return str(path)


def is_small(inputs: Inputs) -> bool:
    """This process has read it before Spark has started."""
    return not inputs.urls and len(inputs.files) <= _FEW and weight(inputs) <= _SMALL


def weight(inputs: Inputs) -> int:
    """Bytes of all local files; of compressed ones, what they will be."""
    return sum(_weight(Piece(path)) for path in inputs.files)


def piece_size(files: Iterable[str], cores: int) -> int:
    """Small enough that each core gets many pieces: with few large ones, some cores would wait for the last."""
    total = sum(map(_length, files))
    return max(_LEAST_PIECE, min(PIECE, total // (cores * _PIECES_PER_CORE)))


def pieces_of(files: Iterable[str], size: int = PIECE) -> Iterator[Piece]:
    """In order, for each file. A compressed file is one piece: nothing can start in its middle."""
    for path in files:
        length = _length(path)
        if length <= size or _is_compressed(path):
            yield Piece(path)
            continue
        cuts = [*range(0, length, size)]
        for start, end in zip(cuts, [*cuts[1:], None], strict=True):
            yield Piece(path, start, end)


def shared_out(pieces: Sequence[Piece], size: int, cores: int) -> list[list[int]]:
    """Places of pieces that one task reads one after the other, the largest tasks first.

    Each takes a share of what is left: a task costs Spark as much as reading some megabytes, so few are wanted, and
    small ones at the end, so that no core waits long for the last.
    """
    weights = [_weight(piece) for piece in pieces]
    left = sum(weights)
    least = max(size, left // (_PIECES_PER_CORE * cores))
    tasks: list[list[int]] = []
    room = 0
    for place, weight in enumerate(weights):
        if not tasks or weight > room or len(tasks[-1]) >= _TOGETHER:
            tasks.append([])
            room = max(least, int(left / (_SHARES_PER_CORE * cores)))
        tasks[-1].append(place)
        room -= weight
        left -= weight
    return sorted(tasks, key=lambda task: -sum(weights[place] for place in task))


def _weight(piece: Piece) -> int:
    if piece.end is not None:
        return piece.end - piece.start
    length = max(0, _length(piece.path) - piece.start)
    return length * _SWOLLEN if piece.start == 0 and _is_compressed(piece.path) else length


def _length(path: str) -> int:
    """A missing or unreadable file counts as empty: the worker that tries to read it reports the reason."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _is_compressed(path: str) -> bool:
    try:
        return packing_of(path) is not None
    except OSError:
        return False


def _files(path: str) -> Iterator[str]:
    found = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True)) if _GLOB & set(path) else []
    if not found:
        kind = "matches nothing" if _GLOB & set(path) else "does not exist"
        raise NotFound(
            f"No logs to read: {path} {kind}", hint="name files, directories, globs or URLs; - is standard input"
        )
    for each in found:
        yield from below(each) if os.path.isdir(each) else (os.path.abspath(each),)


def below(directory: str) -> Iterator[str]:
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = os.path.join(folder, name)
            if not name.startswith(".") and os.path.isfile(path):
                yield os.path.abspath(path)
