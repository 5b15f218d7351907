"""Kinds of damage to a Spark work directory, as disks, machines and people do them.

Files are replaced, never changed in place: a file may be linked into the directory of another run.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.workdir import barriers
from holdfast.workdir.factory import work_directory

Act = Callable[[Path], None]


@dataclass(frozen=True)
class Damage:
    name: str
    pattern: str
    """Of the path of a file of the newest barrier, `{n}` being its number and `{v}` that of its state."""
    act: Act

    def do(self, directory: Path) -> str | None:
        """Damage the directory; the path of the file, None when the barrier has no such file."""
        barrier = barriers.newest_barrier(work_directory(directory))
        assert barrier is not None
        pattern = self.pattern.format(n=barrier, v=barrier + 1)
        files = [file.path for file in barriers.plan(work_directory(directory), barrier).files()]
        path = max((path for path in files if re.fullmatch(pattern, path)), key=_number, default=None)
        if path is not None:
            self.act(directory / path)
        return path


def _number(path: str) -> int:
    digits = re.match(r"\d+", path.rpartition("/")[2])
    return int(digits[0]) if digits else 0


def rewritten(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    rewritten(path, b"")


def truncated(path: Path) -> None:
    data = path.read_bytes()
    rewritten(path, data[: max(1, len(data) // 2)])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x01
    rewritten(path, bytes(data))


def overwritten(path: Path) -> None:
    rewritten(path, b"\x55" * path.stat().st_size)


def wrong_checksum(path: Path) -> None:
    flipped_last = bytearray((checksum := path.with_name(f".{path.name}.crc")).read_bytes())
    flipped_last[-1] ^= 0x01
    rewritten(checksum, bytes(flipped_last))


_STORE = r"state/0/1"
_KINDS_OF_FILES = {
    "table": (rf"{_STORE}/SSTs/.*\.sst", (overwritten, flipped, truncated, empty, missing, wrong_checksum)),
    "archive": (rf"{_STORE}/\d+(_.*)?\.zip", (truncated, flipped, empty, missing)),
    "changelog": (rf"{_STORE}/{{v}}(_.*)?\.changelog", (truncated, overwritten, flipped, empty, missing)),
    "delta": (rf"{_STORE}/\d+\.delta", (truncated, flipped, empty, missing, wrong_checksum)),
    "snapshot": (rf"{_STORE}/\d+\.snapshot", (truncated, flipped, empty)),
    "offsets": ("offsets/{n}", (truncated, overwritten, empty, missing)),
    "commit": ("commits/{n}", (truncated, overwritten, empty)),
    "metadata": ("metadata", (truncated, overwritten, missing)),
    "source log": (r"sources/0/{n}(\.compact)?", (truncated, overwritten, empty, missing)),
}

DAMAGE = tuple(
    Damage(f"{act.__name__} {what}".replace("_", " "), pattern, act)
    for what, (pattern, acts) in _KINDS_OF_FILES.items()
    for act in acts
)
