"""A checkpoint directory on an object store, as `holdfast adopt` reads it."""

import errno
import pickle
from pathlib import Path

import pytest

from holdfast.errors import Corrupt
from holdfast.storage.urls import open_store
from holdfast.workdir.interface import Changed
from holdfast.workdir.object_place import ObjectDirectory
from holdfast.workdir.planned_file import whole

FILES = {
    "metadata": b"{}",
    "offsets/1": b"one",
    "offsets/10": b"ten",
    "state/0/1/1.delta": b"state",
    "sources/0/0": b"s",
}


@pytest.fixture
def directory(tmp_path: Path) -> ObjectDirectory:
    store = open_store(f"file://{tmp_path}")
    for path, data in FILES.items():
        store.put(f"query/{path}", data)
    store.put("query-2/metadata", b"another")
    return ObjectDirectory(f"file://{tmp_path}").at("query")


def test_it_shows_what_is_below_it_and_nothing_beside_it(directory: ObjectDirectory) -> None:
    assert directory.names() == ["metadata", "offsets", "sources", "state"]
    assert directory.folders() == ["offsets", "sources", "state"]
    assert directory.names("offsets") == ["1", "10"]
    assert (directory.names("commits"), directory.exists("commits"), directory.exists("offsets")) == ([], False, True)
    assert {file.path: file.size for file in directory.scan()} == {path: len(data) for path, data in FILES.items()}
    assert {file.path for file in directory.scan(skip="sources")} == FILES.keys() - {"sources/0/0"}


def test_a_name_is_not_the_beginning_of_another(directory: ObjectDirectory) -> None:
    assert directory.stat("offsets/1").size == 3
    with pytest.raises(FileNotFoundError):
        directory.stat("offset")
    assert not directory.exists("offset")
    with pytest.raises(FileNotFoundError):
        directory.read("offsets/2")


def test_a_planned_file_that_was_replaced_is_not_taken_for_it(directory: ObjectDirectory, tmp_path: Path) -> None:
    planned = directory.stat("offsets/10")
    with directory.open_planned(planned) as handle:
        assert whole(handle, planned) == b"ten"
    open_store(f"file://{tmp_path}").put("query/offsets/10", b"eleven")
    with pytest.raises(Changed), directory.open_planned(planned):
        pass
    with pytest.raises(Changed), directory.open_planned(planned) as handle:
        open_store(f"file://{tmp_path}").delete("query/offsets/10")


def test_it_is_only_read_and_leads_nowhere_else(directory: ObjectDirectory) -> None:
    with pytest.raises(OSError, match="Read-only") as refused:
        directory.write_atomic("metadata", b"")
    assert refused.value.errno == errno.EROFS
    with pytest.raises(Corrupt):
        directory.read("../query-2/metadata")
    assert pickle.loads(pickle.dumps(directory)).read("metadata") == b"{}"
