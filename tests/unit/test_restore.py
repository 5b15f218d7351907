"""Back from the home to a directory: whole, proved byte by byte, or not at all."""

import os
from pathlib import Path

import msgspec
import pytest

from holdfast.checkpoint.manifest import Digest, Manifest, ManifestFile, digest_of, manifest_key
from holdfast.errors import Corrupt, HoldfastError, InvalidSettings, StorageUnreachable
from holdfast.identifiers import CheckpointId
from holdfast.repository.blobs import Blobs
from holdfast.repository.verification import CorruptObject, Verified, verify
from holdfast.workdir.factory import work_directory
from holdfast.workdir.restorer import restore, spans, take_over
from tests.unit.work_files import (
    EPOCH,
    MIB,
    RecordingStore,
    copied,
    manifest_of,
    new_store,
    snapshot_plan,
    stored,
    tree,
    write,
)

CONTENTS = {
    "metadata": b"{}",
    "offsets/3": b"v1",
    "ledger/3.json": b"{}",
    "state/0/0/4.zip": os.urandom(1000),
    "state/0/0/SSTs/1.sst": os.urandom(3 * MIB + 17),
    "state/0/0/SSTs/2.sst": os.urandom(MIB),
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


def objects(store: RecordingStore) -> list[str]:
    return [item.key for item in store.list("")]


def flip_a_byte(home: Path, key: str) -> None:
    data = bytearray((home / key).read_bytes())
    data[len(data) // 2] ^= 1
    (home / key).write_bytes(data)


@pytest.mark.parametrize("parallelism", [1, 8])
def test_every_file_comes_back(store: RecordingStore, manifest: Manifest, tmp_path: Path, parallelism: int) -> None:
    seen: list[int] = []
    restore(store, manifest, work_directory(tmp_path / "deep" / "to"), parallelism, seen.append)
    assert tree(tmp_path / "deep" / "to") == CONTENTS
    assert os.listdir(tmp_path / "deep") == ["to"]
    assert sum(seen) == manifest.bytes_total


def test_an_empty_directory_is_good_enough(store: RecordingStore, manifest: Manifest, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    restore(store, manifest, work_directory(tmp_path / "to"))
    assert tree(tmp_path / "to") == CONTENTS


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_nothing_is_written_over(store: RecordingStore, manifest: Manifest, tmp_path: Path, kind: str) -> None:
    to = tmp_path / "to"
    write(tmp_path, {"to" if kind == "file" else "to/kept": b"mine"})
    with pytest.raises(InvalidSettings, match="must be an empty directory"):
        restore(store, manifest, work_directory(to))
    assert (to if kind == "file" else to / "kept").read_bytes() == b"mine"
    assert not list(tmp_path.glob(".to.*"))


def test_files_of_one_pack_are_read_with_one_request(store: RecordingStore, manifest: Manifest, tmp_path: Path) -> None:
    restore(store, manifest, work_directory(tmp_path / "to"))
    assert sorted(store.requests) == sorted({file.key for file in manifest.files()})


def test_requests_to_a_pack_skip_large_gaps_and_stay_bounded() -> None:
    def file(offset: int, size: int) -> ManifestFile:
        return ManifestFile("f", size, Digest("d"), EPOCH, Digest("p"), offset)

    near = [file(0, 10), file(20, 10), file(5, 2)]
    assert [(span.offset, span.length) for span in spans(near)] == [(0, 30)]
    far = [file(0, 10), file(2 * MIB, 10)]
    assert [(span.offset, span.length) for span in spans(far)] == [(0, 10), (2 * MIB, 10)]
    many = [file(number * MIB, MIB) for number in range(40)]
    found = list(spans(many))
    assert max(span.length for span in found) <= 16 * MIB
    assert [part for span in found for part in span.files] == many


@pytest.mark.parametrize("kind", ["blobs/", "packs/"])
def test_a_flipped_byte_is_found_and_named(
    store: RecordingStore, manifest: Manifest, tmp_path: Path, kind: str
) -> None:
    digest = stored(store, manifest)
    key = next(key for key in objects(store) if key.startswith(kind))
    flip_a_byte(tmp_path / "home", key)
    with pytest.raises(Corrupt) as raised:
        restore(store, manifest, work_directory(tmp_path / "to"))
    damaged = [file for file in manifest.files() if file.key == key]
    assert key in raised.value.message
    assert any(file.path in raised.value.message and file.digest in raised.value.message for file in damaged)
    assert not (tmp_path / "to").exists()
    assert not list(tmp_path.glob(".to.*"))
    report = verify(store, ID, digest)
    found = digest_of((tmp_path / "home" / key).read_bytes())
    assert report.corrupt == (CorruptObject(ID, key, key.split("/")[-1].removesuffix(f".{EPOCH}"), found),)


@pytest.mark.parametrize("kind", ["blobs/", "packs/"])
def test_a_missing_object_is_named(store: RecordingStore, manifest: Manifest, tmp_path: Path, kind: str) -> None:
    digest = stored(store, manifest)
    key = next(key for key in objects(store) if key.startswith(kind))
    store.delete(key)
    with pytest.raises(Corrupt, match="found missing") as raised:
        restore(store, manifest, work_directory(tmp_path / "to"))
    assert key in raised.value.message
    ((corrupt,),) = [verify(store, ID, digest).corrupt]
    assert (corrupt.path, corrupt.found) == (key, "missing")


def test_a_truncated_pack_is_corrupt(store: RecordingStore, manifest: Manifest, tmp_path: Path) -> None:
    (key,) = (key for key in objects(store) if key.startswith("packs/"))
    path = tmp_path / "home" / key
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Corrupt, match=key):
        restore(store, manifest, work_directory(tmp_path / "to"))


@pytest.mark.parametrize("path", ["../escaped", "a/../../escaped", "/absolute", "a//b", "./a", "", "a/\0b"])
def test_a_manifest_cannot_write_outside_of_the_directory(
    store: RecordingStore, manifest: Manifest, tmp_path: Path, path: str
) -> None:
    with pytest.raises(Corrupt, match="not plain"):
        restore(store, with_path(manifest, path), work_directory(tmp_path / "to"))
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("path", ["offsets/3", "offsets", "offsets/3/x"])
def test_a_manifest_cannot_write_one_file_over_another(
    store: RecordingStore, manifest: Manifest, tmp_path: Path, path: str
) -> None:
    with pytest.raises(Corrupt, match="could not restore"):
        restore(store, with_path(manifest, path), work_directory(tmp_path / "to"))


def with_path(manifest: Manifest, path: str) -> Manifest:
    """The manifest with one file under another name."""
    first, *rest = manifest.shards
    renamed = msgspec.structs.replace(first, files=(msgspec.structs.replace(first.files[0], path=path),))
    return msgspec.structs.replace(manifest, shards=(renamed, *rest))


def test_an_unreachable_store_is_not_called_corrupt(store: RecordingStore, manifest: Manifest, tmp_path: Path) -> None:
    digest = stored(store, manifest)
    (tmp_path / "home").rename(tmp_path / "elsewhere")
    with pytest.raises(StorageUnreachable):
        restore(store, manifest, work_directory(tmp_path / "to"))
    with pytest.raises(StorageUnreachable):
        verify(store, ID, digest)
    assert not list(tmp_path.glob("*to*"))


def test_a_place_that_cannot_be_written_is_said_so(store: RecordingStore, manifest: Manifest, tmp_path: Path) -> None:
    write(tmp_path, {"file": b""})
    with pytest.raises(HoldfastError, match=r"could not write .*/file.*: "):
        restore(store, manifest, work_directory(tmp_path / "file" / "to"))


# --- the copy on the same machine ---


def test_a_local_copy_links_what_spark_wrote_and_copies_the_ledger(work: Path, tmp_path: Path) -> None:
    take_over(work_directory(work), snapshot_plan(work), work_directory(tmp_path / "to"))
    assert tree(tmp_path / "to") == CONTENTS
    for path in CONTENTS:
        linked = (work / path).stat().st_ino == (tmp_path / "to" / path).stat().st_ino
        assert linked is not path.startswith("ledger/")


def test_a_local_copy_holds_only_what_was_planned(work: Path, tmp_path: Path) -> None:
    plan = snapshot_plan(work)
    write(work, {"offsets/4": b"later"})
    take_over(work_directory(work), plan, work_directory(tmp_path / "to"))
    assert tree(tmp_path / "to") == CONTENTS


def test_a_local_copy_across_file_systems_is_a_real_copy(work: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == work.stat().st_dev:
        pytest.skip("needs a second file system at /dev/shm")
    to = other / f"holdfast-test-{os.getpid()}"
    try:
        take_over(work_directory(work), snapshot_plan(work), work_directory(to / "work"))
        assert tree(to / "work") == CONTENTS
    finally:
        for path in sorted(to.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        to.rmdir()


@pytest.mark.parametrize("trouble", ["vanished", "replaced"])
def test_a_local_copy_of_a_directory_that_moved_on_is_refused(work: Path, tmp_path: Path, trouble: str) -> None:
    plan = snapshot_plan(work)
    if trouble == "vanished":
        (work / "offsets/3").unlink()
    else:
        write(work, {"offsets/3": b"v2"})
    with pytest.raises(Corrupt, match="offsets/3"):
        take_over(work_directory(work), plan, work_directory(tmp_path / "to"))
    assert not (tmp_path / "to").exists()


# --- verification ---


def test_verification_reads_every_object_once(store: RecordingStore, manifest: Manifest) -> None:
    digest = stored(store, manifest)
    seen: list[int] = []
    report = verify(store, ID, digest, seen.append)
    assert report.corrupt == ()
    assert sorted(store.requests) == objects(store)
    assert report.checked == len(objects(store))
    assert report.bytes == sum(item.size for item in store.list("")) == sum(seen)


def test_objects_shared_by_checkpoints_are_read_once_and_reported_for_each(
    store: RecordingStore, work: Path, tmp_path: Path
) -> None:
    blobs = Blobs(store, EPOCH)
    first = stored(store, manifest_of(copied(work, blobs), 1))
    write(work, {"offsets/4": b"v1 more"})
    second = stored(store, manifest_of(copied(work, blobs), 2))
    key = next(key for key in objects(store) if key.startswith("blobs/"))
    flip_a_byte(tmp_path / "home", key)
    verified = Verified()
    reports = [verify(store, CheckpointId(id), digest, verified=verified) for id, digest in ((1, first), (2, second))]
    assert sorted(store.requests) == sorted([*objects(store), key]), "what came wrong is read once more"
    assert sum(report.checked for report in reports) == len(objects(store))
    assert [(corrupt.checkpoint, corrupt.path) for report in reports for corrupt in report.corrupt] == [
        (1, key),
        (2, key),
    ]


@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_a_damaged_manifest_is_reported(store: RecordingStore, manifest: Manifest, tmp_path: Path, damage: str) -> None:
    digest = stored(store, manifest)
    key = manifest_key(digest)
    if damage == "missing":
        store.delete(key)
    else:
        flip_a_byte(tmp_path / "home", key)
    (corrupt,) = verify(store, ID, digest).corrupt
    assert (corrupt.path, corrupt.expected) == (key, digest)
    assert corrupt.found == ("missing" if damage == "missing" else digest_of((tmp_path / "home" / key).read_bytes()))


def test_a_manifest_that_points_into_the_wrong_place_of_a_sound_pack_is_reported(
    store: RecordingStore, manifest: Manifest
) -> None:
    shards = []
    for shard in manifest.shards:
        files = tuple(
            msgspec.structs.replace(file, offset=file.offset + 1) if file.path == "metadata" else file
            for file in shard.files
        )
        shards.append(msgspec.structs.replace(shard, files=files))
    digest = stored(store, msgspec.structs.replace(manifest, shards=tuple(shards)))
    (corrupt,) = verify(store, ID, digest).corrupt
    assert corrupt.path.startswith("packs/")
    assert corrupt.path.endswith(" metadata")
