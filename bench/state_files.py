"""Files as RocksDB and Spark leave them in a work directory: nearly all bytes in SSTs, nearly all files small."""

from __future__ import annotations

import random
from pathlib import Path

from holdfast.checkpoint.layout import ShardPlan, WorkFile
from holdfast.identifiers import ShardId
from holdfast.workdir.barriers import files_of
from holdfast.workdir.factory import work_directory

PARTITIONS = 8
_SST_SIZES = (64, 48, 32, 24, 16)
"""In MB, smaller when the whole is: RocksDB's compaction aims at 64 MB, what is not compacted yet is smaller."""
_SMALL = 24 << 10
_SMALL_FILES_PER_PARTITION = 25


class StateFiles:
    """A work directory of about `size` bytes, always the same bytes."""

    def __init__(self, root: Path, size: int) -> None:
        self.root = root
        self._numbers = random.Random(7)
        self._size = size
        self._version = 0
        self._build()

    def shards(self) -> tuple[ShardPlan, ...]:
        """One per state store, as a plan has them."""
        found: dict[ShardId, list[WorkFile]] = {}
        for file in files_of(work_directory(self.root)):
            found.setdefault(ShardId("/".join(file.path.split("/")[:3])), []).append(file)
        return tuple(ShardPlan(shard, tuple(files)) for shard, files in sorted(found.items()))

    def change_one_percent(self) -> None:
        """As a batch would: one SST under a name that was never used replaces one of the same size; new changelogs."""
        (old,) = self.root.glob("state/0/0/SSTs/changing-*.sst")
        self._changing_sst()
        old.unlink()
        self._changelogs()

    def _build(self) -> None:
        unit = min(1 << 20, max(1 << 14, self._size >> 10))
        number = written = 0
        while written < self._size * 98 // 100:
            size = _SST_SIZES[number % len(_SST_SIZES)] * unit
            self._write(f"state/0/{number % PARTITIONS}/SSTs/{number:06}.sst", size)
            written += size
            number += 1
        self._changing_sst()
        for _ in range(_SMALL_FILES_PER_PARTITION):
            self._changelogs()

    def _changing_sst(self) -> None:
        self._version += 1
        self._write(f"state/0/0/SSTs/changing-{self._version:06}.sst", self._size // 100)

    def _changelogs(self) -> None:
        self._version += 1
        for partition in range(PARTITIONS):
            self._write(f"state/0/{partition}/{self._version}.changelog", _SMALL)

    def _write(self, name: str, size: int) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._numbers.randbytes(size))
