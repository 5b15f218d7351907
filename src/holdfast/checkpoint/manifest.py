"""The manifest: every file of one checkpoint, and where its bytes are.

Stored as gzip-compressed JSON under `manifests/<digest>`, the digest being the BLAKE3 of the stored (compressed) bytes.
Encoding is deterministic: the same manifest always has the same digest. It is compressed because, apart from the
digests, it is very regular.
"""

import gzip
import zlib
from typing import Annotated

import msgspec
from blake3 import blake3

from holdfast.errors import Corrupt, NewerFormat
from holdfast.identifiers import BatchId, CheckpointId, Digest, FencingEpoch, ShardId

FORMAT = 1

_NAME = r"(?!\.{1,2}(?:/|\Z))[^/\0]+"
RelativePath = Annotated[str, msgspec.Meta(pattern=rf"\A{_NAME}(?:/{_NAME})*\Z")]
"""Names separated by slashes, none of them `.` or `..`: the path stays below the directory that it is resolved in."""
Count = Annotated[int, msgspec.Meta(ge=0)]


class ManifestFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file of the work directory. Its bytes are a blob of its own, or `size` bytes of a pack at `offset`.

    `epoch` is the fencing_epoch of the run that uploaded the object and is part of the object's key. So a run
    that stalled while deleting can only delete keys that no newer run has written.
    """

    path: RelativePath
    size: Count
    digest: Digest
    epoch: Annotated[FencingEpoch, msgspec.Meta(ge=0)]
    pack: Digest | None = None
    offset: Count = 0
    version: str = ""
    """Of a blob, its ETag when its bytes were proved: the object that still has it need not be read to be restored
    inside the store. Empty where that is not known."""

    @property
    def key(self) -> str:
        return blob_key(self.digest, self.epoch) if self.pack is None else pack_key(self.pack, self.epoch)


class ManifestShard(msgspec.Struct, frozen=True):
    id: ShardId
    files: tuple[ManifestFile, ...]


class Manifest(msgspec.Struct, frozen=True):
    format: int
    job: str
    checkpoint: CheckpointId
    barrier_batch_id: BatchId
    fencing_epoch: FencingEpoch
    shards: tuple[ManifestShard, ...]
    spark: dict[str, str] = {}
    """Facts about the query: Spark version, state store provider, shuffle partitions… for display and preflight."""

    def files(self) -> tuple[ManifestFile, ...]:
        return tuple(file for shard in self.shards for file in shard.files)

    @property
    def bytes_total(self) -> int:
        return sum(file.size for file in self.files())


def blob_key(digest: Digest, epoch: FencingEpoch) -> str:
    return f"blobs/{digest[:2]}/{digest}.{epoch}"


def pack_key(digest: Digest, epoch: FencingEpoch) -> str:
    return f"packs/{digest}.{epoch}"


def manifest_key(digest: Digest) -> str:
    return f"manifests/{digest}"


def digest_of(data: bytes) -> Digest:
    return Digest(blake3(data).hexdigest())


def encode_manifest(manifest: Manifest) -> bytes:
    return gzip.compress(msgspec.json.encode(manifest), compresslevel=6, mtime=0)


class _ManifestFormat(msgspec.Struct):
    format: int


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_FORMAT_DECODER = msgspec.json.Decoder(_ManifestFormat)
_DECODER = msgspec.json.Decoder(Manifest)


def decode_manifest(data: bytes, expected: Digest) -> Manifest:
    """The manifest in `data`, which must have exactly the digest that the journal names.

    Raises `NewerFormat` when a newer version wrote it: it is intact, and the objects that it names are needed.
    """
    found = digest_of(data)
    if found != expected:
        raise Corrupt(f"could not read manifest {expected}: its bytes have digest {found}")
    try:
        document = gzip.decompress(data)
        if (version := _FORMAT_DECODER.decode(document).format) > FORMAT:
            raise NewerFormat.of_format(f"manifest {expected}", version, FORMAT)
        return _DECODER.decode(document)
    except (OSError, EOFError, zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"could not read manifest {expected}: {error}") from error
