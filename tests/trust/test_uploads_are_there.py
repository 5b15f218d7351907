"""R1, R3: a checkpoint completes only with objects that are in the home. A home that was another one for a moment took
uploads and answered; what it took is not here."""

from pathlib import Path

import pytest

from holdfast.repository.absence import missing
from holdfast.storage.local import LocalStore
from tests.unit.churning_runs import ChurningRun, ManualClock, state_of


class Swallowing:
    """Another home stands in its place whenever a pack is uploaded: this one has nothing of it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.on = False

    def __call__(self, operation: str, key: str) -> None:
        if self.on and operation == "upload" and key.startswith("packs/"):
            for path in self._home.glob(f"*/{key}"):
                path.unlink()


def completed(home: Path) -> int:
    return len(state_of(home).completed)


def test_a_pack_that_went_to_another_home_completes_no_checkpoint(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    swallowing = Swallowing(home)
    run = ChurningRun(home, tmp_path / "work", ManualClock(), 1, watch=swallowing)
    run.batches(2)
    before = completed(home)

    swallowing.on = True
    run.batches(2)
    assert completed(home) == before

    swallowing.on = False
    run.batches(4)
    assert completed(home) > before
    names = {file.key for manifest in run.runtime._storage.manifests.values() for file in manifest.files()}
    assert missing(LocalStore(next(home.iterdir())), sorted(names)) == frozenset()


@pytest.mark.parametrize("count", [3, 100])
def test_few_are_asked_for_one_by_one_and_many_are_listed(tmp_path: Path, count: int) -> None:
    store = LocalStore(tmp_path)
    keys = [f"blobs/{number:03d}" for number in range(count)]
    for key in keys[:-1]:
        store.upload(key, [b"x"])

    assert missing(store, keys) == {keys[-1]}
