"""The manifests that a run holds: memory by distinct files, and work by what has changed."""

import pytest

from holdfast.checkpoint.manifest import Manifest, ManifestFile, ManifestShard, blob_key, digest_of, pack_key
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch, ShardId
from holdfast.repository import inventory
from holdfast.repository.blobs import Blobs
from holdfast.repository.inventory import NamedKeys
from holdfast.runtime.checkpoints.manifests import Manifests
from tests.unit.work_files import new_store

EPOCH = FencingEpoch(3)


def manifest(id: int, *contents: str) -> Manifest:
    files = tuple(ManifestFile(f"state/{text}", 1, digest_of(text.encode()), EPOCH) for text in contents)
    return Manifest(1, "orders", CheckpointId(id), BatchId(id), EPOCH, (ManifestShard(ShardId("s"), files),))


def key(text: str) -> str:
    return blob_key(digest_of(text.encode()), EPOCH)


def test_checkpoints_share_the_records_of_the_files_that_they_have_in_common() -> None:
    held = Manifests()
    for id in (1, 2):
        held.add(CheckpointId(id), manifest(id, "same", f"new in {id}"))
    first, second = (held[CheckpointId(id)].files() for id in (1, 2))
    assert first == manifest(1, "same", "new in 1").files()
    assert first[0] is second[0]
    assert held.shared(manifest(3, "same")).files()[0] is first[0], "while others are still being read"


def test_records_of_dropped_checkpoints_are_forgotten() -> None:
    held = Manifests()
    for id in range(1, 11):
        held.add(CheckpointId(id), manifest(id, "same", f"new in {id}"))
    for id in range(1, 9):
        held.drop(CheckpointId(id))
    assert len(held._records) < 7
    assert held[CheckpointId(10)] == manifest(10, "same", "new in 10")


def test_a_key_is_named_for_as_long_as_one_manifest_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Manifest] = []
    keys_in = inventory.keys_in
    monkeypatch.setattr(inventory, "keys_in", lambda manifest: looked.append(manifest) or keys_in(manifest))
    one, two, three = (CheckpointId(id) for id in (1, 2, 3))
    held = {one: manifest(1, "a", "b"), two: manifest(2, "b", "b", "c")}
    named = NamedKeys()
    named.follow(held)
    assert [key(text) in named for text in "abcd"] == [True, True, True, False]
    looked.clear()
    named.follow(held)
    assert not looked
    named.follow(held := {two: held[two], three: manifest(3, "d")})
    assert [key(text) in named for text in "abcd"] == [False, True, True, True]
    assert len(looked) == 2, "of what came and what went"
    named.follow({three: held[three]})
    assert [key(text) in named for text in "abcd"] == [False, False, False, True]


class Unlisted(dict):  # type: ignore[type-arg]
    def items(self) -> object:  # type: ignore[override]
        raise AssertionError("all that is known was looked at")


def test_blobs_are_reserved_for_deletion_without_a_look_at_all_that_is_known(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    blobs = Blobs(new_store(tmp_path_factory.mktemp("home")), EPOCH)
    blobs.load_manifest(manifest(1, "a", "b"))
    pack = ManifestFile("state/p", 1, digest_of(b"p"), EPOCH, digest_of(b"pack"), 0)
    blobs.add_known([pack])
    blobs._content = Unlisted(blobs._content)
    assert blobs.reserve_for_deletion([key("a")]) == {key("a")}
    assert blobs.find("state/a", 1, digest_of(b"a")) is None
    assert blobs.find("state/b", 1, digest_of(b"b")) is not None
    blobs._content = dict(blobs._content.copy())
    assert blobs.reserve_for_deletion([pack_key(digest_of(b"pack"), EPOCH)])
    assert blobs.find("state/p", 1, digest_of(b"p")) is None
