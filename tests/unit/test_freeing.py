"""Freeing while no pipeline runs: no faster than allowed."""

from pathlib import Path

import pytest

from holdfast.repository.collection import Unneeded, Why
from holdfast.runtime.upkeep.freeing import free
from holdfast.storage.limited import Allowance
from holdfast.storage.local import LocalStore


def test_deletions_keep_to_the_allowance(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    objects = [Unneeded(f"blobs/{number}", 1, Why.ORPHAN) for number in range(50)]
    for item in objects:
        store.put(item.key, b"x")
    slept: list[float] = []
    # The clock stands still: what is beyond the first second's ten has to be waited for.
    allowance = Allowance(10, clock=lambda: 0.0, sleep=slept.append)
    freed = free(store, objects, allowance, lambda done: None, lambda: None)
    assert (freed.objects, freed.failed) == (50, {})
    assert not list(store.list("blobs/"))
    assert max(slept) == pytest.approx(4.0)
