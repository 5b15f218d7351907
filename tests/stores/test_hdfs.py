"""What is particular to HDFS: causes are told apart, the NameNode may be silent, writers die."""

import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import OutcomeUnknown, StorageDenied, StorageError, StorageFull, StorageUnreachable
from holdfast.storage.hdfs import HdfsStore, open_hdfs
from holdfast.storage.hdfs_connection import HdfsConnection
from holdfast.storage.interface import Created
from tests.patience import PATIENCE
from tests.stores.cutting_proxy import Fate, cutting_proxy
from tests.stores.hdfs_server import HdfsServer
from tests.stores.processes import free_port

WRITER_THAT_DIES = """
import os, signal, sys
from holdfast.storage.hdfs import open_hdfs

def half():
    yield b"x" * (5 << 20)
    os.kill(os.getpid(), signal.SIGKILL)

open_hdfs(sys.argv[1]).upload("blobs/aa/one", half())
"""
PROCESS_THAT_ENDS_AMID_CALLS = """
import sys, threading
from holdfast.storage.hdfs import open_hdfs
store = open_hdfs(sys.argv[1])
under_way = threading.Semaphore(0)

def write_for_ever():
    while True:
        try:
            store.put(f"{threading.get_ident()}", b"x")
        finally:
            under_way.release()

for _ in range(4):
    threading.Thread(target=write_for_ever, daemon=True).start()
for _ in range(20):
    under_way.acquire()
"""


@pytest.fixture
def path() -> str:
    return f"/particular/{uuid.uuid4().hex[:12]}"


def test_each_refusal_is_named_after_its_cause(hdfs: HdfsServer, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = HdfsStore(HdfsConnection(hdfs.address), path)
    store.put("small", b"x")

    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    stranger = HdfsStore(HdfsConnection(hdfs.address), path)
    with pytest.raises(StorageDenied, match=r"Permission denied: user=stranger"):
        stranger.create("journal/1", b"x")
    monkeypatch.delenv("HADOOP_USER_NAME")

    hdfs.administer("-setSpaceQuota", "9m", path)
    with pytest.raises(StorageFull, match=r"quota"):
        store.upload("blobs/aa/large", (b"x" * (1 << 20) for _ in range(12)))

    hdfs.administer("-safemode", "enter")
    try:
        with pytest.raises(StorageUnreachable, match=r"safe mode") as caught:
            store.create("journal/1", b"x")
        assert caught.value.hint
        assert store.get("small") == b"x", "reading goes on"
    finally:
        hdfs.administer("-safemode", "leave")
    assert store.create("journal/1", b"x") is Created.WON
    assert [item.key for item in store.list("")] == ["journal/1", "small"]
    assert list(store.temporaries()) == []


def test_what_a_killed_writer_left_is_no_object_and_can_be_freed(hdfs: HdfsServer, path: str) -> None:
    home = f"{hdfs.address}{path}"
    assert subprocess.run([sys.executable, "-c", WRITER_THAT_DIES, home], check=False).returncode == -9
    store = HdfsStore(HdfsConnection(hdfs.address), path)
    assert list(store.list("")) == []
    (left,) = store.temporaries()
    assert left.key.startswith("blobs/aa/.tmp-")
    assert left.modified_at > 0
    store.delete(left.key)
    assert list(store.temporaries()) == []
    store.upload("blobs/aa/one", [b"whole"])
    assert store.get("blobs/aa/one") == b"whole"


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that accepts and never answers, as a host behind a broken switch does."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(16)
        yield server.getsockname()[1]


def test_a_silent_namenode_times_out(silent: int) -> None:
    connection = HdfsConnection(f"hdfs://127.0.0.1:{silent}", metadata_patience=0.2, data_patience=0.2)
    store = HdfsStore(connection, "/homes")
    for attempt in (
        lambda: store.create("journal/1", b"x"),
        lambda: store.upload("blobs/aa/one", [b"x"]),
        lambda: store.get("journal/1"),
        lambda: store.exists("journal/1"),
        lambda: list(store.list("")),
        store.children,
    ):
        with pytest.raises(StorageUnreachable, match=r"the NameNode did not answer within 0\.2 s"):
            attempt()
    with pytest.raises(OutcomeUnknown, match=r"did not answer within 0\.2 s"):
        store.delete("journal/1")


@pytest.mark.parametrize(("fate", "stands"), [(Fate.ANSWER_DROPPED, True), (Fate.NEVER_ARRIVES, False)])
def test_a_rename_without_answer_is_unknown(hdfs: HdfsServer, path: str, fate: Fate, stands: bool) -> None:
    direct = HdfsStore(HdfsConnection(hdfs.address), path)
    with cutting_proxy(hdfs.port, rb"rename2", lambda: fate) as proxy:
        store = HdfsStore(HdfsConnection(f"hdfs://127.0.0.1:{proxy.port}"), path)
        with pytest.raises(OutcomeUnknown):
            store.create("created", b"mine")
        with pytest.raises(StorageUnreachable):
            store.put("put", b"mine")
        with pytest.raises(StorageUnreachable):
            store.upload("uploaded", [b"mine"])
    assert [item.key for item in direct.list("")] == (["created", "put", "uploaded"] if stands else [])
    assert list(direct.temporaries()) == []
    assert direct.create("created", b"other") is (Created.LOST if stands else Created.WON)


@pytest.mark.parametrize(("fate", "stands"), [(Fate.ANSWER_DROPPED, False), (Fate.NEVER_ARRIVES, True)])
def test_a_delete_without_answer_is_unknown(hdfs: HdfsServer, path: str, fate: Fate, stands: bool) -> None:
    direct = HdfsStore(HdfsConnection(hdfs.address), path)
    direct.put("a", b"x")
    with cutting_proxy(hdfs.port, rb"delete", lambda: fate) as proxy, pytest.raises(OutcomeUnknown):
        HdfsStore(HdfsConnection(f"hdfs://127.0.0.1:{proxy.port}"), path).delete("a")
    assert direct.exists("a") is stands


def test_where_nobody_listens_nothing_is_in_doubt(path: str) -> None:
    store = HdfsStore(HdfsConnection(f"hdfs://127.0.0.1:{free_port()}"), path)
    for attempt in (lambda: store.create("a", b"x"), lambda: store.put("a", b"x"), lambda: store.delete("a")):
        with pytest.raises(StorageUnreachable, match=r"the NameNode did not answer: Connection refused"):
            attempt()


def test_a_process_that_ends_while_calls_are_under_way_ends_well(hdfs: HdfsServer, path: str) -> None:
    command = [sys.executable, "-c", PROCESS_THAT_ENDS_AMID_CALLS, f"{hdfs.address}{path}"]
    ends = [subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False) for _ in range(3)]
    assert [end.returncode for end in ends] == [0, 0, 0], "it was not aborted"


