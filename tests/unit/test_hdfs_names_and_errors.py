"""HDFS without HDFS: how keys become paths, and which cause an answer is taken for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidSettings, StorageDenied, StorageError, StorageFull, StorageUnreachable
from holdfast.storage.hdfs_errors import failure
from holdfast.storage.hdfs_names import to_component, to_path
from holdfast.storage.urls import open_store

KEYS = st.lists(st.text(st.characters(exclude_characters="/", codec="utf-8"), min_size=1), min_size=1).map("/".join)


@given(KEYS)
def test_every_key_has_a_path_that_hdfs_takes_and_that_leads_back(key: str) -> None:
    components = to_path(key).split("/")
    assert "/".join(to_component(name) for name in components) == key
    assert all(":" not in name and not name.startswith(".") for name in components if not name.startswith(".tmp-"))


def test_ordinary_keys_stay_as_they_are() -> None:
    assert to_path("blobs/aa/0f.12") == "blobs/aa/0f.12"


def rpc(kind: str, text: str) -> RuntimeError:
    return RuntimeError(f'RPCError("{kind}", "{text}\\n\\tat org.apache.hadoop.ipc.Server.call(Server.java:1)")')


NO_NODE = "File /a could only be written to 0 of the 1 minReplication nodes. There are {} datanode(s) running and {} node(s) are excluded in this operation."  # noqa: E501
SAFE = "org.apache.hadoop.hdfs.server.namenode.SafeModeException"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (rpc("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota"), StorageFull),
        (rpc("org.apache.hadoop.hdfs.protocol.NSQuotaExceededException", "The NameSpace quota"), StorageFull),
        (rpc("java.io.IOException", NO_NODE.format(3, "no")), StorageFull),
        (rpc("java.io.IOException", NO_NODE.format(0, "0")), StorageUnreachable),
        (rpc("java.io.IOException", NO_NODE.format(1, "1")), StorageUnreachable),
        (rpc(SAFE, "Cannot create file. Name node is in safe mode."), StorageUnreachable),
        (rpc(SAFE, "Cannot create file. Name node is in safe mode. Resources are low on NN."), StorageFull),
        (rpc("org.apache.hadoop.security.AccessControlException", "Permission denied: user=guest"), StorageDenied),
        (rpc("org.apache.hadoop.security.token.SecretManager$InvalidToken", "expired"), StorageDenied),
        (RuntimeError("NoSASLMechanism"), StorageDenied),
        (RuntimeError('DataTransferError("All DataNodes failed: [DatanodeInfoProto { id: 1 }]")'), StorageUnreachable),
        (OSError("Connection refused (os error 111)"), StorageUnreachable),
    ],
)
def test_each_answer_is_named_after_its_cause(error: Exception, cause: type[StorageError]) -> None:
    found = failure("create hdfs://nn:8020/home/x", error)
    assert type(found) is cause
    assert found.message.startswith("could not create hdfs://nn:8020/home/x: ")
    assert not any(noise in found.message for noise in ("\n", "\\n", "RPCError", "Server.java", "DatanodeInfoProto"))


@pytest.mark.parametrize(
    "home", ["hdfs://user:secret@nn:8020/x", "hdfs:///x", "hdfs://nn:8020/x?a=b", "hdfs://nowhere/x"]
)
def test_an_address_that_cannot_be_meant_is_refused_at_once_without_its_secrets(home: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        open_store(home)
    assert "secret" not in str(caught.value)
    assert caught.value.hint
