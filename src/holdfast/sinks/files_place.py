"""Checks a `Files` sink's directory before anything is written to it: it must not belong to another writer. Reads
only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import Conflict
from holdfast.sinks.files_layout import HIDDEN, job_of, jobs_at

_ANOTHER = "write to another directory"


def require_no_table(place: Path, describe: str) -> None:
    """Refuse a directory whose readers find files through a log: they would not see this sink's files, or see them
    twice."""
    for kind, sign in _signs_of_tables(place):
        raise Conflict(
            f"could not use {describe}: the directory is {kind} ({sign}), whose readers would not see the files of "
            "this sink",
            hint=_ANOTHER if kind != "a Delta table" else f"{_ANOTHER}, or add to the table: delta:{place}",
        )


def require_no_foreign_file(place: Path, describe: str) -> None:
    """Refuse to start in a directory with files of other writers."""
    if (stranger := next(foreign_files(place), None)) is None:
        return
    name = stranger.relative_to(place)
    if (job := job_of(stranger.name)) is not None and stranger.parent == place:
        raise Conflict(
            f"could not use {describe}: it has files of job {job!r} ({name}), but its ledger {place / HIDDEN / job} is "
            "gone, so it is unknown what was published",
            hint=f"bring {HIDDEN} back, or {_ANOTHER}; to go on beside these files: --accept-sink",
        )
    raise Conflict(
        f"could not use {describe}: the directory is not empty and not this job's: it has {name}",
        hint=f"{_ANOTHER}; to add to these files: --accept-sink",
    )


def foreign_files(place: Path) -> Iterator[Path]:
    """Files that readers may treat as data and that no ledger here names."""
    known = jobs_at(place)
    for path in _entries(place):
        if path.is_dir():
            yield from _visible_files(path)
        elif job_of(path.name) not in known:
            yield path


def _signs_of_tables(place: Path) -> Iterator[tuple[str, Path]]:
    for kind, sign in (
        ("what Spark's file sink writes to", place / "_spark_metadata"),
        ("a Delta table", place / "_delta_log"),
        ("a Hudi table", place / ".hoodie"),
    ):
        if sign.exists():
            yield kind, sign
    yield from (("an Iceberg table", sign) for sign in (place / "metadata").glob("*.metadata.json"))


def _entries(folder: Path) -> list[Path]:
    """Without names that readers skip, and without folders that cannot be read, such as `lost+found`."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith(("_", ".")))
    except (FileNotFoundError, PermissionError):
        return []


def _visible_files(folder: Path) -> Iterator[Path]:
    for current, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        yield from (Path(current, name) for name in sorted(files) if not name.startswith(("_", ".")))
