"""Copying by other processes: the same answer as here, nothing twice, nothing that is being deleted, no wrong place."""

import os
import pickle
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from holdfast.checkpoint.manifest import ManifestFile, blob_key, digest_of
from holdfast.errors import StorageFull
from holdfast.identifiers import FencingEpoch, Ticket
from holdfast.repository.blobs import Blobs
from holdfast.repository.journal import entry_key
from holdfast.snapshot import copy_task as tasks
from holdfast.snapshot.carrier import Cancelled, ShardCopy, ShardDeclined, copy_shards
from holdfast.snapshot.copy_task import CopyReport, CopyTask, WorkerUnavailable, run_copy_task
from holdfast.snapshot.low_priority import in_the_background
from holdfast.snapshot.remote_copier import HomeOfCopies, RemoteCopier
from holdfast.storage.metered import Meter
from holdfast.workdir.factory import work_directory
from tests.unit.work_files import EPOCH, MIB, RecordingStore, manifest_of, new_store, shards, write


@dataclass
class AnotherProcess:
    """Does tasks as another process would: it gets and gives nothing but bytes."""

    sent: list[CopyTask] = field(default_factory=list)
    told: Callable[[CopyTask], CopyTask] = lambda copy_task: copy_task
    before_answer: Callable[[CopyReport], None] = lambda report: None

    def at_once(self) -> int:
        return 2

    def send(self, copy_task: CopyTask, cancelled: Callable[[], bool]) -> CopyReport:
        self.sent.append(copy_task)
        if cancelled():
            raise Cancelled
        report = pickle.loads(pickle.dumps(run_copy_task(pickle.loads(pickle.dumps(self.told(copy_task))))))
        assert isinstance(report, CopyReport)
        self.before_answer(report)
        return report


@dataclass
class World:
    root: Path
    store: RecordingStore
    work: Path
    other: AnotherProcess
    meter: Meter

    def carrier(self, worthwhile: int = 0, bandwidth: float | None = None) -> RemoteCopier:
        home = HomeOfCopies(f"file://{self.root / 'home'}", "orders", self.store, 1.0, bandwidth, self.meter)
        return RemoteCopier(self.other, home, worthwhile=worthwhile)

    def copy(self, blobs: Blobs, worthwhile: int = 0) -> tuple[ShardCopy, ...]:
        return self.carrier(worthwhile)(work_directory(self.work), shards(self.work), blobs, lambda: False)

    def stored(self) -> set[str]:
        return {item.key for folder in ("blobs/", "packs/") for item in self.store.list(folder)}


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    store = new_store(tmp_path / "home" / "orders")
    for epoch in (EPOCH, 9):
        store.create(entry_key(epoch), f"claim {epoch}".encode())
    return World(tmp_path, store, tmp_path / "work", AnotherProcess(), Meter())


def blobs_of(world: World, epoch: int = EPOCH) -> Blobs:
    return Blobs(world.store, FencingEpoch(epoch))


def test_the_answer_is_the_same_as_that_of_the_driver(world: World) -> None:
    write(world.work, {"a/small": b"one", "a/large": b"x" * MIB, "b/small": b"two", "b/same": b"one", "c/empty": b""})
    here = copy_shards(work_directory(world.work), shards(world.work), blobs_of(world), lambda: False)
    stored = world.stored()
    for key in stored:
        world.store.delete(key)
    copied = world.copy(blobs_of(world))
    assert {copy.host for copy in copied} == {socket.gethostname()}
    assert tuple(replace(copy, host="") for copy in copied) == here
    assert world.stored() == stored
    assert len(world.other.sent) == 1


def test_what_is_known_is_neither_asked_for_nor_read(world: World) -> None:
    write(world.work, {"a/small": b"one", "a/large": b"x" * MIB})
    blobs = blobs_of(world)
    first = world.copy(blobs)
    write(world.work, {"b/new": b"three"})
    again = world.copy(blobs)
    assert [[file.path for file in shard.files] for shard in world.other.sent[1].shards] == [["b/new"]]
    assert again[0].files == first[0].files
    assert [copy.bytes_new for copy in again] == [0, 5]
    assert world.copy(blobs)[1].bytes_new == 0
    assert len(world.other.sent) == 2


def test_what_another_run_uploaded_is_recognised_at_its_place(world: World) -> None:
    write(world.work, {"a/small": b"one", "a/large": b"x" * MIB})
    manifest = manifest_of(world.copy(blobs_of(world)))
    newer = blobs_of(world, 9)
    newer.commit_manifest(manifest)
    before = world.stored()
    copies = world.copy(newer)
    assert manifest_of(copies) == manifest
    assert sum(copy.bytes_new for copy in copies) == 0
    assert world.stored() == before


