"""Space that is given back when the home is full: freeing needs journal entries, and those need space."""

import os

from holdfast.errors import StorageError
from holdfast.storage.interface import ObjectStore

KEY = "reserve"
SIZE = 64 << 10
"""Enough for a claim, a retirement and a fold of an ordinary journal."""


def keep_reserve(store: ObjectStore) -> None:
    """Called by the owner. Best effort: a home that is full now gets its reserve when something was freed."""
    try:
        if not store.exists(KEY):
            store.put(KEY, os.urandom(SIZE))  # of zeros a file system that compresses would keep nothing
    except StorageError:
        return


def release_reserve(store: ObjectStore) -> None:
    store.delete(KEY)
