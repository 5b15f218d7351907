"""Which columns a directory of Parquet files can take.

Readers expect one type per column in all files, and most ignore the case of names. So the sink records every column
that was ever published, even if the query has dropped it since: it must not come back with another type. Schemas are
Spark's JSON.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from holdfast.errors import InvalidSettings
from holdfast.sinks.place import require
from holdfast.sinks.schemas import Field, changed_types, fields_of

_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"


def require_fit(describe: str, schema_json: str, written: Iterable[str]) -> None:
    """Refuse columns that would make the directory unreadable; `written` are the schemas of what is there."""
    ours = fields_of(schema_json)
    lines = _doubled(ours)
    for theirs in map(fields_of, written):
        lines += changed_types(ours, theirs) + _other_case(ours, theirs)
    if lines:
        raise InvalidSettings(
            "\n  ".join([f"could not use {describe}: columns have changed their type or name:", *dict.fromkeys(lines)]),
            hint="cast or rename them back, or write to a new directory",
        )


def union(schemas: Iterable[str]) -> str:
    """One schema with the columns of all; the first one's type counts."""
    fields: dict[str, Field] = {}
    for schema in schemas:
        for field in fields_of(schema):
            fields.setdefault(field["name"], field)
    return json.dumps({"type": "struct", "fields": list(fields.values())})


def schema_in(path: Path) -> str | None:
    """The schema that Spark left in the footer of a file."""
    found = require("pyarrow.parquet", "files").read_metadata(path).metadata or {}
    return found[_SPARK_SCHEMA].decode() if _SPARK_SCHEMA in found else None


def _doubled(ours: list[Field]) -> list[str]:
    counts = Counter(field["name"].casefold() for field in ours)
    return [
        f"{field['name']}: another column of the query has this name in another case"
        for field in ours
        if counts[field["name"].casefold()] > 1
    ]


def _other_case(ours: list[Field], theirs: list[Field]) -> list[str]:
    names = {field["name"] for field in theirs}
    table = {name.casefold(): name for name in names}
    return [
        f"{name}: in the query, {table[name.casefold()]} in the files: readers do not tell them apart"
        for name in (field["name"] for field in ours)
        if name not in names and name.casefold() in table
    ]