def test_a_repeated_copy_task_sends_nothing_twice(world: World) -> None:
    """The first one's answer is lost, as when its executor dies: Spark runs the task again elsewhere."""
    write(world.work, {"a/large": b"x" * MIB, "a/small": b"one"})
    world.copy(blobs_of(world))
    times = {key: (world.root / "home/orders" / key).stat().st_ino for key in world.stored()}
    again = run_copy_task(world.other.sent[0])
    assert again.failure is None
    assert {key: (world.root / "home/orders" / key).stat().st_ino for key in world.stored()} == times
    assert again.usage.bytes_out == 0


def test_a_damaged_object_is_sent_again(world: World) -> None:
    write(world.work, {"a/large": b"x" * MIB})
    key = blob_key(digest_of(b"x" * MIB), EPOCH)
    blobs = blobs_of(world)
    blobs.commit_manifest(manifest_of(world.copy(blobs)))
    world.store.put(key, b"broken")
    blobs.mark_damaged([key])
    world.copy(blobs)
    assert world.store.get(key) == b"x" * MIB
    with blobs.remote_uploads() as remote:
        assert remote.damaged == frozenset()


def test_a_file_that_vanished_declines_and_the_rest_is_kept(world: World) -> None:
    write(world.work, {"a/large": b"x" * MIB, "b/large": b"y" * MIB})
    planned = shards(world.work)
    (world.work / "b/large").unlink()
    blobs = blobs_of(world)
    with pytest.raises(ShardDeclined) as raised:
        world.carrier()(work_directory(world.work), planned, blobs, lambda: False)
    assert (raised.value.shard, raised.value.path) == ("b", "b/large")
    (copy,) = world.carrier()(work_directory(world.work), planned[:1], blobs, lambda: False)
    assert copy.bytes_new == 0
    assert len(world.other.sent) == 1


