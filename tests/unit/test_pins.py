"""Pinned files are copied as planned, whatever Spark does to their names; without links a copy declines as before."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.checkpoint.layout import NotPlannable
from holdfast.identifiers import Ticket
from holdfast.repository.blobs import Blobs
from holdfast.snapshot.carrier import ShardDeclined, copy_shards
from holdfast.workdir import barriers
from holdfast.workdir.factory import work_directory
from holdfast.workdir.restorer import restore
from holdfast.workdir.soundness import damage
from tests.unit.churning_runs import BATCHES_RETAINED, ChurningRun, ManualClock, manifest_of, state_of
from tests.unit.work_files import EPOCH, new_store, shards, tree, write
from tests.unit.work_files import manifest_of as manifest_of_copies


@pytest.fixture
def without_links(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    link = os.link

    def refuse(number: int) -> None:
        def refusing(source: object, target: object, **folders: object) -> None:
            if ".pins" in str(target):
                raise OSError(number, os.strerror(number))
            link(str(source), str(target), **folders)  # type: ignore[arg-type] # the store creates its entries by links

        monkeypatch.setattr(os, "link", refusing)

    return refuse


class Hasty:
    """While the journal takes the start of each checkpoint, so many batches pass that Spark deletes the barrier."""

    def __init__(self, tmp_path: Path) -> None:
        self.home, self.work = tmp_path / "home", tmp_path / "work"
        self.home.mkdir()
        self.hurry = False
        self.run = ChurningRun(self.home, self.work, ManualClock(), watch=self._watch)

    def _watch(self, operation: str, key: str) -> None:
        if self.hurry and operation == "create":
            self.hurry = False
            for _ in range(3 * BATCHES_RETAINED):
                self.run.query.batch()

    def checkpoint(self) -> int:
        """A checkpoint of the newest barrier, which is its answer; deleted before a byte of it is read."""
        self.run.query.batch()
        barrier = barriers.newest_barrier(work_directory(self.run.query.directory))
        assert barrier is not None
        self.hurry = True
        self.run.wait(1.25)
        assert not (self.run.query.directory / "commits" / str(barrier)).exists()
        return barrier

    def pins(self) -> list[Path]:
        return [*self.work.glob("churn/.*.pins/*/*")]


def test_a_barrier_that_spark_deletes_at_once_is_copied_from_its_pins(tmp_path: Path) -> None:
    hasty = Hasty(tmp_path)
    barrier = hasty.checkpoint()
    (completed, *_) = state_of(hasty.home).restorable()[::-1]
    assert completed.barrier_batch_id == barrier
    restore(hasty.run.store, manifest_of(hasty.home, completed), work_directory(tmp_path / "restored"))
    assert damage(work_directory(tmp_path / "restored")) is None
    assert barriers.newest_barrier(work_directory(tmp_path / "restored")) == barrier
    assert hasty.pins() == []
    hasty.run.stop()


@pytest.mark.parametrize("number", [errno.EPERM, errno.EXDEV, errno.ENOTSUP, errno.EMLINK, errno.ENOSPC])
def test_without_links_the_same_barrier_is_declined_and_a_newer_one_taken(
    tmp_path: Path, without_links: Callable[[int], None], number: int
) -> None:
    hasty = Hasty(tmp_path)
    without_links(number)
    barrier = hasty.checkpoint()
    assert [failed.barrier_batch_id for failed in state_of(hasty.home).failed] == [barrier]
    hasty.run.wait(3)
    assert state_of(hasty.home).restorable()[0].barrier_batch_id > barrier
    hasty.run.stop()


def test_only_what_is_not_in_the_home_yet_is_pinned(tmp_path: Path) -> None:
    work = tmp_path / "work"
    write(work, {"state/old": b"old", "state/new": b"new"})
    store = new_store(tmp_path / "home")
    blobs = Blobs(store, EPOCH)
    (shard,) = shards(work)
    old, new = sorted(shard.files, key=lambda file: file.path == "state/new")
    assert not blobs.holds(old)
    copies = copy_shards(work_directory(work), [type(shard)(shard.shard, (old,))], blobs, lambda: False)
    blobs.commit_manifest(manifest_of_copies(copies))
    assert blobs.holds(old)
    assert not blobs.holds(new)
    blobs.forget({copies[0].files[0].key})
    assert not blobs.holds(old), "read once, but its bytes are not in the home any more"


def test_a_name_that_was_used_again_does_not_matter(tmp_path: Path) -> None:
    """Format v1 may write a name again with other bytes, by renaming another file over it."""
    work = tmp_path / "work"
    write(work, {"state/1.delta": b"planned"})
    planned = shards(work)
    directory = work_directory(work)
    assert directory.pin(Ticket(1), planned[0].files)
    write(work, {"state/1.delta": b"another"})
    store = new_store(tmp_path / "home")
    with pytest.raises(ShardDeclined, match="was replaced"):
        copy_shards(work_directory(work), planned, Blobs(store, EPOCH), lambda: False)
    copies = copy_shards(directory, planned, Blobs(store, EPOCH), lambda: False)
    restore(store, manifest_of_copies(copies), work_directory(tmp_path / "restored"))
    assert tree(tmp_path / "restored") == {"state/1.delta": b"planned"}


def test_what_is_gone_already_cannot_be_pinned(tmp_path: Path) -> None:
    work = tmp_path / "work"
    write(work, {"state/1.delta": b"one", "state/2.delta": b"two"})
    (planned,) = shards(work)
    (work / "state/2.delta").unlink()
    directory = work_directory(work)
    with pytest.raises(NotPlannable, match=r"state/2\.delta vanished"):
        directory.pin(Ticket(1), planned.files)
    write(work, {"state/2.delta": b"TWO"})
    with pytest.raises(NotPlannable, match=r"state/2\.delta was replaced"):
        directory.pin(Ticket(1), planned.files)
    assert [*tmp_path.glob(".work.pins/*")] == []


def test_a_file_system_without_links_is_asked_once(tmp_path: Path, without_links: Callable[[int], None]) -> None:
    work = tmp_path / "work"
    write(work, {"state/1.delta": b"one"})
    (planned,) = shards(work)
    directory = work_directory(work)
    without_links(errno.ENOSPC)
    assert not directory.pin(Ticket(1), planned.files), "passing trouble"
    without_links(errno.EPERM)
    assert not directory.pin(Ticket(2), planned.files)
    assert [*tmp_path.glob(".work.pins/*")] == []
    without_links(errno.ENOENT)
    assert not directory.pin(Ticket(3), planned.files)


def test_a_run_removes_the_pins_that_a_dead_one_left(tmp_path: Path) -> None:
    hasty = Hasty(tmp_path)
    hasty.run.query.batch()
    left = hasty.work / "churn" / f".{hasty.run.query.directory.name}.pins" / "7"
    left.mkdir(parents=True)
    (left / "123").write_bytes(b"kept by a link")
    ChurningRun(hasty.home, hasty.work, hasty.run.clock, seed=1)
    assert not left.parent.exists()
