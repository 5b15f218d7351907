"""R1: absence is a claim that needs two witnesses."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import ObjectNotFound, StorageUnreachable
from holdfast.repository.absence import absent_among, proven_absent
from holdfast.storage.interface import StoredObject
from holdfast.storage.local import LocalStore
from holdfast.storage.retrying import Patience

KEY = "blobs/ab/abcd.3"


class Denying(LocalStore):
    """Answers "not there" for a key, so often."""

    denied: str | None = None
    times = 0
    hides = False

    def _denies(self, key: str) -> bool:
        if key != self.denied or self.times <= 0:
            return False
        self.times -= 1
        return True

    def get(self, key: str) -> bytes:
        if self._denies(key):
            raise ObjectNotFound(f"could not read {key}: a gateway says 404")
        return super().get(key)

    def exists(self, key: str) -> bool:
        return not self._denies(key) and super().exists(key)

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        return (item for item in super().list(prefix, after) if not (self.hides and item.key == self.denied))


class Hours:
    """A clock that passes only by waiting."""

    now = 0.0

    def patience(self, deadline: float) -> Patience:
        return Patience(deadline, lambda: self.now, self.wait)

    def wait(self, seconds: float) -> None:
        self.now += seconds


def denying(tmp_path: Path, key: str, times: int) -> Denying:
    store = Denying(tmp_path)
    store.denied, store.times = key, times
    return store


def test_what_a_gateway_denies_for_a_while_is_not_absent(tmp_path: Path) -> None:
    store = denying(tmp_path, KEY, 5)
    store.put(KEY, b"here")
    assert not proven_absent(store, KEY, Hours().patience(30))


def test_what_is_listed_is_not_absent_however_often_a_read_denies_it(tmp_path: Path) -> None:
    store = denying(tmp_path, KEY, 10_000)
    store.put(KEY, b"here")
    with pytest.raises(StorageUnreachable, match="listed"):
        proven_absent(store, KEY, Hours().patience(30))


def test_gone_by_both_is_absent_after_the_deadline_and_not_before(tmp_path: Path) -> None:
    hours = Hours()
    assert proven_absent(Denying(tmp_path), KEY, hours.patience(30))
    assert hours.now > 20


def test_many_that_are_gone_take_as_long_as_one(tmp_path: Path) -> None:
    store, hours = Denying(tmp_path), Hours()
    store.put(KEY, b"here")
    gone = [f"packs/{number:04d}.1" for number in range(50)]
    assert absent_among(store, [*gone, KEY], hours.patience(30)) == frozenset(gone)
    assert hours.now <= 30
