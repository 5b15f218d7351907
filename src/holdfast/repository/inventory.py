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


def _stored(key: str, files: tuple[ManifestFile, ...], checkpoints: tuple[CheckpointId, ...]) -> StoredFiles:
    return StoredFiles(key, files[0].pack or files[0].digest, files, checkpoints)
