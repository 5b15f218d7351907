"""Which objects may go, and why: planned from what is stored and what the journal says, pure."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from holdfast.checkpoint.manifest import Manifest
from holdfast.storage.interface import StoredObject

TEMPORARY_KEPT_S = 86_400.0
"""A temporary of a living writer is younger. If one should not be, its write fails and is repeated; nothing is lost."""

LEAST_SHARE = 4
"""A pack is sparse when less than one part in this many of it is still needed."""


class Why(StrEnum):
    RETIRED = "retired"
    """Only checkpoints that are retired name it."""
    ORPHAN = "orphan"
    """Nothing names it: left by an attempt or a run that failed."""
    TEMPORARY = "temporary"
    """A writer died before it had finished."""


@dataclass(frozen=True, slots=True)
class Unneeded:
    key: str
    size: int
    why: Why
    wait_s: float = 0.0
    """How much is left of the grace."""


def unneeded_objects(
    stored: Iterable[StoredObject], needed: Container[str], retired: Mapping[str, float]
) -> Iterator[Unneeded]:
    """`needed`: what retained checkpoints name. `retired`: what others name, with the seconds left of their grace."""
    for item in stored:
        if item.key in needed:
            continue
        if item.key in retired:
            yield Unneeded(item.key, item.size, Why.RETIRED, retired[item.key])
        else:
            yield Unneeded(item.key, item.size, Why.ORPHAN)


def stale_temporaries(found: Iterable[StoredObject], now: float) -> Iterator[Unneeded]:
    """`now` in seconds since 1970."""
    for item in found:
        if now - item.modified_at > TEMPORARY_KEPT_S:
            yield Unneeded(item.key, item.size, Why.TEMPORARY)


@dataclass(frozen=True, slots=True)
class SparsePack:
    key: str
    size: int
    needed: int


def sparse_packs(newest: Manifest, sizes: Mapping[str, int], pinned: Container[str]) -> tuple[SparsePack, ...]:
    """Packs of which the newest checkpoint needs little: the next checkpoint packs that part again.

    It packs the files out of the work directory, so no object that a manifest names changes. The old pack is deleted
    when the last checkpoint that names it is. Less than a quarter of a pack is written again and the rest is freed, so
    this adds at most a third to what was written. `sizes` are those of the packs in question. A `pinned` one, which a
    savepoint names, stays in any case: packing its files again frees nothing.
    """
    parts: dict[str, set[tuple[int, int]]] = {}
    for file in newest.files():
        if file.pack is not None and file.key in sizes:
            parts.setdefault(file.key, set()).add((file.offset, file.size))
    packs = (SparsePack(key, sizes[key], sum(size for _, size in found)) for key, found in parts.items())
    return tuple(pack for pack in packs if pack.needed * LEAST_SHARE < pack.size and pack.key not in pinned)


def is_of_earlier_run(key: str, epoch: int) -> bool:
    """Whether the key of a blob or pack ends in a lower epoch."""
    uploader = key.rpartition(".")[2]
    return uploader.isdigit() and int(uploader) < epoch
