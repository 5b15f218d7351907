"""Copies of the entries since the newest fold, in one object: a reader needs few requests, however many there are.

The owner replaces it now and then. It decides nothing and proves nothing: a reader takes a copy only of an entry that
the home lists, and only if an entry that was read from its own place names the copy's digest, directly or through
others (`chain.py`). So an object that is lost, stale, damaged or planted costs requests and changes no outcome.
"""

import gzip
import zlib
from collections.abc import Sequence

from holdfast.errors import HoldfastError, StorageError
from holdfast.job_log import log
from holdfast.repository.entry_bytes import StoredEntry, decode_fold, encode_fold
from holdfast.storage.interface import ObjectStore

KEY = "recent.json.gz"
EVERY = 10
"""Entries that are not in it, at most about; and fewer than those are read without it."""
_LONGEST = 16 << 20
"""Bytes, compressed or not, that a reader is willing to read. A journal is folded long before."""


def copy_recent(store: ObjectStore, entries: Sequence[StoredEntry], new: int) -> bool:
    """Write it again when enough entries are `new`; whether that was so. Best effort: without it readers read each
    entry from its own place."""
    if min(new, len(entries)) < EVERY:
        return False
    data = gzip.compress(encode_fold(entries[-1].sequence, entries), compresslevel=6, mtime=0)
    try:
        store.put(KEY, data)
    except StorageError as error:
        log.debug("could not write %s: %s", KEY, error.message)
    return True


def read_recent(store: ObjectStore, unread: int) -> tuple[StoredEntry, ...]:
    """Unproved copies of entries; none if few are `unread`, or if the object cannot be used, for whatever reason."""
    if unread < EVERY:
        return ()
    try:
        return decode_fold(KEY, _unpacked(store.read(KEY, 0, _LONGEST)))
    except (HoldfastError, zlib.error, RecursionError) as error:
        log.debug("reading each entry from its own place: %s", error)
        return ()


def _unpacked(data: bytes) -> bytes:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS).decompress(data, _LONGEST)
