"""Partition columns: what is allowed, and how Spark's directory names become values in Delta's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from holdfast.errors import InvalidSettings

_TYPES = ("string", "byte", "short", "integer", "long", "date", "boolean")
"""Types whose value reads the same in a directory name and in Delta's log."""
_NULL = "__HIVE_DEFAULT_PARTITION__"


def column_names(value: str | Sequence[str] | None) -> tuple[str, ...] | None:
    names = (value,) if isinstance(value, str) else value
    if names is None:
        return None
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidSettings.of("partition_by", value, "must be a column name or a list of them")
    return tuple(names)


def require_partition_columns(fields: list[Any], partition_by: tuple[str, ...]) -> None:
    types = {field["name"]: field["type"] for field in fields}
    for name in partition_by:
        if name not in types:
            raise InvalidSettings.of("partition_by", name, f"the query has no such column, only {', '.join(types)}")
        if types[name] not in _TYPES:
            raise InvalidSettings.of("partition_by", name, f"its type must be one of {', '.join(_TYPES)}")
    if partition_by and len(partition_by) == len(types):
        raise InvalidSettings.of("partition_by", list(partition_by), "at least one column must remain")


def partition_of(path: str) -> dict[str, str | None]:
    """The partition values that Spark put into the directories of a staged file: `column=value`, percent-encoded."""
    pairs = [folder.partition("=") for folder in path.split("/")[3:-1]]
    return {unquote(name): None if value == _NULL else unquote(value) for name, _, value in pairs}
