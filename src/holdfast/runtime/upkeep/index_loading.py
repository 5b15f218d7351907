"""Loads the index of what earlier runs have uploaded, while the query already runs: none of it is uploaded again.

Runs first on the journal lane: the first checkpoint begins when the index is known. Manifests that cannot be read block
nothing: checkpoints then upload what they need, nothing of earlier runs is deleted, and loading is retried later.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from holdfast.checkpoint.manifest import Manifest
from holdfast.errors import Corrupt, NewerFormat, StorageError
from holdfast.job_log import log
from holdfast.repository.blobs import Blobs
from holdfast.repository.damage import load_manifest
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.journal import Journal
from holdfast.runtime.checkpoints.manifests import Manifests
from holdfast.runtime.clock import Clock
from holdfast.runtime.lanes import Lanes
from holdfast.storage.interface import ObjectStore

_TRY_AGAIN_AFTER_S = 60.0


class IndexLoader:
    def __init__(
        self,
        *,
        store: ObjectStore,
        journal: Journal,
        blobs: Blobs,
        manifests: Manifests,
        readers: int,
        clock: Clock,
        lanes: Lanes,
        done: Callable[[], None],
    ) -> None:
        """`manifests` receives what was read. `readers` is the number of concurrent reads. `done` is called when all
        were read."""
        self._store = store
        self._journal = journal
        self._blobs = blobs
        self._manifests = manifests
        self._readers = readers
        self._clock = clock
        self._lanes = lanes
        self._done = done
        self._due = -math.inf

    def poll(self) -> None:
        """Called by the loop: begin when due, which is at first and after each failure."""
        if self._clock.monotonic() >= self._due:
            self._due = math.inf
            self._lanes.submit("journal", self._remember)

    def _remember(self) -> None:
        entries = [entry for entry in self._journal.state.retained() if entry.id not in self._manifests]
        try:
            found = self._read(entries)
        except StorageError as error:
            log.warning("could not load the index of uploaded objects, they may be uploaded again: %s", error.message)
            self._due = self._clock.monotonic() + _TRY_AGAIN_AFTER_S
            return
        for entry, manifest in zip(entries, found, strict=True):
            if manifest is None:
                continue
            self._manifests.add(entry.id, manifest)
            if entry.id not in self._journal.state.corrupt:
                self._blobs.load_manifest(manifest)
        self._done()

    def _read(self, entries: Sequence[CheckpointCompleted]) -> list[Manifest | None]:
        """The newest first, alone: when it cannot be read, the others are not tried."""
        newest_first = sorted(entries, key=lambda entry: -entry.id)
        manifests = {entry.id: self._load(entry) for entry in newest_first[:1]}
        others = newest_first[1:]
        if self._readers == 1:
            manifests |= {entry.id: self._load(entry) for entry in others}
        elif others:
            with ThreadPoolExecutor(self._readers) as pool:
                manifests |= zip((entry.id for entry in others), pool.map(self._load, others), strict=True)
        return [manifests[entry.id] for entry in entries]

    def _load(self, entry: CheckpointCompleted) -> Manifest | None:
        """None when it is damaged, or written by a newer version: then its objects stay unknown."""
        try:
            return self._manifests.shared(load_manifest(self._store, entry))
        except (Corrupt, NewerFormat):
            return None
