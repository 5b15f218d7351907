"""A checkpoint of `transformWithState` names its own place; restored elsewhere, it names the new one."""

import json
import os
from pathlib import Path

import pytest

from holdfast.checkpoint.manifest import digest_of
from holdfast.checkpoint.relocation import names_places, relocated
from holdfast.repository.blobs import Blobs
from holdfast.workdir.factory import work_directory
from holdfast.workdir.restorer import restore, take_over
from tests.unit.work_files import EPOCH, copied, manifest_of, new_store, snapshot_plan, tree, write

DESCRIPTION = "state/0/_metadata/v2/3"
SCHEMA = "/state/0/_stateSchema/default/0_a30ab3f6"


def description(*places: str) -> bytes:
    """As Spark 4.3 writes it."""
    stores = [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": list(places)}]
    operator = {"operatorId": 0, "operatorName": "transformWithStateInPandasExec"}
    properties = json.dumps({"timeMode": "None", "stateVariables": [{"stateName": "é/state/"}]})
    body = {"operatorInfo": operator, "stateStoreInfo": stores, "operatorPropertiesJson": properties}
    return b"v2\n" + json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


CONTENTS = {
    DESCRIPTION: description(f"file:/old/place{SCHEMA}"),
    SCHEMA[1:]: b"schema",
    "sources/0/0": b'v1\n{"path":"file:///old/place/state/0/_stateSchema/input.json"}',
    "state/1/_metadata/metadata": b'v1\n{"operatorInfo":{"operatorId":1}}',
}


@pytest.mark.parametrize(
    "old",
    ["file:/old/place", "file:///old/place", "hdfs://host:8020/old place", "file:/jobs/state/0/_stateSchema/x/work"],
)
def test_each_schema_path_follows_the_directory(old: str) -> None:
    before = description(f"{old}{SCHEMA}", f"{old}{SCHEMA}b")
    assert relocated(before, "file:/new pläce%20/w") == description(
        f"file:/new pläce%20/w{SCHEMA}", f"file:/new pläce%20/w{SCHEMA}b"
    )


def test_where_nothing_moved_no_byte_changes() -> None:
    assert relocated(CONTENTS[DESCRIPTION], "file:/old/place") == CONTENTS[DESCRIPTION]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"v2",
        b"v2\nno json",
        b"v3\n[1]",
        b'v3\n{"stateStoreInfo":[{"schemas":[]}]}',
        b'v3\n{"stateStoreInfo":[{"stateSchemaFilePaths":[7]}]}',
        description("elsewhere/0_a"),
    ],
)
def test_what_is_not_understood_stays_as_it_is(data: bytes) -> None:
    assert relocated(data, "file:/new") == data


def test_only_descriptions_of_operators_name_places() -> None:
    assert [path for path in CONTENTS if names_places(path)] == [DESCRIPTION]


def expected_at(place: Path) -> dict[str, bytes]:
    return CONTENTS | {DESCRIPTION: description(f"file:{place}{SCHEMA}")}


def test_a_restored_directory_names_itself_and_the_home_keeps_what_was_written(tmp_path: Path) -> None:
    work = tmp_path / "work"
    write(work, CONTENTS)
    store = new_store(tmp_path / "home")
    manifest = manifest_of(copied(work, Blobs(store, EPOCH)))
    restore(store, manifest, work_directory(tmp_path / "to"))
    assert tree(tmp_path / "to") == expected_at(tmp_path / "to")
    (kept,) = (file for file in manifest.files() if file.path == DESCRIPTION)
    assert kept.digest == digest_of(CONTENTS[DESCRIPTION])


def test_a_relative_target_becomes_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    write(work, CONTENTS)
    store = new_store(tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    restore(store, manifest_of(copied(work, Blobs(store, EPOCH))), work_directory(Path("to")))
    assert tree(tmp_path / "to") == expected_at(tmp_path / "to")


def test_a_local_copy_names_itself_and_leaves_the_original_alone(tmp_path: Path) -> None:
    work = tmp_path / "work"
    write(work, CONTENTS)
    take_over(work_directory(work), snapshot_plan(work), work_directory(tmp_path / "to"))
    assert tree(tmp_path / "to") == expected_at(tmp_path / "to")
    assert tree(work) == CONTENTS
    assert os.stat(tmp_path / "to" / SCHEMA[1:]).st_nlink == 2
