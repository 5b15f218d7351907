"""Content-addressed upload: bytes that the home already holds are not uploaded again.

Two indexes, both in memory and both safe to lose:

    content   digest → the object in the home that holds these bytes
    identity  path, size, mtime and inode of a file → its digest, so that an unchanged file is not even read

Invariants
- An entry of the content index is made only after its object is known to be in the home.
- An object that this run uploaded or referred to is live while any checkpoint that was in progress at that time still
  is. Afterwards a completed manifest names it, or nothing refers to it. A live object is never reserved for deletion.
- No object is uploaded to a key that is reserved for deletion. No key is reserved while an upload to it is in progress,
  even if the checkpoint was aborted long ago: the end of the upload would add a deleted object to the index.
- The run does not know which keys other processes upload to before they answer. So it ignores an answer for a key that
  was reserved for deletion at any time since they were asked (`RemoteUploads`). A task that was cancelled, or whose
  answer was lost, leaves objects that no manifest names: harmless, reused by any upload of the same bytes, and deleted
  by the sweep of the next run.
- Checkpoints that begin after a pack was marked for repacking do not refer to it. They write the files that they need
  into a new pack, from the work directory. Older checkpoints name the old pack until they are deleted.

Called from many threads without locks: each index changes by single dict and set operations, and the order of the steps
in `find`, `_sent` and `reserve_for_deletion` makes them safe against each other. Two threads may upload the same bytes
at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from holdfast.checkpoint.layout import WorkFile
from holdfast.checkpoint.manifest import Manifest, ManifestFile, blob_key, digest_of, pack_key
from holdfast.errors import ObjectNotFound, StorageError, StorageNotThere, is_refusal
from holdfast.identifiers import CheckpointId, Digest, FencingEpoch
from holdfast.storage.interface import StoredAt, Uploads
from holdfast.storage.unique import unique_name

PACKED_BELOW = 1 << 20
"""Files smaller than this share packs: an object store charges and waits per object."""
PACK_TARGET = 16 << 20
PACK_SETTLED_AFTER = 3
"""After this many checkpoints a pack may count as sparse. Many files of a new pack are soon not needed any more."""


class BeingDeleted(Exception):
    """The upload would go to a key that is reserved for deletion. A retry succeeds once the deletion is done."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file to be packed, with its bytes."""

    path: str
    digest: Digest
    data: bytes


@dataclass(frozen=True, slots=True)
class _Location:
    epoch: FencingEpoch
    pack: Digest | None = None
    offset: int = 0
    version: str = ""

    @staticmethod
    def of(file: ManifestFile) -> _Location:
        return _Location(file.epoch, file.pack, file.offset, file.version)

    def file(self, path: str, size: int, digest: Digest) -> ManifestFile:
        return ManifestFile(path, size, digest, self.epoch, self.pack, self.offset, self.version)

    def key(self, digest: Digest) -> str:
        return blob_key(digest, self.epoch) if self.pack is None else pack_key(self.pack, self.epoch)


@dataclass(eq=False)
class RemoteUploads:
    """Uploads for this run by other processes, from the request until their answer is merged."""

    damaged: frozenset[str]
    """Keys of damaged objects: they are uploaded although they exist."""
    reserved: set[str]
    """Keys that were reserved for deletion at any time since the request."""


@dataclass(frozen=True, slots=True)
class _KnownPack:
    size: int
    known_since: int
    """How many checkpoints had completed."""


