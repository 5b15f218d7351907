"""Partition columns: which types are allowed, and how Spark's directory names become values in Delta's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from holdfast.errors import InvalidSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MARKED = "-marked"
"""Suffix of a batch's directory whose partition values are marked."""
_VALUE = "v"
_MARKED_NULL = "n"
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


def require_partition_columns(fields: Sequence[Mapping[str, Any]], partition_by: tuple[str, ...]) -> None:
    types = {field["name"]: field["type"] for field in fields}
    for name in partition_by:
        if name not in types:
            raise InvalidSettings.of("partition_by", name, f"the query has no such column, only {', '.join(types)}")
        if types[name] not in _TYPES:
            raise InvalidSettings.of("partition_by", name, f"its type must be one of {', '.join(_TYPES)}")
    if partition_by and len(partition_by) == len(types):
        raise InvalidSettings.of("partition_by", list(partition_by), "at least one column must remain")


def with_marked_values(batch: DataFrame, partition_by: tuple[str, ...]) -> DataFrame:
    """Partition columns as strings that distinguish null from every value.

    Spark uses the same directory for null, the empty string and the string `__HIVE_DEFAULT_PARTITION__`; writing a
    batch with two of them fails. The columns are in the names of directories only, so their type does not matter.
    """
    from pyspark.sql import functions as spark_functions

    for name in partition_by:
        column = batch[f"`{name}`"]
        value = spark_functions.concat(spark_functions.lit(_VALUE), column.cast("string"))
        marked = spark_functions.when(column.isNull(), spark_functions.lit(_MARKED_NULL)).otherwise(value)
        batch = batch.withColumn(name, marked)
    return batch


def partition_of(path: str) -> dict[str, str | None]:
    """The partition values in the directories of a staged file: `column=value`, percent-encoded by Spark."""
    batch, *folders = path.split("/")[2:-1]
    decoded = _unmarked if batch.endswith(MARKED) else _unescaped
    return {unquote(name): decoded(value) for name, _, value in (folder.partition("=") for folder in folders)}


def _unmarked(value: str) -> str | None:
    return None if value == _MARKED_NULL else unquote(value).removeprefix(_VALUE)


def _unescaped(value: str) -> str | None:
    """As version 0.1.0 staged it."""
    return None if value == _NULL else unquote(value)
