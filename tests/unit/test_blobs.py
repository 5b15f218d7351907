"""Content-addressed upload: what the home holds is not read or sent again, and what is pending is not deleted."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from holdfast.checkpoint.layout import ShardPlan, WorkFile
from holdfast.errors import StorageUnreachable
from holdfast.identifiers import FencingEpoch, ShardId
from holdfast.repository.blobs import Blobs
from holdfast.snapshot import carrier
from holdfast.snapshot.carrier import Cancelled, ShardCopy, ShardDeclined, copy_shards, grouped
from holdfast.workdir.factory import work_directory
from tests.unit.work_files import EPOCH, MIB, RecordingStore, copied, manifest_of, new_store, shards, write


@pytest.fixture
def store(tmp_path: Path) -> RecordingStore:
    return new_store(tmp_path / "home")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    return work


def bytes_new(copies: tuple[ShardCopy, ...]) -> int:
    return sum(copy.bytes_new for copy in copies)


def test_small_files_of_many_shards_share_one_pack(store: RecordingStore, work: Path) -> None:
    write(work, {f"s{number:03}/{name}": f"{number}{name}".encode() for number in range(200) for name in "abc"})
    copies = copied(work, Blobs(store, EPOCH))
    assert len(store.uploaded) == 1
    assert sum(copy.objects_written for copy in copies) == 1
    assert store.uploaded[0].startswith("packs/")
    assert store.uploaded[0].endswith(f".{EPOCH}")


def test_packs_stay_below_their_target_size(store: RecordingStore, work: Path) -> None:
    write(work, {f"s/{number}": os.urandom(MIB - 1) for number in range(20)})
    copied(work, Blobs(store, EPOCH))
    sizes = [item.size for item in store.list("packs/")]
    assert len(sizes) == 2
    assert max(sizes) <= 16 * MIB


def test_a_large_file_is_an_object_of_its_own(store: RecordingStore, work: Path) -> None:
    write(work, {"s/large": b"x" * (2 * MIB + 1)})
    ((file,),) = (copy.files for copy in copied(work, Blobs(store, EPOCH)))
    assert store.uploaded == [f"blobs/{file.digest[:2]}/{file.digest}.{EPOCH}"] == [file.key]
    assert store.get(file.key) == b"x" * (2 * MIB + 1)


def test_an_unchanged_file_is_not_even_read(store: RecordingStore, work: Path) -> None:
    write(work, {"s/small": b"small", "s/large": b"x" * MIB})
    blobs = Blobs(store, EPOCH)
    first = copied(work, blobs)
    planned = shards(work)
    for path in ("s/small", "s/large"):
        (work / path).unlink()
    again = copy_shards(work_directory(work), planned, blobs, lambda: False)
    assert [copy.files for copy in again] == [copy.files for copy in first]
    assert bytes_new(again) == 0
    assert len(store.uploaded) == 2


def test_the_same_name_and_size_with_other_bytes_is_another_file(store: RecordingStore, work: Path) -> None:
    write(work, {"s/a": b"one"})
    blobs = Blobs(store, EPOCH)
    ((before,),) = (copy.files for copy in copied(work, blobs))
    write(work, {"s/a": b"two"})
    ((after,),) = (copy.files for copy in copied(work, blobs))
    assert before.digest != after.digest
    assert store.read(after.key, after.offset, after.size) == b"two"


def test_content_under_a_new_name_is_not_sent_again(store: RecordingStore, work: Path) -> None:
    write(work, {"s/a": b"content", "s/b": b"content", "s/large": b"x" * MIB})
    blobs = Blobs(store, EPOCH)
    assert bytes_new(copied(work, blobs)) == len(b"content") + MIB
    write(work, {"t/c": b"content", "t/large": b"x" * MIB, "t/d": b"new"})
    assert bytes_new(copied(work, blobs)) == len(b"new")


def test_a_new_run_knows_what_the_last_checkpoint_holds(store: RecordingStore, work: Path) -> None:
    write(work, {"s/a": b"content", "s/large": b"x" * MIB})
    manifest = manifest_of(copied(work, Blobs(store, EPOCH)))
    newer = Blobs(store, FencingEpoch(9))
    newer.commit_manifest(manifest)
    copies = copied(work, newer)
    assert bytes_new(copies) == 0
    assert manifest_of(copies) == manifest


def test_what_a_failed_attempt_uploaded_is_not_sent_again(store: RecordingStore, work: Path) -> None:
    write(work, {"a/large": b"x" * MIB, "b/large": b"y" * MIB})
    blobs = Blobs(store, EPOCH)
    planned = shards(work)
    (work / "b/large").unlink()
    with pytest.raises(ShardDeclined):
        copy_shards(work_directory(work), planned, blobs, lambda: False)
    assert bytes_new(copy_shards(work_directory(work), planned[:1], blobs, lambda: False)) == 0
    assert len(store.uploaded) == 1


def test_a_file_that_vanished_declines(store: RecordingStore, work: Path) -> None:
    write(work, {"s/a": b"one"})
    planned = shards(work)
    (work / "s/a").unlink()
    with pytest.raises(ShardDeclined) as raised:
        copy_shards(work_directory(work), planned, Blobs(store, EPOCH), lambda: False)
    assert (raised.value.shard, raised.value.path) == ("s", "s/a")
    assert "vanished" in raised.value.reason


@pytest.mark.parametrize("size", [3, MIB])
def test_a_file_that_was_replaced_declines(store: RecordingStore, work: Path, size: int) -> None:
    write(work, {"s/a": b"1" * size})
    planned = shards(work)
    write(work, {"s/a": b"2" * size})
    with pytest.raises(ShardDeclined, match="replaced"):
        copy_shards(work_directory(work), planned, Blobs(store, EPOCH), lambda: False)
    assert store.uploaded == []


class ChangesTheFileBeforeItIsSent(RecordingStore):
    """Its time and size say that nothing happened."""

    def __init__(self, root: Path, file: Path) -> None:
        root.mkdir()
        super().__init__(root)
        self.file = file

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        status = self.file.stat()
        with self.file.open("r+b") as file:
            file.write(b"2")
        os.utime(self.file, ns=(status.st_atime_ns, status.st_mtime_ns))
        super().upload(key, chunks)


def test_a_file_too_large_for_memory_that_changes_between_hashing_and_sending_leaves_no_object(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier, "READ_WHOLE", 3 * MIB - 1)
    write(work, {"s/a": b"1" * (3 * MIB)})
    store = ChangesTheFileBeforeItIsSent(tmp_path / "home", work / "s/a")
    with pytest.raises(ShardDeclined, match="changed while it was read"):
        copy_shards(work_directory(work), shards(work), Blobs(store, EPOCH), lambda: False)
    assert list(store.list("")) == []


def test_a_file_that_fits_into_memory_is_sent_as_it_was_hashed(work: Path, tmp_path: Path) -> None:
    """It is read once: what changes on the disk meanwhile does not reach the home."""
    write(work, {"s/a": b"1" * (3 * MIB)})
    store = ChangesTheFileBeforeItIsSent(tmp_path / "home", work / "s/a")
    (copy,) = copy_shards(work_directory(work), shards(work), Blobs(store, EPOCH), lambda: False)
    assert store.get(copy.files[0].key) == b"1" * (3 * MIB)


def test_a_cancelled_copy_stops_in_the_middle_of_a_file_too_large_for_memory(
    store: RecordingStore, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier, "READ_WHOLE", MIB)
    write(work, {"s/a": b"1" * (8 * MIB)})
    answers = iter([False, False, False])
    with pytest.raises(Cancelled):
        copy_shards(work_directory(work), shards(work), Blobs(store, EPOCH), lambda: next(answers, True))
    assert list(store.list("")) == []


def test_a_cancelled_copy_sends_no_file_that_was_read(store: RecordingStore, work: Path) -> None:
    write(work, {"s/a": b"1" * MIB})
    answers = iter([False])
    with pytest.raises(Cancelled):
        copy_shards(work_directory(work), shards(work), Blobs(store, EPOCH), lambda: next(answers, True))
    assert list(store.list("")) == []


def test_a_storage_error_passes_through_and_is_not_remembered_as_success(work: Path, tmp_path: Path) -> None:
    write(work, {"s/a": b"one", "s/large": b"x" * MIB})
    store = new_store(tmp_path / "home")
    (tmp_path / "home").rename(tmp_path / "elsewhere")
    blobs = Blobs(store, EPOCH)
    with pytest.raises(StorageUnreachable):
        copied(work, blobs)
    (tmp_path / "elsewhere").rename(tmp_path / "home")
    assert bytes_new(copied(work, blobs)) == 3 + MIB


def test_groups_are_balanced_and_depend_on_nothing_but_the_shards() -> None:
    planned = tuple(_shard(f"s{number}", number * 8 * MIB) for number in range(1, 9))
    groups = grouped(planned, 3)
    assert groups == grouped(tuple(reversed(planned)), 3)
    assert sorted(shard.shard for group in groups for shard in group) == [shard.shard for shard in planned]
    sizes = [sum(shard.size for shard in group) for group in groups]
    assert max(sizes) - min(sizes) <= 16 * MIB
    assert grouped(planned[:2], 8) == ((planned[1],), (planned[0],))
    assert grouped((), 4) == ()


def test_little_work_is_one_group_whatever_the_size_of_what_is_known() -> None:
    planned = tuple(_shard(f"s{number}", 100 * MIB) for number in range(8))
    assert len(grouped(planned, 4)) == 4
    assert len(grouped(planned, 4, lambda file: False)) == 1
    (group,) = grouped(tuple(_shard(f"s{number}", MIB) for number in range(8)), 4)
    assert len(group) == 8


def test_a_checkpoint_with_few_new_files_writes_one_pack(store: RecordingStore, work: Path) -> None:
    write(work, {f"s{number}/large": bytes([number]) * (4 * MIB) for number in range(8)})
    blobs = Blobs(store, EPOCH)
    copied(work, blobs)
    store.uploaded.clear()
    write(work, {f"s{number}/small": bytes([number]) for number in range(8)})
    for group in grouped(shards(work), 4, blobs.is_new):
        copy_shards(work_directory(work), group, blobs, lambda: False)
    assert [key.partition("/")[0] for key in store.uploaded] == ["packs"]


def _shard(name: str, size: int) -> ShardPlan:
    return ShardPlan(ShardId(name), (WorkFile(f"{name}/f", size, "0"),))


def test_empty_files_are_kept(store: RecordingStore, work: Path) -> None:
    write(work, {"s/empty": b""})
    ((file,),) = (copy.files for copy in copied(work, Blobs(store, EPOCH)))
    assert (file.path, file.size) == ("s/empty", 0)


# --- against the sweep ---


def test_what_was_uploaded_is_live_as_long_as_its_checkpoint_is_under_way(store: RecordingStore, work: Path) -> None:
    write(work, {"s/a": b"one"})
    blobs = Blobs(store, EPOCH)
    blobs.begin("slow savepoint")
    copied(work, blobs)
    (key,) = store.uploaded
    for _ in range(10):
        blobs.commit_manifest(manifest_of(()))
        assert blobs.live_keys() == {key}
        assert blobs.reserve_for_deletion([key]) == frozenset()
    blobs.end("slow savepoint")
    blobs.commit_manifest(manifest_of(()))
    assert blobs.live_keys() == frozenset()
    assert blobs.reserve_for_deletion([key]) == {key}


def test_what_is_referred_to_again_is_live_again(store: RecordingStore, work: Path) -> None:
    write(work, {"s/a": b"one"})
    manifest = manifest_of(copied(work, Blobs(store, EPOCH)))
    blobs = Blobs(store, FencingEpoch(9))
    blobs.commit_manifest(manifest)
    assert blobs.live_keys() == frozenset()
    copied(work, blobs)
    assert blobs.live_keys() == set(store.uploaded)


def test_an_object_reserved_for_deletion_is_not_referred_to_any_more(store: RecordingStore, work: Path) -> None:
    write(work, {"s/a": b"one"})
    manifest = manifest_of(copied(work, Blobs(store, EPOCH)))
    (key,) = store.uploaded
    blobs = Blobs(store, FencingEpoch(9))
    blobs.commit_manifest(manifest)
    assert blobs.reserve_for_deletion([key]) == {key}
    store.delete(key)
    copies = copied(work, blobs)
    assert bytes_new(copies) == 3
    assert copies[0].files[0].key != key


@pytest.mark.parametrize("size", [3, MIB])
def test_nothing_is_written_to_a_key_that_is_being_deleted(store: RecordingStore, work: Path, size: int) -> None:
    write(work, {"s/a": b"x" * size})
    copied(work, Blobs(store, EPOCH))
    (key,) = store.uploaded
    blobs = Blobs(store, EPOCH)
    assert blobs.reserve_for_deletion([key]) == {key}
    with pytest.raises(ShardDeclined, match="being deleted"):
        copied(work, blobs)
    blobs.deleted([key])
    assert bytes_new(copied(work, blobs)) == size


def test_a_key_that_is_spared_stays_known(store: RecordingStore, work: Path) -> None:
    write(work, {"s/a": b"one"})
    blobs = Blobs(store, EPOCH)
    copied(work, blobs)
    assert blobs.reserve_for_deletion(store.uploaded) == frozenset()
    write(work, {"t/b": b"one"})
    assert bytes_new(copied(work, blobs)) == 0


def test_an_upload_that_comes_back_late_does_not_make_a_deleted_object_known(work: Path, tmp_path: Path) -> None:
    """Its checkpoint was aborted, others have completed: the sweep must wait for it all the same."""
    write(work, {"s/a": b"one"})
    refused = []

    class ComesBackLate(RecordingStore):
        def upload(self, key: str, chunks: object) -> None:
            super().upload(key, chunks)  # type: ignore[arg-type]
            blobs.end("aborted")
            for _ in range(3):
                blobs.commit_manifest(manifest_of(()))
            refused.append(blobs.reserve_for_deletion([key]) == frozenset())

    (tmp_path / "home").mkdir()
    blobs = Blobs(ComesBackLate(tmp_path / "home"), EPOCH)
    blobs.begin("aborted")
    ((file,),) = (copy.files for copy in copied(work, blobs))
    assert refused == [True]
    assert blobs.unclaimed() == {file.key}
    assert blobs.reserve_for_deletion([file.key]) == {file.key}
    assert blobs.find("s/a", 3, file.digest) is None


def test_a_shard_without_files_writes_nothing(store: RecordingStore, work: Path) -> None:
    write(work, {"s/a": b"one"})
    (shard,) = shards(work)
    empty = ShardPlan(shard.shard, ())
    (copy,) = copy_shards(work_directory(work), [empty], Blobs(store, EPOCH), lambda: False)
    assert (copy.files, copy.bytes_new, copy.objects_written) == ((), 0, 0)
    assert store.uploaded == []
