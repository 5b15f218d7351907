"""Content-addressed upload: what the home already holds is not sent again.

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
- Checkpoints that begin after a pack was marked for repacking do not refer to it. They write what they need of it into
  a new pack, out of the work directory. Older checkpoints name the old pack as long as they live.

Called from many threads without locks: each index changes by single dict and set operations, and the order of the steps
in `find`, `_sent` and `reserve_for_deletion` makes them safe against each other. Two threads may upload the same bytes
at once.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from holdfast.checkpoint.layout import WorkFile
from holdfast.checkpoint.manifest import Manifest, ManifestFile, blob_key, digest_of, pack_key
from holdfast.identifiers import CheckpointId, Digest, FencingEpoch
from holdfast.storage.interface import Uploads

PACKED_BELOW = 1 << 20
"""Files smaller than this share packs: an object store charges and waits per object."""
PACK_TARGET = 16 << 20
PACK_SETTLED_AFTER = 3
"""Checkpoints before it is asked how much of a pack is still needed: much of what is in a new one dies soon."""


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

    def file(self, path: str, size: int, digest: Digest) -> ManifestFile:
        return ManifestFile(path, size, digest, self.epoch, self.pack, self.offset)

    def key(self, digest: Digest) -> str:
        return blob_key(digest, self.epoch) if self.pack is None else pack_key(self.pack, self.epoch)


@dataclass(eq=False)
class RemoteUploads:
    """Other processes upload for this run: from the moment they are asked until their answer is merged."""

    damaged: frozenset[str]
    """Keys of damaged objects: they are uploaded although they exist."""
    reserved: set[str]
    """Keys that were reserved for deletion at any time since."""


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
        """One item per upload that has not come back → its key."""
        self._under_way: dict[object, int] = {}
        """Who copies → how many checkpoints had completed when it began."""
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
        """What is uploaded or referred to from here on stays live until `end`."""
        self._under_way[checkpoint] = self._completed

    def end(self, checkpoint: object) -> None:
        """The journal has the checkpoint, or never will. May be repeated."""
        self._under_way.pop(checkpoint, None)

    def load_manifest(self, manifest: Manifest) -> None:
        """Index a checkpoint of an earlier run that is not retired. Called on the lane that retires."""
        for file in manifest.files():
            if file.key not in self._to_repack:
                self._content.setdefault(file.digest, _Location(file.epoch, file.pack, file.offset))

    def commit_manifest(self, manifest: Manifest) -> None:
        """Index the checkpoint that this run has just completed.

        Called on the lane that appends to the journal, so no other checkpoint is between its last check and its entry.
        """
        self._completed += 1
        paths = set()
        claimed = set()
        for file in manifest.files():
            if file.key not in self._to_repack:
                self._content[file.digest] = _Location(file.epoch, file.pack, file.offset)
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
        """The digest of this very file, when it was read before."""
        known = self._identity.get(file.path)
        return known[1] if known is not None and known[0] == file else None

    def is_new(self, file: WorkFile) -> bool:
        """Whether this very file was never read before."""
        return self.digest_of_unchanged(file) is None

    def holds(self, file: WorkFile) -> bool:
        """Whether this very file was read before and its bytes are in the home: it need not be read again."""
        digest = self.digest_of_unchanged(file)
        return digest is not None and digest in self._content

    def recognise(self, file: WorkFile, digest: Digest) -> None:
        self._identity[file.path] = (file, digest)

    def find(self, path: str, size: int, digest: Digest) -> ManifestFile | None:
        """Where the home holds these bytes, None when it does not. What was found is live from here on."""
        location = self._content.get(digest)
        if location is None:
            return None
        self._live[location.key(digest)] = self._completed
        # Looked up again after it became live: if `reserve_for_deletion` came between, one of the two sees the other.
        return location.file(path, size, digest) if self._content.get(digest) == location else None

    def locate(self, file: WorkFile) -> ManifestFile | None:
        """Where the home holds this very file, when that is known without reading it."""
        digest = self.digest_of_unchanged(file)
        return None if digest is None else self.find(file.path, file.size, digest)

    def expect(self, file: WorkFile) -> ManifestFile | None:
        """Where the home holds it, if its bytes are those that the newest checkpoint has at its path."""
        digest = self._newest.get(file.path)
        return None if digest is None else self.find(file.path, file.size, digest)

    def unclaimed_of(self, manifest: Manifest) -> frozenset[str]:
        """Of what the manifest names, the keys that this run has uploaded to and no completed checkpoint has named."""
        return frozenset(file.key for file in manifest.files()) & self._unclaimed

    def mark_damaged(self, keys: Collection[str]) -> None:
        """Upload again what is needed of these objects, although they exist."""
        self._damaged |= frozenset(keys)
        self.forget(keys)

    def forget(self, keys: Collection[str]) -> None:
        """Do not refer to these objects any more; what is needed of them is uploaded anew."""
        for digest, location in list(self._content.items()):
            if location.key(digest) in keys:
                self._content.pop(digest, None)

    # --- uploading ---

    def upload_blob(self, path: str, size: int, digest: Digest, chunks: Iterable[bytes]) -> ManifestFile:
        """One object for one file. `chunks` must raise when its bytes turn out not to have `digest`."""
        location = _Location(self._epoch)
        with self._sent(location.key(digest), chunks):
            self._content[digest] = location
        return location.file(path, size, digest)

    def upload_pack(self, files: Sequence[SmallFile]) -> tuple[ManifestFile, ...]:
        """One object for many files: their bytes one after the other, nothing else."""
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
    def _sent(self, key: str, chunks: Iterable[bytes]) -> Iterator[None]:
        """Upload, and let the block make known what was uploaded, before the key may be reserved for deletion."""
        upload = object()
        self._being_sent[upload] = key
        try:
            self._live[key] = self._completed
            if key in self._reserved:
                raise BeingDeleted(key)
            self._unclaimed.add(key)
            self._store.upload(key, chunks)
            self._damaged.discard(key)
            yield
        finally:
            del self._being_sent[upload]

    # --- uploads by other processes ---

    @contextmanager
    def remote_uploads(self) -> Iterator[RemoteUploads]:
        """Inside the block other processes upload; `merge_remote` takes their answer."""
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
            self._content[file.digest] = _Location(file.epoch, file.pack, file.offset)

    def merge_remote(self, remote: RemoteUploads, found: Sequence[tuple[WorkFile, ManifestFile]]) -> frozenset[str]:
        """Add what other processes found or uploaded. Returns the refused keys: they were reserved for deletion.

        Each key becomes live before its reservation is checked. `reserve_for_deletion` does the two steps in the other
        order, so one of the two sees the other.
        """
        refused = set()
        for file, at in found:
            location = _Location(at.epoch, at.pack, at.offset)
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
        """Key → size of the packs that are not new any more."""
        latest = self._completed - PACK_SETTLED_AFTER
        return {key: pack.size for key, pack in list(self._packs.items()) if pack.known_since <= latest}

    def mark_for_repack(self, packs: frozenset[str]) -> None:
        """Checkpoints that begin from here on upload the files of these packs again."""
        self._to_repack |= packs
        self.forget(packs)

    # --- deleting ---

    def unclaimed(self) -> frozenset[str]:
        """Objects of this run that nothing names though a checkpoint which could have used them has completed since.

        They are what failed checkpoints uploaded and no later one found worth naming.
        """
        return frozenset(self._unclaimed.copy()) - self.live_keys()

    def live_keys(self) -> frozenset[str]:
        """Objects that this run uploads, uploaded or refers to and that may not be in any manifest yet.

        A sweep must take this before it reads which checkpoints are retained, or it misses one that completes between.
        """
        return frozenset([*list(self._being_sent.values()), *list(self._live)])

    def reserve_for_deletion(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of `keys`, which no retained manifest may name, that may be deleted now.

        From here on they are neither referred to nor written, until `deleted` says that no deletion is under way.
        """
        candidates = frozenset(keys)
        self._reserved |= candidates
        known = [(digest, at) for digest, at in list(self._content.items()) if at.key(digest) in candidates]
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

    def deleted(self, keys: Iterable[str]) -> None:
        """The keys are gone, or the attempt was refused. Not to be called while a deletion may still take effect."""
        self._reserved -= frozenset(keys)

    def gone(self, key: str) -> None:
        """The object has been deleted. Called before `deleted`, while nothing can be uploaded to the key."""
        self._unclaimed.discard(key)
        self._to_repack.discard(key)
        self._packs.pop(key, None)


def _pack_sizes(files: Iterable[ManifestFile]) -> dict[str, int]:
    """Key → size of each pack, when all that is in it is among `files`."""
    sizes: dict[str, int] = {}
    for file in files:
        if file.pack is not None:
            sizes[file.key] = max(sizes.get(file.key, 0), file.offset + file.size)
    return sizes
