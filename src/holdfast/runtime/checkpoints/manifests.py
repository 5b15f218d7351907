"""The manifests that a run has read or written. Lanes change and read them at the same time."""

import threading
from collections.abc import Iterator, Mapping

from holdfast.checkpoint.manifest import Manifest
from holdfast.identifiers import CheckpointId


class Manifests(Mapping[CheckpointId, Manifest]):
    """Of every completed checkpoint that is not retired, as far as they are known.

    A change makes another dictionary, published by one assignment: who iterates has one that nobody changes.
    """

    def __init__(self) -> None:
        self._by_id: dict[CheckpointId, Manifest] = {}
        self._changing = threading.Lock()

    def __getitem__(self, id: CheckpointId) -> Manifest:
        return self._by_id[id]

    def __iter__(self) -> Iterator[CheckpointId]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> Mapping[CheckpointId, Manifest]:
        """As they are now."""
        return self._by_id

    def add(self, id: CheckpointId, manifest: Manifest) -> None:
        with self._changing:
            self._by_id = {**self._by_id, id: manifest}

    def drop(self, id: CheckpointId) -> Manifest | None:
        """What it was, None when it was not known."""
        with self._changing:
            dropped = self._by_id.get(id)
            self._by_id = {kept: manifest for kept, manifest in self._by_id.items() if kept != id}
            return dropped
