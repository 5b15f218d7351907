"""Paths that were read from outside lead nowhere but below their root."""

import zipfile
from pathlib import Path

import pytest

from holdfast.checkpoint.layout import NotPlannable
from holdfast.errors import Corrupt
from holdfast.storage.below import below, plain_name
from holdfast.workdir.barriers import referenced_files


@pytest.mark.parametrize(
    "relative", ["", ".", "..", "../precious/secret.txt", "/etc/passwd", "a//b", "a/./b", "a/../../b", "a/", "a\0b"]
)
def test_a_path_that_may_lead_elsewhere_is_refused(tmp_path: Path, relative: str) -> None:
    with pytest.raises(Corrupt, match="is not plain"):
        below(tmp_path, relative)


@pytest.mark.parametrize("relative", ["a", "a/b.parquet", "..a/b..", "a b/ü", "_holdfast/orders/staged/1/0-x/part-0"])
def test_a_plain_path_is_below_its_root(tmp_path: Path, relative: str) -> None:
    assert below(tmp_path, relative) == tmp_path / relative


@pytest.mark.parametrize("relative", ["link", "link/secret.txt", "folder/link/secret.txt", "dangling"])
def test_no_symbolic_link_is_followed(tmp_path: Path, relative: str) -> None:
    outside, root = tmp_path / "precious", tmp_path / "root"
    outside.mkdir()
    (root / "folder").mkdir(parents=True)
    (root / "link").symlink_to(outside)
    (root / "folder" / "link").symlink_to(outside)
    (root / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(Corrupt, match="symbolic link"):
        below(root, relative)


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    assert below(tmp_path / "out", "a") == tmp_path / "out" / "a"


def test_a_name_is_one_part() -> None:
    assert plain_name("000012.sst") == "000012.sst"
    with pytest.raises(Corrupt, match="plain name"):
        plain_name("a/b")


def test_an_archive_that_refers_to_files_elsewhere_is_not_understood(tmp_path: Path) -> None:
    archive = tmp_path / "3.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr(
            "metadata", 'v1\n{"sstFiles":[{"dfsSstFileName":"../../../precious/secret.txt","sizeBytes":3}]}'
        )
    with pytest.raises(NotPlannable, match="not plain"):
        referenced_files(archive.read_bytes(), "3.zip")
