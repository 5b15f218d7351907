"""A defect of ours is one line that names a file with the traceback: it need not happen again to be reported."""

import stat
import tempfile
from pathlib import Path

import pytest

from holdfast.cli.tracebacks import MOST, TracebackFile


def failure(text: str) -> ValueError:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def test_it_says_which_version_and_where_and_only_its_owner_may_read_it(tracebacks: Path) -> None:
    kept = TracebackFile().keep(failure("at s3://key:secret@bucket/x"))
    assert kept is not None
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    text = kept.read_text()
    assert text.startswith("holdfast ")
    assert "in failure\n" in text
    assert "secret" not in text


def test_what_fails_again_and_again_does_not_fill_the_disk(tracebacks: Path) -> None:
    one = TracebackFile()
    places = {one.keep(failure(f"number {n};")) for n in range(3 * MOST)}
    (kept,) = tracebacks.glob("holdfast-*")
    assert places == {kept}
    assert kept.read_text().count("Traceback") == MOST
    assert f"number {MOST - 1};" in kept.read_text()


def test_where_no_file_can_be_written_nothing_is_named(tracebacks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tracebacks / "gone"))
    assert TracebackFile().keep(failure("x")) is None
