"""R1, R3: a checkpoint completes only with objects that are in the home. A home that was another one for a moment took
uploads and answered; what it took is not here."""

import json
from pathlib import Path

import pytest

from holdfast.checkpoint.manifest import manifest_key
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


class PutBack:
    """The home is put back from a copy right before a checkpoint is completed: the journal is the same, and what was
    uploaded since the checkpoint began is not there."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._before: set[Path] = set()
        self.on = False

    def __call__(self, operation: str, key: str) -> None:
        if operation != "create" or not key.startswith("journal/"):
            return
        kind = json.loads(next(self._home.glob(f"*/{key}")).read_bytes())["kind"]
        if kind == "checkpoint-started":
            self._before = self._objects()
        elif kind == "checkpoint-completed" and self.on:
            self.on = False
            for path in self._objects() - self._before:
                path.unlink()

    def _objects(self) -> set[Path]:
        folders = ("blobs", "packs", "manifests")
        return {path for folder in folders for path in self._home.glob(f"*/{folder}/**/*") if path.is_file()}


def test_nothing_is_retired_for_a_checkpoint_whose_objects_went_with_a_home_that_was_put_back(tmp_path: Path) -> None:
    """Simulation seed 10178: the older checkpoint was retired, and the newer one had nothing but its entry."""
    home = tmp_path / "home"
    home.mkdir()
    put_back = PutBack(home)
    run = ChurningRun(home, tmp_path / "work", ManualClock(), 1, watch=put_back, retained=1)
    run.batches(2)
    (sound,) = state_of(home).retained()
    put_back.on = True
    run.batches(1)
    retained = state_of(home).retained()
    assert retained[0] == sound, "it stays as long as the newer one is not there"
    assert len(retained) == 2
    run.batches(2)
    run.wait(5)
    store = LocalStore(next(home.iterdir()))
    newest = state_of(home).restorable()[0]
    names = [file.key for file in run.runtime._storage.manifests[newest.id].files()]
    assert missing(store, [manifest_key(newest.manifest), *names]) == frozenset()
    assert [entry.id for entry in state_of(home).retained()] == [newest.id], "and is retired when it is"


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
