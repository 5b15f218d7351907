"""Which objects may be deleted, and why. Pure: plans from the stored objects and the journal's state."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from holdfast.checkpoint.manifest import Manifest
from holdfast.storage.interface import StoredObject

TEMPORARY_KEPT_S = 86_400.0
"""Temporary files of live writers are younger. If one is not, its write fails and is retried; nothing is lost."""

LEAST_SHARE = 4
"""A pack is sparse when less than one part in this many of it is still needed."""


class Why(StrEnum):
    RETIRED = "retired"
    """Only checkpoints that are retired name it."""
    ORPHAN = "orphan"
    """No manifest names it: a failed attempt or run left it."""
    TEMPORARY = "temporary"
    """A writer died before it had finished."""


@dataclass(frozen=True, slots=True)
class Unneeded:
    key: str
    size: int
    why: Why
    wait_s: float = 0.0
    """Seconds until its grace ends."""


def unneeded_objects(
    stored: Iterable[StoredObject], needed: Container[str], retired: Mapping[str, float]
) -> Iterator[Unneeded]:
    """`needed`: keys in retained checkpoints. `retired`: keys in retired ones, with the seconds until their grace
    ends."""
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

    It packs the files from the work directory, so no object that a manifest names changes. The old pack is deleted
    together with the last checkpoint that names it. Less than a quarter of a pack is written again and the rest is
    freed, so repacking adds at most a third to the bytes written. `sizes` has the packs to consider. A `pinned` one,
    which a savepoint names, stays in any case: packing its files again frees nothing.
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
