"""R14: a read gives all of it or raises. Few bytes never mean damage, absence, lost or "no marker"."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from holdfast.errors import StorageUnreachable
from holdfast.repository.entries import Process
from holdfast.repository.mailbox import Request, place_request, read_request
from holdfast.repository.ownership import Heartbeat, read_heartbeat, write_heartbeat
from holdfast.storage.hdfs import HdfsStore
from holdfast.storage.hdfs_connection import HdfsConnection
from holdfast.storage.interface import Created, ObjectStore
from holdfast.storage.local import LocalStore
from holdfast.storage.retrying import Patience, RetryingStore
from holdfast.storage.urls import open_store
from holdfast.workdir.factory import work_directory
from holdfast.workdir.soundness import damage
from tests.stores.hdfs_server import HdfsServer, running_hdfs

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROCESS = Process("host", 1)
HEARTBEAT = Heartbeat(PROCESS, 7, NOW, NOW, 5.0)  # type: ignore[arg-type]
REQUEST = Request(id="r", kind="stop", head=1, asked_at=NOW, expires_at=NOW, asker=PROCESS)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """DataNodes tell of new blocks only when asked to: until then a file's last block is committed, not complete.

    On big clusters, which let DataNodes gather their reports, it is so for seconds. Costs a start of HDFS.
    """
    # A heartbeat takes reports along, so it has to be rare too.
    settings = {"dfs.blockreport.incremental.intervalMsec": "3600000", "dfs.heartbeat.interval": "3600"}
    with running_hdfs(tmp_path_factory.mktemp("late"), datanodes=2, settings=settings) as server:
        # The first report is not held back: each DataNode has to have sent one.
        open_store(f"{server.address}/first").put("a", b"x")
        yield server


class TestHdfs:
    """The file is closed, listing and status have its length, and its block cannot be read yet."""

    @pytest.fixture
    def at_once(self, late: HdfsServer, request: pytest.FixtureRequest) -> HdfsStore:
        """Without retries."""
        return HdfsStore(HdfsConnection(late.address), f"/homes/{request.node.name}")

    def test_what_cannot_be_read_yet_is_not_empty(self, at_once: HdfsStore) -> None:
        at_once.put("a", b"value")
        (listed,) = at_once.list("")
        assert listed.size == 5
        for read in (
            lambda: at_once.get("a"),
            lambda: list(at_once.stream("a")),
            lambda: at_once.read("a", 0, 5),
            lambda: at_once.read("a", 3, 1),
        ):
            with pytest.raises(StorageUnreachable, match="bytes arrived"):
                read()

    def test_a_store_that_retries_gives_all_of_it_as_soon_as_it_can(self, late: HdfsServer) -> None:
        store = open_store(f"{late.address}/homes/retrying")
        store.put("a", b"value")
        with ThreadPoolExecutor() as pool:
            reading = pool.submit(store.get, "a")
            late.report_blocks()
            assert reading.result() == b"value"

    def test_a_lost_answer_is_not_read_back_as_anothers(self, late: HdfsServer) -> None:
        """A run fenced itself: read back empty, its own entry was another's."""
        at_once = HdfsStore(HdfsConnection(late.address), "/homes/read-back")
        store = RetryingStore(at_once, Patience(deadline=0.0))
        assert store.create("journal/1", b"mine") is Created.WON
        assert store._read_back("journal/1", b"mine") is None
        late.report_blocks()
        assert open_store(f"{late.address}/homes/read-back").get("journal/1") == b"mine", "the NameNode has heard of it"
        assert store._read_back("journal/1", b"mine") is Created.WON

    def test_no_heartbeat_and_no_request_is_said_of_one_that_is_there(self, at_once: HdfsStore) -> None:
        write_heartbeat(at_once, HEARTBEAT)
        with pytest.raises(StorageUnreachable, match="bytes arrived"):
            read_heartbeat(at_once)
        place_request(at_once, REQUEST)
        with pytest.raises(StorageUnreachable, match="bytes arrived"):
            read_request(at_once)
        assert at_once.exists("requests/next.json"), "nor is it removed"

    def test_a_file_of_a_work_directory_is_waited_for(self, late: HdfsServer) -> None:
        directory = work_directory(f"{late.address}/work")
        directory.write_atomic("marker", b"mine")
        with ThreadPoolExecutor() as pool:
            reading = pool.submit(directory.read, "marker")
            late.report_blocks()
            assert reading.result() == b"mine"

    def test_or_it_is_an_error_and_not_an_empty_file(self, late: HdfsServer) -> None:
        directory = work_directory(f"{late.address}/impatient").within(0.3)
        directory.write_atomic("marker", b"mine")
        with pytest.raises(OSError, match="bytes arrived"):
            directory.read("marker")

    def test_a_work_directory_that_cannot_be_read_yet_is_not_damaged(self, late: HdfsServer) -> None:
        directory = work_directory(f"{late.address}/sound").within(0.3)
        for name, data in {"metadata": b'{"id":"1"}', "offsets/0": b"v1\n{}\n{}", "commits/0": b"v1\n{}"}.items():
            directory.write_atomic(name, data)
        with pytest.raises(OSError, match="bytes arrived"):
            damage(directory)


def test_a_small_step_times_out_long_before_a_heartbeat_is_stale(late: HdfsServer) -> None:
    store = HdfsStore(HdfsConnection(late.address, data_patience=30, small_patience=0.5), "/homes/hanging")
    store.put("owner.json", b"{}")
    with late.hanging_datanode(), pytest.raises(StorageUnreachable, match=r"a DataNode did not answer within 0\.5 s"):
        store.put("owner.json", b"{}")


def test_a_local_file_that_ends_early_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system knew a length and gave less. The store is real; only the length is told longer."""
    store = LocalStore(tmp_path)
    store.put("a", b"value")
    real = os.fstat

    def longer(handle: int) -> os.stat_result:
        status = real(handle)
        fields = list(status)
        fields[6] += 3
        return os.stat_result(fields)

    monkeypatch.setattr("holdfast.storage.local.os.fstat", longer)
    for read in (lambda: store.get("a"), lambda: list(store.stream("a")), lambda: store.read("a", 2, 100)):
        with pytest.raises(StorageUnreachable, match="bytes arrived"):
            read()
    assert store.read("a", 0, 5) == b"value"


class NotWholeYet:
    """A store whose reads fail as those of a file that is not complete."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def get(self, key: str) -> bytes:
        if self._store.exists(key):
            raise StorageUnreachable("not readable now")
        return self._store.get(key)


def test_a_create_in_doubt_stays_in_doubt(tmp_path: Path) -> None:
    store = RetryingStore(NotWholeYet(LocalStore(tmp_path)), Patience(deadline=0.0))  # type: ignore[arg-type]
    store.create("a", b"mine")
    assert store._read_back("a", b"mine") is None
    assert store._read_back("a", b"other") is None


class WrongOnce(LocalStore):
    """A gateway answers the first read with a page of its own."""

    answers: ClassVar[list[bytes]] = [b"<html/>"]

    def get(self, key: str) -> bytes:
        return self.answers.pop() if self.answers else super().get(key)


def test_a_request_is_not_removed_because_of_one_wrong_answer(tmp_path: Path) -> None:
    store = WrongOnce(tmp_path)
    LocalStore(tmp_path).create("requests/next.json", msgspec.json.encode(REQUEST))
    assert read_request(store) is None
    assert read_request(store) == REQUEST
