"""Space that is released when the home is full: freeing space needs journal entries, which need space themselves."""

import os

from holdfast.errors import StorageError
from holdfast.storage.interface import ObjectStore

KEY = "reserve"
SIZE = 64 << 10
"""Enough for a claim, a retirement and a fold of an ordinary journal."""


def keep_reserve(store: ObjectStore) -> None:
    """Called by the owner. Best effort: a full home gets its reserve once space was freed."""
    try:
        if not store.exists(KEY):
            store.put(KEY, os.urandom(SIZE))  # a file system that compresses would store no zeros
    except StorageError:
        return


def release_reserve(store: ObjectStore) -> None:
    store.delete(KEY)