def test_a_namenode_that_comes_back_is_used_again(hdfs: HdfsServer, path: str) -> None:
    store = HdfsStore(HdfsConnection(hdfs.address), path)
    assert store.create("journal/1", b"x") is Created.WON
    with hdfs.put_right():
        hdfs.kill_namenode()
        with pytest.raises(StorageError):
            store.create("journal/2", b"x")
    assert store.create("journal/1", b"y") is Created.LOST
    assert store.get("journal/1") == b"x"


def test_a_nameservice_whose_first_namenode_is_dead(
    hdfs: HdfsServer, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "dfs.ha.namenodes.cluster": "nn1,nn2",
        "dfs.namenode.rpc-address.cluster.nn1": f"127.0.0.1:{free_port()}",
        "dfs.namenode.rpc-address.cluster.nn2": f"127.0.0.1:{hdfs.port}",
    }
    properties = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()]
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{''.join(properties)}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))

    store = open_hdfs(f"hdfs://cluster{path}")
    assert store.url == f"hdfs://cluster{path}"
    assert store.create("journal/1", b"x") is Created.WON
    assert HdfsStore(HdfsConnection(hdfs.address), path).get("journal/1") == b"x"


def test_datanodes_die_during_uploads(hdfs: HdfsServer, path: str) -> None:
    store = HdfsStore(HdfsConnection(hdfs.address), path)
    whole = b"".join(bytes([piece % 256]) * 1000 for piece in range(1000))

    def while_one_dies() -> Iterator[bytes]:
        yield whole[: len(whole) // 2]
        hdfs.kill_datanode(0)
        yield whole[len(whole) // 2 :]

    with hdfs.put_right():
        store.upload("blobs/aa/replicated", while_one_dies())
        assert store.get("blobs/aa/replicated") == whole
        hdfs.kill_datanode(1)
        with pytest.raises(StorageUnreachable, match=r"could not upload .*DataNode"):
            store.upload("blobs/bb/lost", [whole])
        assert [item.key for item in store.list("")] == ["blobs/aa/replicated"]
        with pytest.raises(StorageUnreachable, match=r"could not read .*DataNode"):
            store.get("blobs/aa/replicated")
    store.upload("blobs/bb/lost", [b"again"])
    assert store.get("blobs/bb/lost") == b"again"
    assert list(store.temporaries()) == []
