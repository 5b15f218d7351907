"""R3, the store's half: which home it is, is said by an object in it, and not by a path, a device or an inode."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.errors import StorageUnreachable
from holdfast.storage.home_identity import KEY, ensure_home_identity, read_home_identity
from holdfast.storage.interface import ObjectStore
from holdfast.storage.local import LocalStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def replaced(home: Path, how: Callable[[Path], None]) -> None:
    """Another directory, with another inode, takes the place."""
    away = home.with_name("away")
    home.rename(away)
    how(away)


def every_call(store: ObjectStore) -> tuple[Callable[[], object], ...]:
    return (
        lambda: store.create("journal/2", b""),
        lambda: store.put("owner.json", b""),
        lambda: store.upload("blobs/x", [b""]),
        lambda: store.get("journal/1"),
        lambda: store.read("journal/1", 0, 1),
        lambda: list(store.stream("journal/1")),
        lambda: store.exists("journal/1"),
        lambda: list(store.list("")),
        store.children,
        lambda: list(store.temporaries()),
        lambda: store.delete("journal/1"),
    )


def test_the_same_disk_mounted_again_heals(home: Path) -> None:
    ensure_home_identity(LocalStore(home), id="mine", now=NOW)
    store = LocalStore(home).scoped("orders")
    store.put("journal/1", b"mine")
    replaced(home, lambda away: shutil.copytree(away, home) and None)
    for call in every_call(store):
        call()


def test_also_when_the_identity_was_made_after_it_was_opened(home: Path) -> None:
    root = LocalStore(home)
    store = root.scoped("orders")
    ensure_home_identity(root, id="mine", now=NOW)
    store.put("journal/1", b"mine")
    replaced(home, lambda away: shutil.copytree(away, home) and None)
    assert store.get("journal/1") == b"mine"


def test_an_empty_mount_point_is_refused_with_both_sides_named(home: Path) -> None:
    ensure_home_identity(LocalStore(home), id="mine", now=NOW)
    store = LocalStore(home).scoped("orders")
    replaced(home, lambda away: home.mkdir())
    for call in every_call(store):
        with pytest.raises(StorageUnreachable, match=f"was home mine, what is there now is not a home .*{KEY}"):
            call()
    assert not any(home.iterdir())


def test_another_home_is_refused_with_both_sides_named(home: Path) -> None:
    ensure_home_identity(LocalStore(home), id="mine", now=NOW)
    store = LocalStore(home).scoped("orders")
    store.put("journal/1", b"mine")

    def another(away: Path) -> None:
        shutil.copytree(away, home)
        (home / KEY).unlink()
        ensure_home_identity(LocalStore(home), id="theirs", now=NOW)

    replaced(home, another)
    for call in every_call(store):
        with pytest.raises(StorageUnreachable, match="that one was home mine, what is there now is home theirs"):
            call()
    shutil.rmtree(home)
    home.with_name("away").rename(home)
    assert store.get("journal/1") == b"mine"


def test_a_home_without_one_is_known_by_its_place_alone(home: Path) -> None:
    """Homes of older versions: what cannot be proved is refused."""
    store = LocalStore(home).scoped("orders")
    store.put("journal/1", b"mine")
    replaced(home, lambda away: shutil.copytree(away, home) and None)
    with pytest.raises(StorageUnreachable, match="no longer the directory"):
        store.get("journal/1")


def test_one_that_was_lost_is_made_anew_by_the_next_claim(home: Path) -> None:
    ensure_home_identity(LocalStore(home), id="mine", now=NOW)
    LocalStore(home).scoped("orders").put("journal/1", b"")
    (home / KEY).unlink()
    assert ensure_home_identity(LocalStore(home), id="next", now=NOW).id == "next"
    standing = read_home_identity(LocalStore(home))
    assert standing is not None
    assert standing.id == "next"
    assert LocalStore(home).children() == ("orders",), "it is no job"
