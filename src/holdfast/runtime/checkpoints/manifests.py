"""The manifests that a run has read or written. Lanes read and change them concurrently."""

import threading
from collections.abc import Iterator, Mapping

from holdfast.checkpoint.manifest import Manifest
from holdfast.identifiers import CheckpointId


class Manifests(Mapping[CheckpointId, Manifest]):
    """The known manifests of completed checkpoints that are not retired.

    Each change builds a new dictionary and publishes it by one assignment, so an iteration never sees a change.
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
        """The current dictionary."""
        return self._by_id

    def add(self, id: CheckpointId, manifest: Manifest) -> None:
        with self._changing:
            self._by_id = {**self._by_id, id: manifest}

    def drop(self, id: CheckpointId) -> Manifest | None:
        """The dropped manifest, None when it was unknown."""
        with self._changing:
            dropped = self._by_id.get(id)
            self._by_id = {kept: manifest for kept, manifest in self._by_id.items() if kept != id}
            return dropped
