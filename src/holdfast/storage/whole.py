"""A read returns the whole object or raises: the error for missing bytes.

Each store compares the bytes with the length that its listing has. So no caller has to ask whether missing bytes mean
damage, absence or another object: a store never returns a part.
"""

from holdfast.errors import StorageUnreachable


def not_whole(subject: str, read: int, expected: int) -> StorageUnreachable:
    return StorageUnreachable(f"could not read {subject}: only {read} of its {expected} bytes arrived")
