"""A Delta table's directory: what may not be there before a table is created, and where this sink stages. Reads
only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import Conflict
from holdfast.identifiers import FencingEpoch
from holdfast.sinks.place import owner_name
from holdfast.sinks.protocol import SinkContext

_TABLES = (
    ("_spark_metadata", "what Spark's file sink writes to"),
    (".hoodie", "a Hudi table"),
)
_STAGED = "holdfast-"
"""Prefix of directories that this sink staged; a deleted table may have left them."""


def require_free(place: Path, describe: str) -> None:
    """A log in a directory with files hides these files from readers of the table."""
    found = _table(place) or _file(place)
    if found is None:
        return
    kind, sign = found
    raise Conflict(
        f"could not use {describe}: the directory is not a Delta table, it is {kind} ({sign.relative_to(place)}); its "
        "readers would no longer see that if it became one",
        hint="write to another directory, or make it a Delta table first: deltalake.convert_to_deltalake(path)"
        if kind == _FILES
        else "write to another directory",
    )


_FILES = "a directory with files"


def _table(place: Path) -> tuple[str, Path] | None:
    for name, kind in _TABLES:
        if (place / name).exists():
            return kind, place / name
    iceberg = next((place / "metadata").glob("*.metadata.json"), None)
    return None if iceberg is None else ("an Iceberg table", iceberg)


def _file(place: Path) -> tuple[str, Path] | None:
    for current, folders, files in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".", _STAGED)))
        visible = sorted(name for name in files if not name.startswith(("_", ".")))
        if visible:
            return _FILES, Path(current, visible[0])
    return None


def staging_folder(context: SinkContext) -> str:
    return f"{_STAGED}{owner_name(context)}"


def batch_directory(place: Path, path: str) -> Path:
    """Of a file that this sink staged."""
    return place.joinpath(*path.split("/")[:3])


def directories_of_batches(staging: Path, newest: FencingEpoch) -> Iterator[Path]:
    """What runs up to `newest` staged."""
    for epoch in _directories(staging):
        if epoch.name.isdecimal() and int(epoch.name) <= newest:
            yield from _directories(epoch)


def _directories(parent: Path) -> list[Path]:
    """Without symbolic links: their targets do not belong to this sink."""
    if parent.is_symlink() or not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if path.is_dir() and not path.is_symlink())
