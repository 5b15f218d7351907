"""The objects that checkpoints consist of, and what each must contain. Pure: computed from manifests."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.checkpoint.manifest import Manifest, ManifestFile
from holdfast.identifiers import CheckpointId, Digest


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """One blob or pack."""

    key: str
    digest: Digest
    """Of the whole object."""
    files: tuple[ManifestFile, ...]
    """The files in it by the manifests, each place once. A pack may hold more, which no manifest names any more."""
    checkpoints: tuple[CheckpointId, ...]
    """Checkpoints that need it, oldest first."""

    @property
    def is_pack(self) -> bool:
        return self.files[0].pack is not None

    @property
    def size(self) -> int:
        """In bytes, of its known files."""
        return max(file.offset + file.size for file in self.files)


def objects_of(manifests: Mapping[CheckpointId, Manifest]) -> dict[str, StoredFiles]:
    """Every blob and pack that these checkpoints name, by key."""
    files: dict[str, dict[tuple[int, int, Digest], ManifestFile]] = {}
    needed_by: dict[str, list[CheckpointId]] = {}
    for id, manifest in sorted(manifests.items()):
        for file in manifest.files():
            files.setdefault(file.key, {})[file.offset, file.size, file.digest] = file
            checkpoints = needed_by.setdefault(file.key, [])
            if checkpoints[-1:] != [id]:
                checkpoints.append(id)
    return {key: _stored(key, tuple(parts.values()), tuple(needed_by[key])) for key, parts in files.items()}


class NamedKeys:
    """The keys that a changing set of manifests names, each once, however many name it."""

    def __init__(self) -> None:
        self._manifests: Mapping[CheckpointId, Manifest] = {}
        self._named_by: dict[str, int] = {}
        """How many of the manifests name the key."""

    def __contains__(self, key: str) -> bool:
        return key in self._named_by

    def follow(self, manifests: Mapping[CheckpointId, Manifest]) -> None:
        """From now on the keys are those of these manifests. Costs what has changed."""
        before, self._manifests = self._manifests, manifests
        if manifests is before:
            return
        for id in manifests.keys() - before.keys():
            for key in keys_in(manifests[id]):
                self._named_by[key] = self._named_by.get(key, 0) + 1
        for id in before.keys() - manifests.keys():
            for key in keys_in(before[id]):
                self._named_by[key] -= 1
                if not self._named_by[key]:
                    del self._named_by[key]


def keys_in(manifest: Manifest) -> frozenset[str]:
    return frozenset(file.key for file in manifest.files())


def _stored(key: str, files: tuple[ManifestFile, ...], checkpoints: tuple[CheckpointId, ...]) -> StoredFiles:
    return StoredFiles(key, files[0].pack or files[0].digest, files, checkpoints)
