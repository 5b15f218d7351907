"""How much a checkpoint writes to the home, against how much has changed since the one before it.

Changed: the bytes of those files of the checkpoint whose content was not in the checkpoint before; equal content once.
Written: everything that is new in the home because of it: blobs, packs, manifest, its entries in the journal, the
heartbeats meanwhile, and what attempts that did not complete left behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.pipeline import JOB, home_of
from bench.ratio import Ratio
from holdfast.checkpoint.manifest import Manifest, decode_manifest, manifest_key
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.journal import read_entries
from holdfast.repository.state import JobState
from holdfast.storage.urls import open_store

EXPECTED_WRITTEN = 1.05


@dataclass(frozen=True)
class Written:
    """Over all checkpoints of a home that have a predecessor there."""

    checkpoints: int
    total: int
    """Size of the newest checkpoint."""
    changed: int
    objects: int
    manifests: int
    journal: int
    leftovers: int
    """Objects of the same time that no checkpoint names: of attempts that did not complete."""

    @property
    def bytes(self) -> int:
        return self.objects + self.manifests + self.journal + self.leftovers


@dataclass(frozen=True)
class Step:
    """From one checkpoint to the next."""

    changed: int
    objects: int
    manifest: int


def written(place: Path) -> Written:
    store = open_store(f"file://{home_of(place)}").scoped(JOB)
    completed = sorted(JobState.of(read_entries(store)).retained(), key=lambda entry: entry.id)
    manifests = [decode_manifest(store.get(manifest_key(entry.manifest)), entry.manifest) for entry in completed]
    listed = list(store.list(""))
    stored = {item.key: item.size for item in listed}
    each = steps(manifests, [stored[manifest_key(entry.manifest)] for entry in completed], stored)
    named = {file.key for manifest in manifests for file in manifest.files()}
    named |= {manifest_key(entry.manifest) for entry in completed}
    recent = [item for item in listed if item.modified_at > completed[0].at.timestamp()]
    return Written(
        checkpoints=len(each),
        total=manifests[-1].bytes_total,
        changed=sum(step.changed for step in each),
        objects=sum(step.objects for step in each),
        manifests=sum(step.manifest for step in each),
        journal=_journal_bytes(stored, completed),
        leftovers=sum(item.size for item in recent if _is_data(item.key) and item.key not in named),
    )


def steps(manifests: Sequence[Manifest], manifest_sizes: Sequence[int], stored: dict[str, int]) -> list[Step]:
    taken = []
    known = {file.key for file in manifests[0].files()}
    for before, manifest, size in zip(manifests, manifests[1:], manifest_sizes[1:], strict=False):
        old = {file.digest for file in before.files()}
        changed = {file.digest: file.size for file in manifest.files() if file.digest not in old}
        new = {file.key for file in manifest.files()} - known
        known |= new
        taken.append(Step(sum(changed.values()), sum(stored[key] for key in new), size))
    return taken


def _journal_bytes(stored: dict[str, int], completed: Sequence[CheckpointCompleted]) -> int:
    """The entries after the first of these checkpoints up to the last, and a heartbeat every five seconds between."""
    first, last = completed[0], completed[-1]
    entries = sum(
        size
        for key, size in stored.items()
        if key.startswith("journal/") and first.sequence < int(Path(key).stem) <= last.sequence
    )
    beats = (last.at - first.at).total_seconds() / 5
    return entries + round(beats * stored.get("owner.json", 0))


def _is_data(key: str) -> bool:
    return key.startswith(("blobs/", "packs/", "manifests/"))


def ratio(homes: Sequence[Written]) -> Ratio:
    value = sum(home.bytes for home in homes) / sum(home.changed for home in homes)
    return Ratio("bytes written: bytes changed", value, False, EXPECTED_WRITTEN)
