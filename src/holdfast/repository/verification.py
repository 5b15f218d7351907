"""Reads back every object of a checkpoint and proves that its bytes match its name and the manifest."""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from blake3 import blake3

from holdfast.checkpoint.manifest import Manifest, ManifestFile, decode_manifest, digest_of, manifest_key
from holdfast.errors import Corrupt, NewerFormat, ObjectNotFound, StorageError, StorageUnreachable
from holdfast.identifiers import CheckpointId, Digest
from holdfast.repository.absence import contradiction, is_listed
from holdfast.storage.interface import ObjectStore

MISSING = "missing"
_SILENT = 4
"""After this many failed reads without a successful one, the store itself does not answer."""

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class CorruptObject:
    """`path` is the object's key, followed by the file's path where only a part of the object is wrong."""

    checkpoint: CheckpointId | None
    """None for an entry of the journal, or the plan of a batch."""
    path: str
    expected: str
    found: str

    @property
    def key(self) -> str:
        return self.path.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class UnreadableObject:
    """Neither right nor wrong: it could not be read."""

    checkpoint: CheckpointId
    path: str
    why: StorageError | NewerFormat


@dataclass(frozen=True, slots=True)
class VerificationReport:
    checked: int
    """Objects that were read, without those that an earlier verification with the same cache had read."""
    bytes: int
    corrupt: tuple[CorruptObject, ...]
    unreadable: tuple[UnreadableObject, ...] = ()

    @property
    def sound(self) -> bool:
        """Every byte was read and is right."""
        return not self.corrupt and not self.unreadable


@dataclass
class Verified:
    """A cache of results, shared by the verifications of several checkpoints."""

    objects: dict[str, str] = field(default_factory=dict)
    """Key → the digest found, or "missing"."""
    parts: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """Key, offset and size in a pack → digest."""
    unreadable: dict[str, StorageError] = field(default_factory=dict)


def verify(
    store: ObjectStore,
    checkpoint: CheckpointId,
    manifest_digest: Digest,
    progress: Progress | None = None,
    *,
    verified: Verified | None = None,
    only: Collection[str] | None = None,
    parallelism: int = 8,
    go_on: bool = False,
) -> VerificationReport:
    """Reports damage and does not raise for it. Raises `StorageError` when an object cannot be read. With `go_on` it
    reports that too and continues with the others, unless the store does not answer at all.

    `progress` is called with the bytes read, from several threads. `only` limits it to these blobs and packs; the
    manifest is always read.
    """
    run = _Verification(store, checkpoint, verified or Verified(), progress or (lambda size: None), go_on)
    manifest = run.manifest(manifest_digest)
    if manifest is not None:
        by_key: dict[str, list[ManifestFile]] = {}
        for file in manifest.files():
            if only is None or file.key in only:
                by_key.setdefault(file.key, []).append(file)
        run.check_all([*by_key.values()], parallelism)
    return VerificationReport(sum(run.checked), sum(run.read), tuple(run.corrupt), tuple(run.unreadable))


def digest_in(store: ObjectStore, key: str, expected: Digest) -> str:
    """The digest of the object at `key`, or "missing". Reads again when it is not the expected one, and asks a listing
    when it is missing: raises `StorageUnreachable` when that shows it."""
    found = _digest_at(store, key)
    if found != expected:
        found = _digest_at(store, key)
    if found == MISSING:
        _require_unlisted(store, key)
    return found


def _require_unlisted(store: ObjectStore, key: str) -> None:
    if is_listed(store, key):
        raise contradiction(store, key)


def _digest_at(store: ObjectStore, key: str) -> str:
    hasher = blake3()
    try:
        for chunk in store.stream(key):
            hasher.update(chunk)
    except ObjectNotFound:
        return MISSING
    return hasher.hexdigest()


