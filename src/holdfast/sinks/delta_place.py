"""Checks a directory without a Delta log before a table is created in it: it must not belong to another writer. Reads
only."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.errors import Conflict

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
        f"could not use {describe}: the directory is no Delta table, it is {kind} ({sign.relative_to(place)}); as a "
        "table its readers would not see that any more",
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
