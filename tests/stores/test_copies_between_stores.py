"""A job moves from a directory to each kind of store, and back to a directory: whole, proved, repairable."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.repository.damage import readable_manifests
from holdfast.repository.inventory import objects_of
from holdfast.repository.journal import read_entries
from holdfast.repository.repair import Repair
from holdfast.repository.state import JobState
from holdfast.repository.verification import verify
from holdfast.storage.urls import open_store
from tests.unit.test_copying import Source
from tests.unit.work_files import tree


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


@pytest.mark.parametrize("kind", ["s3", "gcs", "azure", "hdfs"])
def test_there_and_back(source: Source, tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    server: Any = request.getfixturevalue(kind)
    there = f"{server.address}/copies" if kind == "hdfs" else server.home(f"copies/{kind}")
    assert main([*source.arguments()[:-1], there, "--all"]) == 0
    assert main(["verify", "--home", there]) == 0
    assert main([*source.arguments()[:-1], there, "--all"]) == 0, "again, with nothing to do"
    _repair_one(there)
    back = ["copy", "--home", there, "--job", "orders", "--to", f"file://{source.to}", "--as", "returned"]
    assert main(back) == 0
    home = ["--home", f"file://{source.to}", "--job", "returned"]
    assert main(["restore", *home, "--to", str(tmp_path / "restored")]) == 0
    assert tree(tmp_path / "restored") == tree(source.work)


def _repair_one(home: str) -> None:
    """An object is written again at its own key, which stores must allow."""
    store = open_store(home).scoped("orders")
    newest = JobState.of(read_entries(store)).restorable()[0]
    objects = objects_of(readable_manifests(store, [newest]))
    blob = next(item for item in objects.values() if not item.is_pack)
    right = store.get(blob.key)
    store.upload(blob.key.rpartition(".")[0] + ".99", [right])
    store.upload(blob.key, [b"wrong" + right[5:]])
    assert len(verify(store, newest.id, newest.manifest).corrupt) == 1
    assert Repair(store, objects).put_right(blob) == blob.key.rpartition(".")[0] + ".99"
    assert verify(store, newest.id, newest.manifest).corrupt == ()
