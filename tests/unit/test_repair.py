"""Damaged and missing objects get their bytes back, when the same bytes are anywhere, and never any others."""

import os
from pathlib import Path

import pytest

from holdfast.checkpoint.manifest import Manifest, blob_key, digest_of, manifest_key, pack_key
from holdfast.cli.verifying import local_files
from holdfast.identifiers import CheckpointId, FencingEpoch
from holdfast.repository.blobs import Blobs
from holdfast.repository.inventory import StoredFiles, objects_of
from holdfast.repository.repair import LocalFiles, Repair
from tests.unit.work_files import EPOCH, MIB, RecordingStore, copied, manifest_of, new_store, stored, tree, write

CONTENTS = {
    "metadata": b"{}",
    "offsets/3": b"v1" * 30,
    "state/0/0/4.zip": os.urandom(1000),
    "state/0/0/SSTs/1.sst": os.urandom(3 * MIB + 17),
    "state/0/1/empty": b"",
}
ID = CheckpointId(1)


@pytest.fixture
def store(tmp_path: Path) -> RecordingStore:
    return new_store(tmp_path / "home")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write(tmp_path / "work", CONTENTS)
    return tmp_path / "work"


@pytest.fixture
def manifest(store: RecordingStore, work: Path) -> Manifest:
    return manifest_of(copied(work, Blobs(store, EPOCH)))


def local(work: Path) -> LocalFiles:
    return local_files(work)


def objects(manifest: Manifest) -> dict[str, StoredFiles]:
    return objects_of({ID: manifest})


def harm(home: Path, key: str, how: str) -> None:
    path = home / key
    if how == "missing":
        path.unlink()
    elif how == "cut off":
        path.write_bytes(path.read_bytes()[:-5])
    else:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)


def test_an_inventory_names_every_object_once_with_who_needs_it(store: RecordingStore, work: Path) -> None:
    blobs = Blobs(store, EPOCH)
    first = manifest_of(copied(work, blobs), 1)
    write(work, {"offsets/4": b"v2"})
    second = manifest_of(copied(work, blobs), 2)
    found = objects_of({CheckpointId(2): second, CheckpointId(1): first})
    assert set(found) == {item.key for item in store.list("")}
    assert sorted(item.checkpoints for item in found.values()) == [(1, 2), (1, 2), (2,)]
    assert {item.size for item in found.values()} == {item.size for item in store.list("")}


@pytest.mark.parametrize("how", ["flipped", "missing", "cut off"])
@pytest.mark.parametrize("kind", ["blobs/", "packs/"])
def test_bytes_come_back_from_the_work_directory(
    store: RecordingStore, manifest: Manifest, work: Path, tmp_path: Path, kind: str, how: str
) -> None:
    before = tree(tmp_path / "home")
    key = next(key for key in objects(manifest) if key.startswith(kind))
    harm(tmp_path / "home", key, how)
    where = Repair(store, objects(manifest), [local(work)]).put_right(objects(manifest)[key])
    assert where is not None
    assert where.startswith(str(work))
    assert tree(tmp_path / "home") == before


@pytest.mark.parametrize("kind", ["blobs/", "packs/"])
def test_bytes_come_back_from_the_same_object_of_another_run(
    store: RecordingStore, manifest: Manifest, tmp_path: Path, kind: str
) -> None:
    damaged = next(item for key, item in objects(manifest).items() if key.startswith(kind))
    make_key = pack_key if damaged.is_pack else blob_key
    twin = make_key(damaged.digest, FencingEpoch(9))
    good = store.get(damaged.key)
    store.upload(twin, [good])
    harm(tmp_path / "home", damaged.key, "missing")
    assert Repair(store, objects(manifest)).put_right(damaged) == twin
    assert store.get(damaged.key) == good


def test_a_pack_is_rebuilt_from_what_is_left_of_it_and_other_packs(
    store: RecordingStore, manifest: Manifest, work: Path, tmp_path: Path
) -> None:
    (pack,) = (item for item in objects(manifest).values() if item.is_pack)
    (large,) = (file for file in pack.files if file.size == 1000)
    write(tmp_path / "other", {large.path: CONTENTS[large.path], "more": b"more"})
    other = manifest_of(copied(tmp_path / "other", Blobs(store, FencingEpoch(9))), 2)
    everything = objects_of({ID: manifest, CheckpointId(2): other})
    good = store.get(pack.key)
    harmed = bytearray(good)
    harmed[large.offset + 500] ^= 1
    store.put(pack.key, bytes(harmed))
    where = Repair(store, everything).put_right(pack)
    assert where is not None
    assert where.startswith("packs/")
    assert store.get(pack.key) == good


def test_a_pack_with_dead_files_is_rebuilt_as_long_as_those_survived(
    store: RecordingStore, manifest: Manifest, work: Path, tmp_path: Path
) -> None:
    (pack,) = (item for item in objects(manifest).values() if item.is_pack)
    known = tuple(file for file in pack.files if file.path != "offsets/3")
    partly_known = StoredFiles(pack.key, pack.digest, known, pack.checkpoints)
    good = store.get(pack.key)
    (large,) = (file for file in pack.files if file.size == 1000)
    harmed = bytearray(good)
    harmed[large.offset] ^= 1
    store.put(pack.key, bytes(harmed))
    assert Repair(store, objects(manifest), [local(work)]).put_right(partly_known) is not None
    assert store.get(pack.key) == good
    store.delete(pack.key)
    assert Repair(store, objects(manifest), [local(work)]).put_right(partly_known) is None
    assert not store.exists(pack.key), "bytes that nobody can prove are not written"


@pytest.mark.parametrize("kind", ["blobs/", "packs/"])
def test_wrong_bytes_are_never_put_in_the_place_of_wrong_bytes(
    store: RecordingStore, manifest: Manifest, work: Path, tmp_path: Path, kind: str
) -> None:
    key = next(key for key in objects(manifest) if key.startswith(kind))
    harm(tmp_path / "home", key, "flipped")
    for path in CONTENTS:
        write(work, {path: b"others"})
    before = tree(tmp_path / "home")
    assert Repair(store, objects(manifest), [local(work)]).put_right(objects(manifest)[key]) is None
    assert tree(tmp_path / "home") == before


def test_a_file_that_changes_between_looking_and_sending_is_not_sent(
    store: RecordingStore, manifest: Manifest, work: Path, tmp_path: Path
) -> None:
    (damaged,) = (item for item in objects(manifest).values() if not item.is_pack)
    harm(tmp_path / "home", damaged.key, "missing")
    reads = iter([work, tmp_path / "changed"])
    write(tmp_path / "changed", {path: data[::-1] for path, data in CONTENTS.items()})
    changing = LocalFiles("changing", lambda path: local_files(next(reads)).pieces(path))
    assert Repair(store, objects(manifest), [changing]).put_right(damaged) is None
    assert not store.exists(damaged.key)


def test_a_manifest_that_is_still_known_is_written_again(store: RecordingStore, manifest: Manifest) -> None:
    digest = stored(store, manifest)
    store.delete(manifest_key(digest))
    assert Repair(store, {}).put_manifest_right(manifest, digest)
    assert digest_of(store.get(manifest_key(digest))) == digest
    assert not Repair(store, {}).put_manifest_right(manifest_of((), 9), digest)