class _Verification:
    def __init__(
        self, store: ObjectStore, checkpoint: CheckpointId, verified: Verified, progress: Progress, go_on: bool
    ) -> None:
        self._store = store
        self._checkpoint = checkpoint
        self._verified = verified
        self._progress = progress
        self._go_on = go_on
        # Lists, since appending from many threads loses nothing.
        self.checked: list[int] = []
        self.read: list[int] = []
        self.corrupt: list[CorruptObject] = []
        self.unreadable: list[UnreadableObject] = []

    def manifest(self, digest: Digest) -> Manifest | None:
        key = manifest_key(digest)
        self.checked.append(1)
        for again in (True, False):
            try:
                data = self._store.get(key)
                self._count(len(data))
                return decode_manifest(data, digest)
            except ObjectNotFound:
                wrong = MISSING
            except Corrupt as error:
                wrong = found if (found := digest_of(data)) != digest else error.message
            except NewerFormat as error:
                if not self._go_on:
                    raise
                self.unreadable.append(UnreadableObject(self._checkpoint, key, error))
                return None
            except StorageError as error:
                self._not_read(key, error)
                return None
            if not again and self._is_proved(key, wrong):
                self.corrupt.append(CorruptObject(self._checkpoint, key, digest, wrong))
        return None

    def _is_proved(self, key: str, wrong: str) -> bool:
        try:
            if wrong == MISSING:
                _require_unlisted(self._store, key)
        except StorageError as error:
            self._not_read(key, error)
            return False
        return True

    def check_all(self, objects: Sequence[Sequence[ManifestFile]], parallelism: int) -> None:
        if parallelism == 1:
            for files in objects:
                self.corrupt.extend(self.check(files))
            return
        pool = ThreadPoolExecutor(parallelism, thread_name_prefix="verify")
        try:
            for damaged in pool.map(self.check, objects):
                self.corrupt.extend(damaged)
        finally:
            pool.shutdown(cancel_futures=True)

    def check(self, files: Sequence[ManifestFile]) -> list[CorruptObject]:
        """One object, and the parts of it that these files name."""
        key = files[0].key
        expected = files[0].pack or files[0].digest
        parts = {(file.offset, file.size) for file in files if file.pack is not None}
        try:
            if key not in self._verified.objects:
                self._read_object(key, expected, parts)
            found = self._verified.objects[key]
            if found != expected:
                return [CorruptObject(self._checkpoint, key, expected, found)]
            return [*self._wrong_parts(key, files)]
        except StorageError as error:
            self._not_read(key, error)
            return []

    def _read_object(self, key: str, expected: Digest, parts: set[tuple[int, int]]) -> None:
        if key in self._verified.unreadable:
            raise self._verified.unreadable[key]
        self.checked.append(1)
        self._read_whole(key, parts)
        if self._verified.objects[key] != expected:
            self._read_whole(key, parts)  # a wrong read does not prove wrong bytes in the store
        if self._verified.objects[key] == MISSING:
            del self._verified.objects[key]
            _require_unlisted(self._store, key)
            self._verified.objects[key] = MISSING

    def _not_read(self, key: str, error: StorageError) -> None:
        """Continue with the others, unless no read succeeds: then each would wait for its timeout."""
        known = self._verified.unreadable.setdefault(key, error)
        silent = isinstance(error, StorageUnreachable) and len(self._verified.unreadable) >= _SILENT
        if not self._go_on or (silent and not self.read and not self._verified.objects):
            raise error
        self.unreadable.append(UnreadableObject(self._checkpoint, key, known))

    def _wrong_parts(self, key: str, files: Sequence[ManifestFile]) -> Iterator[CorruptObject]:
        for file in files:
            if file.pack is None:
                continue
            part = (key, file.offset, file.size)
            if part not in self._verified.parts:
                self._verified.parts[part] = self._digest_of_part(*part)
            found = self._verified.parts[part]
            if found != file.digest:
                yield CorruptObject(self._checkpoint, f"{key} {file.path}", file.digest, found)

    def _read_whole(self, key: str, parts: set[tuple[int, int]]) -> None:
        """A pack is held in memory (at most a few MiB) to check its parts; a blob is streamed."""
        hasher = blake3()
        kept = bytearray()
        try:
            for chunk in self._store.stream(key):
                hasher.update(chunk)
                self._count(len(chunk))
                if parts:
                    kept += chunk
        except ObjectNotFound:
            self._verified.objects[key] = MISSING
            return
        for offset, size in parts:
            self._verified.parts[key, offset, size] = digest_of(bytes(kept[offset : offset + size]))
        self._verified.objects[key] = hasher.hexdigest()

    def _digest_of_part(self, key: str, offset: int, size: int) -> str:
        try:
            data = self._store.read(key, offset, size)
        except ObjectNotFound:
            _require_unlisted(self._store, key)
            return MISSING
        self._count(len(data))
        return digest_of(data)

    def _count(self, size: int) -> None:
        self.read.append(size)
        self._progress(size)
