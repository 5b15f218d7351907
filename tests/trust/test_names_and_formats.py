"""R11: names have a grammar, formats have numbers. What is neither ours nor known is never read, never deleted."""

import gzip
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.checkpoint.manifest import (
    FORMAT,
    Manifest,
    ManifestFile,
    ManifestShard,
    blob_key,
    decode_manifest,
    digest_of,
    encode_manifest,
    manifest_key,
    pack_key,
)
from holdfast.cli.main import main
from holdfast.errors import Corrupt, InvalidKey, NewerFormat, ObjectNotFound, StorageError
from holdfast.identifiers import CONTROL_SHARD, BatchId, CheckpointId, Digest, FencingEpoch
from holdfast.repository import names
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import Retention
from holdfast.repository.mailbox import read_request
from holdfast.repository.ownership import decoded, read_heartbeat
from holdfast.repository.sealing import opened, sealed
from holdfast.sinks import ledger
from holdfast.sinks.protocol import StagedBatch
from holdfast.storage.home_identity import KEY, ensure_home_identity, read_home_identity
from holdfast.storage.local import LocalStore
from holdfast.workdir.factory import work_directory
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.work_files import MIB, write

FILES = (ManifestFile("state/0/1.sst", 3, digest_of(b"abc"), FencingEpoch(1), digest_of(b"pack"), 7),)
MANIFEST = Manifest(
    FORMAT, "orders", CheckpointId(1), BatchId(1), FencingEpoch(1), (ManifestShard(CONTROL_SHARD, FILES),)
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_every_name_that_holdfast_gives_is_its_own() -> None:
    digest = digest_of(b"x")
    assert names.is_entry(f"journal/{7:020d}.json")
    assert names.is_fold(f"folds/{7:020d}.json")
    assert names.is_manifest(manifest_key(digest))
    assert names.is_blob_or_pack(blob_key(digest, FencingEpoch(1_000_004)))
    assert names.is_blob_or_pack(pack_key(digest, FencingEpoch(3)))


@pytest.mark.parametrize("folder", names.FOLDERS)
@pytest.mark.parametrize(
    "name", [".nfs00000000001", ".DS_Store", "x~", f"{7:020d}.json~", f"{'a' * 64}.tmp", "ab/.nfs7", f"zz/{'a' * 64}.1"]
)
def test_what_file_systems_and_people_leave_is_foreign(folder: str, name: str) -> None:
    assert names.is_foreign(folder + name)


class TestHomeIdentity:
    def test_it_is_made_once(self, tmp_path: Path) -> None:
        home = LocalStore(tmp_path)
        assert read_home_identity(home) is None
        made = ensure_home_identity(home, id="first", now=NOW)
        assert made.id == "first"
        assert ensure_home_identity(home, id="second", now=NOW) == made == read_home_identity(home)

    def test_one_of_a_newer_version_is_not_read_as_if_it_were_known(self, tmp_path: Path) -> None:
        (tmp_path / KEY).write_bytes(b'{"format":2,"id":"x","created_at":"2026-01-01T00:00:00Z"}')
        with pytest.raises(NewerFormat, match="newer version"):
            ensure_home_identity(LocalStore(tmp_path), id="mine", now=NOW)

    def test_one_that_cannot_be_read_is_not_replaced(self, tmp_path: Path) -> None:
        (tmp_path / KEY).write_bytes(b"{}")
        with pytest.raises(Corrupt):
            ensure_home_identity(LocalStore(tmp_path), id="mine", now=NOW)
        assert (tmp_path / KEY).read_bytes() == b"{}"


class TestManifest:
    def decoded(self, **changed: object) -> Manifest:
        document = msgspec.json.decode(gzip.decompress(encode_manifest(MANIFEST)))
        file = document["shards"][0]["files"][0]
        for name, value in changed.items():
            (file if name in file or name == "pack" else document)[name] = value
        data = gzip.compress(msgspec.json.encode(document))
        return decode_manifest(data, digest_of(data))

    def test_it_is_read(self) -> None:
        assert self.decoded() == MANIFEST

    @pytest.mark.parametrize("digest", ["../../x", "", "a" * 63, "A" * 64, "a" * 64 + "\n", "a" * 64 + "/.."])
    def test_a_digest_is_a_digest(self, digest: str) -> None:
        with pytest.raises(Corrupt):
            self.decoded(digest=digest)
        with pytest.raises(Corrupt):
            self.decoded(pack=digest)

    @pytest.mark.parametrize("path", ["", "/etc/x", "..", "../x", "a/../../x", "a//b", "a/", "./a", "a\0b"])
    def test_a_path_stays_below_the_directory(self, path: str) -> None:
        with pytest.raises(Corrupt):
            self.decoded(path=path)

    @pytest.mark.parametrize(("name", "value"), [("size", -1), ("epoch", -1), ("offset", -1)])
    def test_a_number_counts(self, name: str, value: int) -> None:
        with pytest.raises(Corrupt):
            self.decoded(**{name: value})

    def test_a_newer_format_is_no_damage_and_is_not_read(self) -> None:
        with pytest.raises(NewerFormat, match="written by a newer version"):
            self.decoded(format=2)

    def test_nor_is_an_entry_with_a_digest_that_is_none(self) -> None:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert("../../x", Digest)


class TestCollecting:
    """`holdfast collect` on a home that somebody else put something into."""

    @pytest.fixture
    def history(self, tmp_path: Path) -> History:
        history = History(tmp_path / "home")
        epoch = history.run(retention=Retention(retained=1))
        blobs = Blobs(history.store, FencingEpoch(epoch))
        for id in (1, 2):
            write(tmp_path / f"work-{id}", {"commits/12": b"commits", "state/large.sst": bytes([id]) * MIB})
            complete_with_bytes(history, id, tmp_path / f"work-{id}", blobs)
        return history

    def collect(self, history: History, capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
        history.end()
        assert main(["collect", "--home", f"file://{history.home}", "--job", history.job, "--json"]) == code
        out = capsys.readouterr().out
        document: dict[str, Any] = json.loads(out) if out else {}
        return document

    def test_foreign_names_are_told_and_left_alone(self, history: History, capsys: pytest.CaptureFixture[str]) -> None:
        foreign = ["blobs/.DS_Store", "blobs/ab/.nfs0001", "manifests/notes~", "packs/x.1"]
        for key in foreign:
            (history.home / history.job / key).parent.mkdir(parents=True, exist_ok=True)
            (history.home / history.job / key).write_bytes(b"somebody's")
        document = self.collect(history, capsys)
        assert sorted(document["foreign"]) == sorted(foreign)
        assert document["freed"]["objects"] > 0
        for key in foreign:
            assert (history.home / history.job / key).read_bytes() == b"somebody's"

    def test_a_link_leads_nowhere(self, history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        outside = tmp_path / "outside"
        orphan = "ab" * 32 + ".1"
        (outside / "ab").mkdir(parents=True)
        (outside / "ab" / orphan).write_bytes(b"precious")
        blobs = history.home / history.job / "blobs"
        (blobs / "ab").symlink_to(outside / "ab")
        (blobs / "cd").mkdir(exist_ok=True)
        (blobs / "cd" / ("cd" * 32 + ".1")).symlink_to(outside / "ab" / orphan)
        document = self.collect(history, capsys)
        assert not [item for item in document["objects"] if "/ab/" in item["key"] or "/cd/" in item["key"]]
        assert (outside / "ab" / orphan).read_bytes() == b"precious"

    def test_with_a_manifest_of_a_newer_version_nothing_goes(
        self, history: History, capsys: pytest.CaptureFixture[str]
    ) -> None:
        key = self.newer(history)
        before = {item.key for item in history.store.list("") if not item.key.startswith(("journal/", "owner"))}
        document = self.collect(history, capsys)
        assert document["unreadable"] == [3]
        assert document["freed"]["objects"] == 0
        after = {item.key for item in history.store.list("") if not item.key.startswith(("journal/", "owner"))}
        assert before - after == set()
        assert key in after

    def test_nor_when_it_was_retired(self, history: History, capsys: pytest.CaptureFixture[str]) -> None:
        self.newer(history)
        history.retire(3)
        before = {item.key for item in history.store.list("blobs/")}
        self.collect(history, capsys, code=6)
        assert {item.key for item in history.store.list("blobs/")} == before

    def test_a_manifest_that_names_a_place_outside_is_damaged_and_deletes_nothing(
        self, history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "home" / "x").write_bytes(b"precious")
        document = msgspec.json.decode(gzip.decompress(encode_manifest(MANIFEST)))
        document["shards"][0]["files"][0]["pack"] = "../../x"
        data = gzip.compress(msgspec.json.encode(document))
        history.store.upload(manifest_key(digest_of(data)), [data])
        history.complete(3, manifest=digest_of(data))
        before = {item.key for item in history.store.list("blobs/")}
        assert self.collect(history, capsys)["unreadable"] == [3]
        assert {item.key for item in history.store.list("blobs/")} == before
        assert (tmp_path / "home" / "x").read_bytes() == b"precious"

    def newer(self, history: History) -> str:
        data = gzip.compress(b'{"format":2,"parts":"named in another way"}')
        history.store.upload(manifest_key(digest_of(data)), [data])
        history.complete(3, manifest=digest_of(data))
        return manifest_key(digest_of(data))


class TestDocuments:
    def test_a_request_of_a_newer_version_is_left_to_it(self, tmp_path: Path) -> None:
        store = LocalStore(tmp_path)
        store.put("requests/next.json", b'{"format":2,"id":"x","kind":"stop"}')
        assert read_request(store) is None
        assert store.exists("requests/next.json")

    def test_a_ledger_entry_of_a_newer_version_is_no_damage_and_is_not_read(self, tmp_path: Path) -> None:
        ledger.write(work_directory(tmp_path), StagedBatch(BatchId(3), FencingEpoch(1), ()))
        assert ledger.read(work_directory(tmp_path)) == (StagedBatch(BatchId(3), FencingEpoch(1), ()),)
        path = tmp_path / ledger.FOLDER / "3.json"
        newer = msgspec.json.decode(path.read_bytes()) | {"format": 2}
        del newer["checksum"]
        path.write_bytes(ledger._sealed(msgspec.json.encode(newer)))
        with pytest.raises(NewerFormat, match="written by a newer version"):
            ledger.read(work_directory(tmp_path))

    def test_a_heartbeat_of_a_newer_version_is_not_read_as_if_it_were_known(self, tmp_path: Path) -> None:
        history = History(tmp_path / "home")
        history.run()
        history.beat()
        beat = msgspec.json.decode(history.store.get("owner.json"))
        del beat["checksum"]
        history.store.put("owner.json", sealed(msgspec.json.encode(beat)))
        assert read_heartbeat(history.store) is not None
        history.store.put("owner.json", sealed(msgspec.json.encode(beat | {"format": 99})))
        assert read_heartbeat(history.store) is None

    def test_no_flipped_bit_gives_a_heartbeat_another_meaning(self, tmp_path: Path) -> None:
        """Simulation seed 11587: a claim that came wrong passed for another run's, and a sound home for an old one."""
        history = History(tmp_path / "home")
        history.run()
        history.beat()
        data, right = history.store.get("owner.json"), read_heartbeat(history.store)
        assert right is not None
        for bit in range(len(data) * 8):
            wrong = bytearray(data)
            wrong[bit // 8] ^= 1 << bit % 8
            assert decoded(bytes(wrong)) in (None, right)

    def test_a_heartbeat_that_came_wrong_but_lies_right_is_read_once_more(self, tmp_path: Path) -> None:
        history = History(tmp_path / "home")
        history.run()
        history.beat()
        right, get = read_heartbeat(history.store), history.store.get
        answers = [get("owner.json").replace(b'"beat":', b'"beet":')]
        history.store.get = lambda key: answers.pop() if answers else get(key)  # type: ignore[method-assign]
        assert read_heartbeat(history.store) == right
        assert not answers

    def test_a_heartbeat_of_an_older_version_has_no_checksum_and_is_read(self, tmp_path: Path) -> None:
        history = History(tmp_path / "home")
        history.run()
        history.beat()
        right = read_heartbeat(history.store)
        proof = opened(history.store.get("owner.json"))
        assert proof is not None
        history.store.put("owner.json", proof[0])
        assert read_heartbeat(history.store) == right


KEYS = ("", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/./b", "a\0b")


class TestLocalStore:
    @pytest.mark.parametrize("key", KEYS)
    def test_a_key_stays_in_its_store(self, tmp_path: Path, key: str) -> None:
        (tmp_path / "a").write_bytes(b"outside")
        (tmp_path / "home").mkdir()
        store = LocalStore(tmp_path / "home")
        for attempt in (
            lambda: store.create(key, b"x"),
            lambda: store.put(key, b"x"),
            lambda: store.upload(key, [b"x"]),
            lambda: store.get(key),
            lambda: store.read(key, 0, 1),
            lambda: list(store.stream(key)),
            lambda: store.exists(key),
            lambda: store.delete(key),
            lambda: store.scoped(key),
        ):
            with pytest.raises(InvalidKey):
                attempt()
        assert (tmp_path / "a").read_bytes() == b"outside"

    def test_what_is_no_file_is_no_object(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "pipe")
        store, handles = LocalStore(tmp_path), len(os.listdir("/proc/self/fd"))
        for key in ("folder", "pipe"):
            for attempt in (store.get, lambda key: store.read(key, 0, 1), lambda key: list(store.stream(key))):
                with pytest.raises(ObjectNotFound):
                    attempt(key)  # type: ignore[operator]
            assert not store.exists(key)
        assert len(os.listdir("/proc/self/fd")) == handles

    def test_no_link_is_followed(self, tmp_path: Path) -> None:
        outside, home = tmp_path / "outside", tmp_path / "home"
        outside.mkdir()
        home.mkdir()
        (outside / "f").write_bytes(b"precious")
        (home / "folder").symlink_to(outside)
        (home / "file").symlink_to(outside / "f")
        (home / ".tmp-1").symlink_to(outside / "f")
        store = LocalStore(home)
        for attempt in (
            lambda: store.get("folder/f"),
            lambda: store.get("file"),
            lambda: store.delete("folder/f"),
            lambda: store.create("folder/g", b""),
            lambda: store.upload("folder/f", [b""]),
            lambda: store.exists("folder/f"),
            lambda: list(store.list("folder/")),
        ):
            with pytest.raises(StorageError, match="symbolic link"):
                attempt()
        assert (list(store.list("")), store.children(), list(store.temporaries())) == ([], (), [])
        assert not store.exists("file")
        store.put("file", b"mine")
        assert [path.name for path in outside.iterdir()] == ["f"]
        assert (outside / "f").read_bytes() == b"precious"
        assert not (home / "file").is_symlink()

    def test_the_home_itself_may_be_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "disk").mkdir()
        (tmp_path / "home").symlink_to(tmp_path / "disk")
        LocalStore(tmp_path / "home").scoped("orders").put("a", b"x")
        assert (tmp_path / "disk" / "orders" / "a").read_bytes() == b"x"