def test_a_store_that_refuses_is_the_same_error_as_here(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    write(world.work, {"a/small": b"one"})

    def refuse(self: object, key: str, chunks: object) -> None:
        raise StorageFull(f"could not upload {key}: no space left")

    monkeypatch.setattr(tasks._SentOnce, "upload", refuse)
    with pytest.raises(StorageFull, match="no space left"):
        world.copy(blobs_of(world))


def test_a_cancelled_copy_task_is_cancelled(world: World) -> None:
    write(world.work, {"a/small": b"one"})
    with pytest.raises(Cancelled):
        world.carrier()(work_directory(world.work), shards(world.work), blobs_of(world), lambda: True)


# --- against the sweep ---


@pytest.mark.parametrize("size", [3, MIB])
def test_what_is_reserved_for_deletion_while_others_upload_it_does_not_count(world: World, size: int) -> None:
    write(world.work, {"a/f": b"x" * size})
    blobs = blobs_of(world)

    def sweep(report: CopyReport) -> None:
        (key,) = world.stored()
        assert blobs.reserve_for_deletion([key]) == {key}
        world.store.delete(key)
        blobs.deleted([key])
        world.other.before_answer = lambda report: None

    world.other.before_answer = sweep
    with pytest.raises(ShardDeclined, match="being deleted"):
        world.copy(blobs)
    (copy,) = world.copy(blobs)
    assert copy.bytes_new == size
    assert world.stored() == {copy.files[0].key}


def test_what_was_being_deleted_before_they_were_asked_does_not_count(world: World) -> None:
    write(world.work, {"a/f": b"x"})
    key = world.copy(blobs_of(world))[0].files[0].key
    blobs = blobs_of(world)
    assert blobs.reserve_for_deletion([key]) == {key}
    with pytest.raises(ShardDeclined, match="being deleted"):
        world.copy(blobs)
    world.store.delete(key)
    blobs.deleted([key])
    assert world.copy(blobs)[0].files[0].key == key
    assert world.stored() == {key}


def test_what_others_uploaded_is_live_and_unclaimed_until_a_checkpoint_names_it(world: World) -> None:
    write(world.work, {"a/f": b"x"})
    blobs = blobs_of(world)
    blobs.begin("checkpoint")
    copies = world.copy(blobs)
    key = copies[0].files[0].key
    assert blobs.reserve_for_deletion([key]) == frozenset()
    blobs.end("checkpoint")
    blobs.commit_manifest(manifest_of(()))
    assert blobs.unclaimed() == {key}
    blobs.commit_manifest(manifest_of(copies))
    assert blobs.unclaimed() == frozenset()
    assert blobs.settled_packs() == {}
    for _ in range(3):
        blobs.commit_manifest(manifest_of(copies))
    assert blobs.settled_packs() == {key: 1}


def test_a_sparse_pack_is_not_made_known_again_by_a_late_answer(world: World) -> None:
    write(world.work, {"a/f": b"x"})
    blobs = blobs_of(world)
    (copy,) = world.copy(blobs)
    at = copy.files[0]
    blobs.mark_for_repack(frozenset({at.key}))
    with blobs.remote_uploads() as remote:
        ((file,),) = (shard.files for shard in shards(world.work))
        assert blobs.merge_remote(remote, [(file, at)]) == frozenset()
    assert blobs.find("a/f", 1, at.digest) is None


# --- wrong places ---


def _elsewhere(world: World, **changes: object) -> Callable[[CopyTask], CopyTask]:
    return lambda copy_task: replace(copy_task, place=replace(copy_task.place, **changes))  # type: ignore[arg-type]


def test_where_the_place_is_another_the_driver_copies(world: World, caplog: pytest.LogCaptureFixture) -> None:
    write(world.work, {"a/f": b"x" * MIB})
    (world.root / "other" / "orders").mkdir(parents=True)
    other_home = new_store(world.root / "other" / "orders")
    other_home.create(entry_key(EPOCH), b"claim of another")
    unfit = {
        "does not see the work directory": {"directory": work_directory("/no/such/place")},
        "another directory than on the driver": {"directory": work_directory(world.root)},
        "cannot use the home: could not read": {"job": "nobody"},
        "cannot use the home: could not open": {"home": "file:///no/such/home"},
        "is another home than on the driver": {"home": f"file://{world.root / 'other'}"},
    }
    for said, changes in unfit.items():
        world.other.told = _elsewhere(world, **changes)
        blobs = blobs_of(world)
        (copy,) = world.copy(blobs)
        assert copy.bytes_new == MIB
        assert said in caplog.messages[-1]
        world.store.delete(copy.files[0].key)
    assert [item.key for item in other_home.list("blobs/")] == []
    assert len(caplog.messages) == len(unfit)


def test_nobody_to_send_is_told_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def nobody(copy_task: CopyTask, cancelled: Callable[[], bool]) -> CopyReport:
        raise WorkerUnavailable("there is no executor")

    world.other.send = nobody  # type: ignore[method-assign]
    carrier = world.carrier()
    blobs = blobs_of(world)
    for number in range(3):
        write(world.work, {f"a/{number}": b"x" * number})
        carrier(work_directory(world.work), shards(world.work), blobs, lambda: False)
    assert caplog.messages == ["the driver copies by itself: there is no executor"]


# --- size and speed ---


def test_little_is_copied_here(world: World) -> None:
    write(world.work, {"a/f": b"x" * MIB})
    world.copy(blobs_of(world), worthwhile=MIB + 1)
    assert world.other.sent == []
    world.copy(blobs_of(world), worthwhile=MIB)
    assert len(world.other.sent) == 1


def test_others_share_the_bandwidth_and_what_they_ask_is_counted(world: World) -> None:
    write(world.work, {"a/f": b"x" * MIB})
    world.carrier(bandwidth=100.0 * MIB)(work_directory(world.work), shards(world.work), blobs_of(world), lambda: False)
    assert world.other.sent[0].bytes_per_second == 50.0 * MIB
    assert (world.meter.usage.put, world.meter.usage.bytes_out) == (1, MIB)


def test_a_copy_task_holds_no_bytes_and_no_secrets(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    write(world.work, {"a/f": b"x" * MIB})
    world.copy(blobs_of(world))
    data = pickle.dumps(world.other.sent[0])
    assert len(data) < 4096
    assert b"very-secret" not in data


def test_pins_are_looked_into(world: World) -> None:
    write(world.work, {"a/f": b"pinned"})
    planned = shards(world.work)
    directory = work_directory(world.work)
    assert directory.pin(Ticket(1), planned[0].files)
    (world.work / "a/f").unlink()
    (copy,) = world.carrier()(directory, planned, blobs_of(world), lambda: False)
    at: ManifestFile = copy.files[0]
    assert world.store.read(at.key, at.offset, at.size) == b"pinned"


def priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_background_work_has_a_low_priority_and_gives_its_answer() -> None:
    here = priority()
    assert in_the_background(priority) == max(here, 10)
    assert priority() == here
    with pytest.raises(ZeroDivisionError):
        in_the_background(lambda: 1 / 0)


def test_background_work_of_a_process_with_a_lower_priority_is_not_raised() -> None:
    """As root, setting a priority can raise it."""

    def lowered() -> int:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        return in_the_background(priority)

    with ThreadPoolExecutor(1) as thread_of_its_own:
        assert thread_of_its_own.submit(lowered).result() == 19
