"""The manifests that a run has read or written. Lanes read and change them concurrently."""

import threading
from collections.abc import Iterator, Mapping

import msgspec

from holdfast.checkpoint.manifest import Manifest, ManifestFile
from holdfast.identifiers import CheckpointId


class Manifests(Mapping[CheckpointId, Manifest]):
    """The known manifests of completed checkpoints that are not retired.

    Each change builds a new dictionary and publishes it by one assignment, so an iteration never sees a change.

    One checkpoint names almost the same files as the next: equal records are one object, so that memory grows with the
    files that differ, not with the checkpoints.
    """

    def __init__(self) -> None:
        self._by_id: dict[CheckpointId, Manifest] = {}
        self._records: dict[ManifestFile, ManifestFile] = {}
        self._dropped = 0
        """Since records that no manifest has were last forgotten."""
        self._changing = threading.Lock()

    def __getitem__(self, id: CheckpointId) -> Manifest:
        return self._by_id[id]

    def __iter__(self) -> Iterator[CheckpointId]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> Mapping[CheckpointId, Manifest]:
        """The current dictionary."""
        return self._by_id

    def shared(self, manifest: Manifest) -> Manifest:
        """The same manifest, with the records that others have already."""
        records = self._records
        replace = msgspec.structs.replace
        shards = (
            replace(shard, files=tuple(records.setdefault(file, file) for file in shard.files))
            for shard in manifest.shards
        )
        return replace(manifest, shards=tuple(shards))

    def add(self, id: CheckpointId, manifest: Manifest) -> None:
        with self._changing:
            self._by_id = {**self._by_id, id: self.shared(manifest)}

    def drop(self, id: CheckpointId) -> Manifest | None:
        """The dropped manifest, None when it was unknown."""
        with self._changing:
            dropped = self._by_id.get(id)
            self._by_id = {kept: manifest for kept, manifest in self._by_id.items() if kept != id}
            self._dropped += 1
            if self._dropped > len(self._by_id):
                self._forget_unused()
            return dropped

    def _forget_unused(self) -> None:
        """As seldom as keeps its cost below that of reading the manifests."""
        self._dropped = 0
        self._records = {file: file for manifest in self._by_id.values() for file in manifest.files()}
