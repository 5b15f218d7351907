"""Repairs a damaged or missing object, if the same bytes can still be found.

It searches the work directories of this machine, other objects of the home that hold the same file, and, for a pack,
the pack itself. It writes the object again at its own key. That is safe at any time and from any process: the key
contains the digest of the bytes, only bytes with that digest are written, and a reader sees the old bytes or the new
ones, never a mixture.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from blake3 import blake3

from holdfast.checkpoint.manifest import Manifest, ManifestFile, blob_key, digest_of, encode_manifest, manifest_key
from holdfast.errors import Corrupt, ObjectNotFound
from holdfast.identifiers import Digest
from holdfast.repository.inventory import StoredFiles
from holdfast.repository.names import is_blob_or_pack
from holdfast.repository.proven import ProvenPieces
from holdfast.storage.interface import ObjectStore


@dataclass(frozen=True)
class LocalFiles:
    """A directory that may hold files of checkpoints under their own paths."""

    location: str
    pieces: Callable[[str], Iterator[bytes]]
    """The bytes of the file at a relative path; raises `OSError` when there is none."""


@dataclass(frozen=True)
class _Candidate:
    """Bytes that may be the right ones."""

    where: str
    pieces: Callable[[], Iterator[bytes]]


class Repair:
    def __init__(
        self, store: ObjectStore, objects: Mapping[str, StoredFiles], directories: Sequence[LocalFiles] = ()
    ) -> None:
        """`objects` are all objects that may be read, the damaged ones included."""
        self._store = store
        self._directories = directories
        self._places: dict[Digest, list[tuple[str, ManifestFile]]] = {}
        for key, stored in objects.items():
            for file in stored.files:
                self._places.setdefault(file.digest, []).append((key, file))

    def put_right(self, damaged: StoredFiles) -> str | None:
        """Where the bytes of the repaired object were found, None when they were not found.

        Raises a `StorageError` when the home cannot be read or written.
        """
        where = self._from_twin(damaged)
        if where is None:
            where = self._rebuilt_pack(damaged) if damaged.is_pack else self._from_file(damaged)
        return where if where is not None and self._lies_right(damaged) else None

    def put_manifest_right(self, manifest: Manifest, digest: Digest) -> bool:
        """Write a manifest again from memory. False when it does not encode to the same bytes any more."""
        data = encode_manifest(manifest)
        if digest_of(data) != digest:
            return False
        self._store.upload(manifest_key(digest), [data])
        return True

    def _lies_right(self, stored: StoredFiles) -> bool:
        return _digest(lambda: self._store.stream(stored.key)) == stored.digest

    def _from_twin(self, damaged: StoredFiles) -> str | None:
        """The same object, uploaded by another run."""
        same_name = damaged.key.rpartition(".")[0] + "."
        for item in self._store.list(same_name):
            twin = _Candidate(item.key, lambda key=item.key: self._store.stream(key))  # type: ignore[misc]
            if item.key != damaged.key and is_blob_or_pack(item.key) and self._taken(damaged.key, damaged.digest, twin):
                return twin.where
        return None

    def _from_file(self, damaged: StoredFiles) -> str | None:
        for candidate in self._candidates(damaged.files[0], damaged.key):
            if self._taken(damaged.key, damaged.digest, candidate):
                return candidate.where
        return None

    def _taken(self, key: str, digest: Digest, candidate: _Candidate) -> bool:
        """Reads twice: once to check the digest, once to upload. The upload proves the bytes again."""
        if _digest(candidate.pieces) != digest:
            return False
        try:
            self._store.upload(key, ProvenPieces(candidate.where, digest, candidate.pieces))
        except Corrupt:
            return False
        return True

    def _rebuilt_pack(self, damaged: StoredFiles) -> str | None:
        """The pack with every wrong file replaced. Parts that no manifest names must be intact."""
        try:
            data = bytearray(self._store.get(damaged.key))
        except ObjectNotFound:
            data = bytearray()
        data.extend(bytes(max(0, damaged.size - len(data))))
        places = []
        for file in damaged.files:
            part = slice(file.offset, file.offset + file.size)
            if digest_of(bytes(data[part])) == file.digest:
                continue
            found = self._content(file, damaged.key)
            if found is None:
                return None
            places.append(found[0])
            data[part] = found[1]
        if digest_of(bytes(data)) != damaged.digest:
            return None
        self._store.upload(damaged.key, [bytes(data)])
        return ", ".join(dict.fromkeys(places))

    def _content(self, file: ManifestFile, damaged_key: str) -> tuple[str, bytes] | None:
        for candidate in self._candidates(file, damaged_key):
            data = _joined(candidate)
            if data is not None and digest_of(data) == file.digest:
                return candidate.where, data
        return None

    def _candidates(self, file: ManifestFile, damaged_key: str) -> Iterator[_Candidate]:
        for directory in self._directories:
            where = f"{directory.location}/{file.path}"
            yield _Candidate(where, lambda directory=directory: directory.pieces(file.path))  # type: ignore[misc]
        for key, other in self._places.get(file.digest, ()):
            if key != damaged_key:
                yield _Candidate(key, lambda other=other: self._stored(other))  # type: ignore[misc]
        if file.pack is not None:
            # The file may also be a blob that no manifest names any more, so it is not in the inventory.
            for item in self._store.list(blob_key(file.digest, file.epoch).rpartition(".")[0] + "."):
                if not is_blob_or_pack(item.key):
                    continue
                yield _Candidate(item.key, lambda key=item.key: self._store.stream(key))  # type: ignore[misc]

    def _stored(self, file: ManifestFile) -> Iterator[bytes]:
        if file.pack is None:
            return self._store.stream(file.key)
        return iter([self._store.read(file.key, file.offset, file.size)])


def _digest(pieces: Callable[[], Iterator[bytes]]) -> Digest | None:
    hasher = blake3()
    try:
        for piece in pieces():
            hasher.update(piece)
    except (OSError, ObjectNotFound):
        return None
    return Digest(hasher.hexdigest())


def _joined(candidate: _Candidate) -> bytes | None:
    try:
        return b"".join(candidate.pieces())
    except (OSError, ObjectNotFound):
        return None
