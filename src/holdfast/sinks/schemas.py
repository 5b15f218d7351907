"""Compares the schema of a query with that of the place it writes to. Schemas are Spark's JSON, parsed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Field = Mapping[str, Any]


def fields_of(schema_json: str) -> list[Field]:
    fields: list[Field] = json.loads(schema_json)["fields"]
    return fields


def nullable(schema_json: str) -> str:
    """The schema of a new table: every column is nullable, without Spark's column metadata (such as watermarks).

    Whether Spark proves a column to be non-null changes with the query's text; a table must not depend on it.
    """
    plain = [
        {"name": field["name"], "type": _loosened(field["type"]), "nullable": True, "metadata": {}}
        for field in fields_of(schema_json)
    ]
    return json.dumps({"type": "struct", "fields": plain})


def differences(ours: Sequence[Field], theirs: Sequence[Field]) -> list[str]:
    """Why rows of `ours` do not fit into a table of `theirs`, one line per column; empty when they do."""
    mine, table = ({field["name"]: field for field in fields} for fields in (ours, theirs))
    lines = [f"{name}: the query has it, the table has not" for name in mine if name not in table]
    lines += [f"{name}: the table has it, the query has not" for name in table if name not in mine]
    lines += changed_types(ours, theirs)
    lines += [
        f"{name}: the table refuses nulls, the query may have them"
        for name in mine
        if name in table and mine[name]["nullable"] and not table[name]["nullable"]
    ]
    return lines


def changed_types(ours: Sequence[Field], theirs: Sequence[Field]) -> list[str]:
    """Columns with the same name and a different type, one line each."""
    table = {field["name"]: _loosened(field["type"]) for field in theirs}
    return [
        f"{field['name']}: {_shown(_loosened(field['type']))} in the query, {_shown(table[field['name']])} in the table"
        for field in ours
        if field["name"] in table and _loosened(field["type"]) != table[field["name"]]
    ]


def _loosened(kind: Any) -> Any:
    """A type with all its parts nullable and without metadata, so that equal types compare equal."""
    if not isinstance(kind, Mapping):
        return kind
    if kind["type"] == "array":
        return {"type": "array", "elementType": _loosened(kind["elementType"]), "containsNull": True}
    if kind["type"] == "map":
        key, value = _loosened(kind["keyType"]), _loosened(kind["valueType"])
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if kind["type"] == "struct":
        parts = [
            {"name": part["name"], "type": _loosened(part["type"]), "nullable": True, "metadata": {}}
            for part in kind["fields"]
        ]
        return {"type": "struct", "fields": parts}
    return dict(kind)


def _shown(kind: Any) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind, separators=(",", ":"))
