"""Copies the objects of a checkpoint from one home to another. Keys stay the same; every byte is proved."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from holdfast.checkpoint.manifest import manifest_key
from holdfast.checkpoint.packed_plans import is_packed_plans
from holdfast.errors import Corrupt, ObjectNotFound
from holdfast.identifiers import Digest
from holdfast.job_log import log
from holdfast.repository.damage import load_manifest
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.inventory import StoredFiles, objects_of
from holdfast.repository.proven import ProvenPieces
from holdfast.repository.verification import digest_in
from holdfast.storage.interface import ObjectStore

T = TypeVar("T")

PARALLELISM = 8

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Load:
    """One checkpoint, and the objects of it that the target lacks."""

    entry: CheckpointCompleted
    missing: tuple[StoredFiles, ...]

    @property
    def bytes(self) -> int:
        return sum(stored.size for stored in self.missing)


class Transfer:
    def __init__(self, source: ObjectStore, target: ObjectStore) -> None:
        """Lists the target's objects. An object appears whole or not at all, so its size proves that it is there."""
        self._source = source
        self._target = target
        self._present = {item.key: item.size for prefix in ("blobs/", "packs/") for item in target.list(prefix)}

    def recheck(self, entry: CheckpointCompleted) -> None:
        """The checkpoint was found damaged in the target: send again every object whose bytes are wrong there."""
        manifest = self._read_twice(lambda: load_manifest(self._source, entry))
        for key, stored in objects_of({entry.id: manifest}).items():
            if key in self._present and digest_in(self._target, key, stored.digest) != stored.digest:
                del self._present[key]
        key = manifest_key(entry.manifest)
        if digest_in(self._target, key, entry.manifest) != entry.manifest:
            self._send_manifest(entry.manifest)

    def load(self, entry: CheckpointCompleted) -> Load:
        """What must be sent for this checkpoint. Raises `Corrupt` when its manifest is damaged."""
        manifest = self._read_twice(lambda: load_manifest(self._source, entry))
        objects = objects_of({entry.id: manifest}).values()
        missing = sorted((item for item in objects if not self._is_there(item)), key=lambda item: -item.size)
        return Load(entry, tuple(missing))

    def send(self, load: Load, progress: Progress) -> None:
        """Afterwards the target has every object of the checkpoint, but for plans that the source lacks, too: it can be
        restored without them. The manifest is sent last.

        Raises `Corrupt` when the source's bytes are missing or wrong; then no wrong object is in the target.
        """
        self._in_parallel(load.missing, progress)
        if not self._target.exists(manifest_key(load.entry.manifest)):
            self._send_manifest(load.entry.manifest)

    def _send_manifest(self, digest: Digest) -> None:
        self._upload(manifest_key(digest), digest)

    def _in_parallel(self, objects: Sequence[StoredFiles], progress: Progress) -> None:
        pool = ThreadPoolExecutor(PARALLELISM, thread_name_prefix="copy")
        try:
            for size in pool.map(self._send, objects):
                progress(size)
        finally:
            pool.shutdown(cancel_futures=True)

    def _send(self, stored: StoredFiles) -> int:
        try:
            self._read_twice(lambda: self._upload(stored.key, stored.digest))
        except Corrupt as error:
            if not all(is_packed_plans(file.path) for file in stored.files):
                raise
            log.warning("copied without the plans in %s, which only a recovery needs: %s", stored.key, error.message)
            return 0
        self._present[stored.key] = stored.size
        return stored.size

    def _upload(self, key: str, digest: Digest) -> None:
        self._target.upload(key, ProvenPieces(key, digest, lambda: self._source.stream(key)))

    def _is_there(self, stored: StoredFiles) -> bool:
        """A pack may be longer than one manifest shows."""
        size = self._present.get(stored.key, -1)
        return size >= stored.size if stored.is_pack else size == stored.size

    def _read_twice(self, read: Callable[[], T]) -> T:
        """A wrong read does not prove wrong bytes in the store."""
        try:
            return read()
        except (Corrupt, ObjectNotFound):
            pass
        try:
            return read()
        except ObjectNotFound as error:
            raise Corrupt(error.message) from error
