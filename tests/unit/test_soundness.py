"""What is looked at before a query resumes from a directory: sizes and ends of large files, all of small ones."""

import struct
import zlib
from pathlib import Path

import pytest

from holdfast.checkpoint.source_logs import missing_entry
from holdfast.workdir.factory import work_directory
from holdfast.workdir.hadoop_checksum import fits_length, matches_checksum
from holdfast.workdir.soundness import damage
from tests.unit.work_files import write

PIECE = 512
SMALL, LARGE = 3000, 2 << 20


def checksum(data: bytes) -> bytes:
    sums = [zlib.crc32(data[start : start + PIECE]) for start in range(0, len(data), PIECE)]
    return struct.pack(f">4si{len(sums)}I", b"crc\0", PIECE, *sums)


def directory(root: Path, delta: bytes) -> Path:
    """A batch whose state is one delta, with Hadoop's checksum beside it."""
    files = {"metadata": b'{"id":"one"}', "offsets/0": b'v1\n{}\n{"logOffset":2}', "commits/0": b"v1\n{}"}
    files |= {f"sources/0/{number}": b"v1" for number in range(3)}
    files |= {"state/0/0/1.delta": delta, "state/0/0/.1.delta.crc": checksum(delta)}
    write(root, files)
    return root


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_file_that_lost_or_gained_bytes_is_found_whatever_its_size(tmp_path: Path, size: int) -> None:
    work = directory(tmp_path / "work", bytes(size))
    assert damage(work_directory(work)) is None
    for wrong in (bytes(size - PIECE), bytes(size + PIECE), b""):
        write(work, {"state/0/0/1.delta": wrong})
        assert "state/0/0/1.delta" in str(damage(work_directory(work)))


def test_the_bytes_of_small_files_are_compared_and_those_of_large_ones_left_to_spark(tmp_path: Path) -> None:
    for size, found in ((SMALL, True), (LARGE, False)):
        work = directory(tmp_path / str(size), bytes(size))
        write(work, {"state/0/0/1.delta": bytes(size - 1) + b"x"})
        assert (damage(work_directory(work)) is not None) == found
        assert not matches_checksum(work_directory(work), "state/0/0/1.delta")
        assert fits_length(work_directory(work), "state/0/0/1.delta")


@pytest.mark.parametrize("stored", [b"", b"crc\0", b"xyz\0\0\0\2\0" + b"1234", b"crc\0\0\0\0\0"])
def test_a_checksum_that_is_none_fits_nothing(tmp_path: Path, stored: bytes) -> None:
    write(tmp_path, {"file": b"data", ".file.crc": stored})
    assert not matches_checksum(work_directory(tmp_path), "file")
    assert not fits_length(work_directory(tmp_path), "file")


def test_the_log_of_a_file_source_must_reach_the_offset(tmp_path: Path) -> None:
    offsets = b'v1\n{"batchWatermarkMs":0}\n{"logOffset":4}\n-\n{"topic":{"0":7}}\n{"logOffset":1}'
    log = {f"sources/0/{number}" for number in range(5)} | {"sources/3/0", "sources/3/1"}
    assert missing_entry(offsets, log) is None
    assert missing_entry(offsets, log - {"sources/0/4"}) == "sources/0/4"
    assert missing_entry(offsets, log - {"sources/3/0"}) == "sources/3/0"
    assert missing_entry(offsets, {"sources/0/4", "sources/0/3.compact", "sources/3/1.compact"}) is None
    assert missing_entry(offsets, {"sources/0/4", "sources/0/2.compact", "sources/3/1.compact"}) == "sources/0/3"
    named = b'v2\n{}\n0:{"logOffset":1}\norders:{"logOffset":0}'
    assert missing_entry(named, {"sources/0/0", "sources/0/1", "sources/orders/0"}) is None
    assert missing_entry(b"", set()) is None


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("metadata", b'{"id":"on'),
        ("metadata", b"{}"),
        ("metadata", b"UUUU"),
        ("offsets/0", b"v1"),
        ("offsets/0", b'v1\n{"conf":{"a'),
        ("offsets/0", b"\xff\xfe"),
        ("commits/0", b"UUUUU"),
        ("commits/0", b'v1\n{"nextBatch'),
    ],
)
def test_what_spark_reads_first_must_be_understood(tmp_path: Path, path: str, content: bytes) -> None:
    """Whatever has no checksum: a directory that was restored has none."""
    work = directory(tmp_path / "work", b"state")
    write(work, {path: content})
    assert path in str(damage(work_directory(work)))


def test_a_log_without_its_newest_entry_is_damage(tmp_path: Path) -> None:
    """Spark would take the input files of that entry for new ones, and count them twice."""
    work = directory(tmp_path / "work", b"state")
    (work / "sources/0/2").unlink()
    assert "sources/0/2 does not exist" in str(damage(work_directory(work)))