class Blobs:
    """The objects of one job as one run knows them."""

    def __init__(self, store: Uploads, epoch: FencingEpoch) -> None:
        """`epoch` becomes part of every key."""
        self._store = store
        self._epoch = epoch
        self._content: dict[Digest, _Location] = {}
        self._identity: dict[str, tuple[WorkFile, Digest]] = {}
        self._live: dict[str, int] = {}
        """Key → how many checkpoints had completed when it was last uploaded or referred to."""
        self._being_sent: dict[object, str] = {}
        """One item per upload that has not returned → its key."""
        self._under_way: dict[object, int] = {}
        """Checkpoint in progress → how many checkpoints had completed when it began."""
        self._reserved: set[str] = set()
        self._unclaimed: set[str] = set()
        """Keys that this run uploads to and that no completed checkpoint has named."""
        self._remote: list[RemoteUploads] = []
        self._damaged: set[str] = set()
        self._newest_checkpoint = CheckpointId(0)
        self._newest: dict[str, Digest] = {}
        """Path → digest, of the newest completed checkpoint."""
        self._packs: dict[str, _KnownPack] = {}
        self._to_repack: set[str] = set()
        self._completed = 0

    @property
    def epoch(self) -> FencingEpoch:
        return self._epoch

    # --- the index ---

    def begin(self, checkpoint: object) -> None:
        """Objects that are uploaded or referred to from now on stay live until `end`."""
        self._under_way[checkpoint] = self._completed

    def end(self, checkpoint: object) -> None:
        """The checkpoint is in the journal, or never will be. Idempotent."""
        self._under_way.pop(checkpoint, None)

    def load_manifest(self, manifest: Manifest) -> None:
        """Index a checkpoint of an earlier run that is not retired. Called on the lane that retires."""
        for file in manifest.files():
            if file.key not in self._to_repack:
                self._content.setdefault(file.digest, _Location.of(file))

    def commit_manifest(self, manifest: Manifest) -> None:
        """Index the checkpoint that this run has just completed.

        Called on the lane that appends to the journal, so no other checkpoint is between its last check and its entry.
        """
        self._completed += 1
        paths = set()
        claimed = set()
        for file in manifest.files():
            if file.key not in self._to_repack:
                self._content[file.digest] = _Location.of(file)
            paths.add(file.path)
            claimed.add(file.key)
        if manifest.checkpoint >= self._newest_checkpoint:
            self._newest_checkpoint = manifest.checkpoint
            self._newest = {file.path: file.digest for file in manifest.files()}
        self._unclaimed -= claimed
        for path in [path for path in list(self._identity) if path not in paths]:
            self._identity.pop(path, None)
        oldest = min(self._under_way.copy().values(), default=self._completed)
        for key in [key for key, completed in list(self._live.items()) if completed < oldest]:
            self._live.pop(key, None)

    def digest_of_unchanged(self, file: WorkFile) -> Digest | None:
        """The digest of exactly this file, if it was read before."""
        known = self._identity.get(file.path)
        return known[1] if known is not None and known[0] == file else None

    def is_new(self, file: WorkFile) -> bool:
        """Whether exactly this file was never read before."""
        return self.digest_of_unchanged(file) is None

    def holds(self, file: WorkFile) -> bool:
        """Whether exactly this file was read before and its bytes are in the home: it need not be read again."""
        digest = self.digest_of_unchanged(file)
        return digest is not None and digest in self._content

    def recognise(self, file: WorkFile, digest: Digest) -> None:
        self._identity[file.path] = (file, digest)

    def find(self, path: str, size: int, digest: Digest) -> ManifestFile | None:
        """Where the home holds these bytes, None when it does not. The object is live from now on."""
        location = self._content.get(digest)
        if location is None:
            return None
        self._live[location.key(digest)] = self._completed
        # The second lookup comes after the object became live. If `reserve_for_deletion` runs in between, one of the
        # two calls sees the other.
        return location.file(path, size, digest) if self._content.get(digest) == location else None

    def locate(self, file: WorkFile) -> ManifestFile | None:
        """Where the home holds exactly this file, if that is known without reading it."""
        digest = self.digest_of_unchanged(file)
        return None if digest is None else self.find(file.path, file.size, digest)

    def expect(self, file: WorkFile) -> ManifestFile | None:
        """Where the home holds the file, if its bytes are those of the same path in the newest checkpoint."""
        digest = self._newest.get(file.path)
        return None if digest is None else self.find(file.path, file.size, digest)

    def unclaimed_of(self, manifest: Manifest) -> frozenset[str]:
        """Keys in the manifest that this run has uploaded to and that no completed checkpoint names."""
        return frozenset(file.key for file in manifest.files()) & self._unclaimed

    def mark_damaged(self, keys: Collection[str]) -> None:
        """Upload the needed files of these objects again, although the objects exist."""
        self._damaged |= frozenset(keys)
        self.forget(keys)

    def forget(self, keys: Collection[str]) -> None:
        """Do not refer to these objects any more; needed files are uploaded again."""
        if not keys:
            return
        for digest, location in list(self._content.items()):
            if location.key(digest) in keys:
                self._content.pop(digest, None)

    # --- uploading ---

    def upload_blob(
        self, path: str, size: int, digest: Digest, chunks: Iterable[bytes], inside: StoredAt | None = None
    ) -> ManifestFile:
        """One object for one file. `chunks` must raise if its bytes do not have `digest`. `inside`: an object whose
        bytes were found to have that digest; they are copied inside the store where it can do that."""
        location = _Location(self._epoch)
        with self._sent(location.key(digest), chunks, inside) as version:
            location = _Location(self._epoch, version=version)
            self._content[digest] = location
        return location.file(path, size, digest)

    def within_reach(self, source: StoredAt | None) -> StoredAt | None:
        """The source, if the home is in the same store."""
        home = self._store.stored_at("blobs", "")
        return source if source is not None and home is not None and home.bucket == source.bucket else None

    def upload_pack(self, files: Sequence[SmallFile]) -> tuple[ManifestFile, ...]:
        """One object for many files: their concatenated bytes, nothing else."""
        data = b"".join(file.data for file in files)
        pack = digest_of(data)
        key = pack_key(pack, self._epoch)
        packed = []
        with self._sent(key, [data]):
            self._packs[key] = _KnownPack(len(data), self._completed)
            self._to_repack.discard(key)
            offset = 0
            for file in files:
                location = _Location(self._epoch, pack, offset)
                self._content[file.digest] = location
                packed.append(location.file(file.path, len(file.data), file.digest))
                offset += len(file.data)
        return tuple(packed)

    @contextmanager
    def _sent(self, key: str, chunks: Iterable[bytes], inside: StoredAt | None = None) -> Iterator[str]:
        """Upload, then run the block, which adds the upload to the index. Until it ends the key cannot be reserved for
        deletion. Yields the version of the object where it is known."""
        upload = object()
        self._being_sent[upload] = key
        try:
            self._live[key] = self._completed
            if key in self._reserved:
                raise BeingDeleted(key)
            self._unclaimed.add(key)
            version = self._copied(inside, key) if inside is not None else None
            if version is None:
                self._store.upload(key, chunks)
            self._damaged.discard(key)
            yield version or ""
        finally:
            del self._being_sent[upload]

    def _copied(self, inside: StoredAt, key: str) -> str | None:
        """None where the store cannot, or refuses to: whoever may read and write may still upload. S3 copies nothing
        above 5 GiB."""
        try:
            return self._store.copy_inside(inside, key, self._unused_key())
        except StorageError as error:
            if is_refusal(error) or isinstance(error, ObjectNotFound | StorageNotThere):
                return None
            raise

    def _unused_key(self) -> str:
        """What is left behind there is no checkpoint's, and deleted by the sweep of the next run."""
        return blob_key(digest_of(unique_name().encode()), self._epoch)

    # --- uploads by other processes ---

    @contextmanager
    def remote_uploads(self) -> Iterator[RemoteUploads]:
        """Other processes upload inside the block; `merge_remote` adds their answer."""
        remote = RemoteUploads(frozenset(self._damaged.copy()), set())
        self._remote.append(remote)
        remote.reserved |= self._reserved.copy()
        try:
            yield remote
        finally:
            self._remote.remove(remote)

    def add_known(self, files: Iterable[ManifestFile]) -> None:
        """The home holds these."""
        for file in files:
            self._content[file.digest] = _Location.of(file)

    def merge_remote(self, remote: RemoteUploads, found: Sequence[tuple[WorkFile, ManifestFile]]) -> frozenset[str]:
        """Add what other processes found or uploaded. Returns the refused keys: they were reserved for deletion.

        Each key becomes live before its reservation is checked. `reserve_for_deletion` does the two steps in the other
        order, so one of the two sees the other.
        """
        refused = set()
        for file, at in found:
            location = _Location.of(at)
            self._live[at.key] = self._completed
            if at.key in self._reserved or at.key in remote.reserved:
                refused.add(at.key)
                continue
            self.recognise(file, at.digest)
            if self._content.get(at.digest) == location:
                continue
            if at.epoch == self._epoch:
                self._unclaimed.add(at.key)
            if at.key not in self._to_repack:
                self._content[at.digest] = location
            self._damaged -= remote.damaged & {at.key}
        own = [at for _, at in found if at.epoch == self._epoch and at.key not in refused]
        for key, size in _pack_sizes(own).items():
            self._packs.setdefault(key, _KnownPack(size, self._completed))
        return frozenset(refused)

    # --- packs of which little is needed ---

    def add_pack(self, key: str, size: int) -> None:
        """A pack of an earlier run, found in the home."""
        self._packs.setdefault(key, _KnownPack(size, 0))

    def settled_packs(self) -> dict[str, int]:
        """Key → size of packs that are old enough to count as sparse."""
        latest = self._completed - PACK_SETTLED_AFTER
        return {key: pack.size for key, pack in list(self._packs.items()) if pack.known_since <= latest}

    def mark_for_repack(self, packs: frozenset[str]) -> None:
        """Checkpoints that begin from now on upload the files of these packs again."""
        self._to_repack |= packs
        self.forget(packs)

    # --- deleting ---

    def unclaimed(self) -> frozenset[str]:
        """Objects of this run that no manifest names, although a checkpoint that could have used them has completed
        since.

        Failed checkpoints uploaded them and no later checkpoint used them.
        """
        return frozenset(self._unclaimed.copy()) - self.live_keys()

    def live_keys(self) -> frozenset[str]:
        """Objects that this run uploads, uploaded or refers to and that may not be in any manifest yet.

        A sweep must call this before it reads which checkpoints are retained. Otherwise it misses one that completes in
        between.
        """
        return frozenset([*list(self._being_sent.values()), *list(self._live)])

    def reserve_for_deletion(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of `keys`, which no retained manifest may name, that may be deleted now.

        From now on they are neither referred to nor written, until `deleted` is called.
        """
        candidates = frozenset(keys)
        self._reserved |= candidates
        known = self._known_in(candidates)
        for digest, _ in known:
            self._content.pop(digest, None)
        spared = candidates & self.live_keys()
        for digest, location in known:
            if location.key(digest) in spared:
                self._content.setdefault(digest, location)
        self._reserved -= spared
        reserved = candidates - spared
        for remote in self._remote.copy():
            remote.reserved |= reserved
        return reserved

    def _known_in(self, keys: frozenset[str]) -> list[tuple[Digest, _Location]]:
        """What the index has of these objects. The key of a blob has the digest; only packs need a look at all."""
        digests = [Digest(key.rpartition("/")[2].partition(".")[0]) for key in keys if not _is_pack(key)]
        found = [(digest, at) for digest in digests if (at := self._content.get(digest)) and at.key(digest) in keys]
        if any(_is_pack(key) for key in keys):
            found += [(digest, at) for digest, at in list(self._content.items()) if at.pack and at.key(digest) in keys]
        return found

    def deleted(self, keys: Iterable[str]) -> None:
        """The keys are gone, or their deletion was refused. Must not be called while a deletion may still take
        effect."""
        self._reserved -= frozenset(keys)

    def gone(self, key: str) -> None:
        """The object has been deleted. Called before `deleted`, while nothing can be uploaded to the key."""
        self._unclaimed.discard(key)
        self._to_repack.discard(key)
        self._packs.pop(key, None)


def _is_pack(key: str) -> bool:
    return key.startswith("packs/")


def _pack_sizes(files: Iterable[ManifestFile]) -> dict[str, int]:
    """Key → size of each pack, if `files` contains every file of the pack."""
    sizes: dict[str, int] = {}
    for file in files:
        if file.pack is not None:
            sizes[file.key] = max(sizes.get(file.key, 0), file.offset + file.size)
    return sizes
