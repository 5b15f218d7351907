"""The local directory as object store: create-if-absent holds among processes, and a lost root is an error."""

import errno
import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from holdfast.errors import ObjectNotFound, StorageDenied, StorageError, StorageFull, StorageUnreachable
from holdfast.storage.interface import Created
from holdfast.storage.local import LocalStore
from holdfast.storage.urls import open_store, require_create_if_absent
from tests.clean_processes import FORKS


def _race(root: str, key: str, value: bytes, start: "multiprocessing.synchronize.Barrier") -> int:
    store = LocalStore(Path(root))
    start.wait()
    return int(store.create(key, value) is Created.WON)


def test_of_many_racing_processes_one_wins(tmp_path: Path) -> None:
    start = FORKS.Barrier(8)
    with FORKS.Pool(8, _share_barrier, (start,)) as pool:
        for round_number in range(20):
            wins = pool.starmap(_race_shared, [(str(tmp_path), f"journal/{round_number}", n) for n in range(8)], 1)
            assert sum(wins) == 1
            assert LocalStore(tmp_path).get(f"journal/{round_number}") == str(wins.index(1)).encode()


_BARRIER: list["multiprocessing.synchronize.Barrier"] = []


def _share_barrier(start: "multiprocessing.synchronize.Barrier") -> None:
    _BARRIER.append(start)


def _race_shared(root: str, key: str, number: int) -> int:
    return _race(root, key, str(number).encode(), _BARRIER[0])


def test_a_second_create_loses_and_changes_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert store.create("a/b", b"first") is Created.WON
    assert store.create("a/b", b"second") is Created.LOST
    assert store.get("a/b") == b"first"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"], "no temporary file stays behind"


def test_an_upload_that_breaks_leaves_nothing(tmp_path: Path) -> None:
    def broken():  # type: ignore[no-untyped-def]
        yield b"half"
        raise RuntimeError("the source changed")

    store = LocalStore(tmp_path)
    with pytest.raises(RuntimeError):
        store.upload("blobs/x", broken())
    assert not store.exists("blobs/x")
    assert list(store.list("")) == []


def test_listing_is_ordered_and_starts_after_a_key(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for key in ("j/3", "j/1", "j/2", "k/1", "j-/1"):
        store.put(key, b"")
    assert [item.key for item in store.list("j/")] == ["j/1", "j/2", "j/3"]
    assert [item.key for item in store.list("j/", after="j/1")] == ["j/2", "j/3"]
    assert [item.key for item in store.list("")] == sorted(["j/3", "j/1", "j/2", "k/1", "j-/1"])


def test_a_root_that_goes_away_is_unreachable_and_comes_back(tmp_path: Path) -> None:
    root, away = tmp_path / "home", tmp_path / "away"
    root.mkdir()
    store = LocalStore(root).scoped("job")
    store.put("a", b"1")
    root.rename(away)
    for attempt in (
        lambda: store.create("b", b""),
        lambda: store.put("b", b""),
        lambda: store.get("a"),
        lambda: list(store.list("")),
        lambda: store.delete("a"),
    ):
        with pytest.raises(StorageUnreachable):
            attempt()
    away.rename(root)
    assert store.get("a") == b"1"


def test_an_empty_directory_in_the_place_of_the_root_is_not_taken_for_it(tmp_path: Path) -> None:
    """That is what an unmounted disk leaves behind: writing there would fork the history."""
    root = tmp_path / "home"
    root.mkdir()
    store = LocalStore(root)
    shutil.move(root, tmp_path / "away")
    root.mkdir()
    with pytest.raises(StorageUnreachable, match="no longer the directory"):
        store.create("journal/1", b"")
    assert not any(root.iterdir())


def test_a_missing_object_is_not_an_outage(tmp_path: Path) -> None:
    with pytest.raises(ObjectNotFound):
        LocalStore(tmp_path).get("nothing")
    LocalStore(tmp_path).delete("nothing")


def test_a_place_that_cannot_be_written_is_refused_by_the_probe() -> None:
    with pytest.raises(StorageError) as caught:
        require_create_if_absent(open_store("file:///proc/sys/kernel"))
    assert isinstance(caught.value, StorageDenied | StorageUnreachable)


def test_the_probe_leaves_nothing(tmp_path: Path) -> None:
    require_create_if_absent(open_store(str(tmp_path)))
    assert not any(tmp_path.iterdir())


def test_what_a_writer_that_died_left_is_no_object_but_can_be_found_and_deleted(tmp_path: Path) -> None:
    store = LocalStore(tmp_path).scoped("orders")
    store.put("blobs/aa/one", b"whole")
    (tmp_path / "orders" / "blobs" / "aa" / ".tmp-0123").write_bytes(b"half")
    assert [item.key for item in store.list("")] == ["blobs/aa/one"]
    (found,) = store.temporaries()
    assert (found.key, found.size) == ("blobs/aa/.tmp-0123", 4)
    store.delete(found.key)
    assert list(store.temporaries()) == []
    assert list(LocalStore(tmp_path).scoped("never written").temporaries()) == []


@pytest.mark.parametrize(
    ("code", "kind", "advice"),
    [(errno.EROFS, StorageDenied, "mounted read-only"), (errno.ENOSPC, StorageFull, "holdfast collect")],
)
def test_a_refusal_of_the_disk_says_what_to_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[StorageError], advice: str
) -> None:
    def refuse(handle: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(kind) as caught:
        LocalStore(tmp_path).create("journal/1", b"entry")
    assert advice in (caught.value.hint or "")
