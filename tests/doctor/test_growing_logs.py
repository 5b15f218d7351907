"""Logs that are written, rotated and truncated while they are followed."""

import os
from pathlib import Path

from holdfast.doctor.reading.growth import Growth, Stretch, piece_of, stretches


def test_bytes_are_read_one_look_after_they_were_seen(tmp_path: Path) -> None:
    log, growth = tmp_path / "job.log", Growth(str(tmp_path))
    log.write_bytes(b"x" * 100)
    assert growth.look() == {}
    log.write_bytes(b"x" * 150)
    assert list(growth.look().values()) == [100]
    assert list(growth.look().values()) == [150]


def test_a_rotated_log_goes_on_under_its_new_name(tmp_path: Path) -> None:
    log, growth = tmp_path / "job.log", Growth(str(tmp_path))
    log.write_bytes(b"x" * 100)
    growth.look()
    start = growth.look()
    with log.open("ab") as file:
        file.write(b"y" * 10)
    log.rename(tmp_path / "job.log.1")
    log.write_bytes(b"z" * 7)
    growth.look()
    found = {piece_of(stretch, str(tmp_path)) for stretch in stretches(start, growth.look())}
    assert {(Path(piece.path).name, piece.start, piece.end) for piece in found if piece} == {
        ("job.log.1", 100, 110),
        ("job.log", 0, 7),
    }


def test_a_truncated_log_is_read_from_its_beginning() -> None:
    assert list(stretches({"a": 100, "b": 5}, {"a": 20, "b": 5})) == [Stretch("a", 0, 20)]


def test_compressed_and_missing_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "old.gz").write_bytes(b"\x1f\x8b" + b"x" * 50)
    log, growth = tmp_path / "job.log", Growth(str(tmp_path))
    log.write_bytes(b"x")
    growth.look()
    (stretch,) = stretches({}, growth.look())
    os.remove(log)
    assert piece_of(stretch, str(tmp_path)) is None
    assert growth.look() == {}
