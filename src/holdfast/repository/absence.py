"""Proves that an object is absent. One "not found" from a gateway is not enough; a listing must confirm it."""

from collections.abc import Iterable, Sequence

from holdfast.errors import StorageUnreachable
from holdfast.storage.interface import ObjectStore
from holdfast.storage.retrying import Patience, patience_of, pauses

_ASKED_ONE_BY_ONE = 32


def proven_absent(store: ObjectStore, key: str, patience: Patience | None = None) -> bool:
    """Whether the object is gone: every read until the store's deadline fails to find it, and no listing shows it.

    Raises `StorageUnreachable` when reads and listings contradict each other until then.
    """
    return bool(absent_among(store, [key], patience))


def absent_among(store: ObjectStore, keys: Iterable[str], patience: Patience | None = None) -> frozenset[str]:
    """Those of `keys` that are gone, by the same proof. All of them together take as long as one."""
    denied = [key for key in keys if not store.exists(key)]
    if denied:
        for _ in pauses(patience or patience_of(store)):
            denied = [key for key in denied if not store.exists(key)]
            if not denied:
                break
    listed = [key for key in denied if is_listed(store, key)]
    if listed and (contradicted := [key for key in listed if not store.exists(key)]):
        raise contradiction(store, contradicted[0])
    return frozenset(denied) - frozenset(listed)


def missing(store: ObjectStore, keys: Sequence[str]) -> frozenset[str]:
    """Those of `keys` that are gone, by the same proof. If there are many, only keys that are not listed are read."""
    if len(keys) > _ASKED_ONE_BY_ONE:
        listed = {item.key for folder in {key.partition("/")[0] for key in keys} for item in store.list(f"{folder}/")}
        keys = [key for key in keys if key not in listed]
    return absent_among(store, keys)


def contradiction(store: ObjectStore, key: str) -> StorageUnreachable:
    """Reads do not find it, and a listing shows it."""
    return StorageUnreachable(
        f"could not tell whether {store.url}/{key} is there: it is listed, and cannot be read",
        hint="try again later; if it persists, ask the administrators of the storage",
    )


def is_listed(store: ObjectStore, key: str) -> bool:
    return any(item.key == key for item in store.list(key))
