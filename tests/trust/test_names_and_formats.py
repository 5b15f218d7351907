"""R11: names have a grammar, formats have numbers. What is neither ours nor known is never read, never deleted."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.checkpoint.manifest import blob_key, digest_of, manifest_key, pack_key
from holdfast.errors import Corrupt, NewerFormat
from holdfast.identifiers import FencingEpoch
from holdfast.repository import names
from holdfast.storage.home_identity import KEY, ensure_home_identity, read_home_identity
from holdfast.storage.local import LocalStore

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
