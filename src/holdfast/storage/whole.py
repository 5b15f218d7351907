"""A read gives all of an object or raises: the error for bytes that did not come.

Each store knows from the same source as its listing how long an object is, and compares. So nobody above a store has
to ask whether few bytes mean damage, absence or somebody else's object: they are never given.
"""

from holdfast.errors import StorageUnreachable


def not_whole(subject: str, read: int, expected: int) -> StorageUnreachable:
    return StorageUnreachable(f"could not read {subject}: not readable now, {read} of its {expected} bytes came")
