"""A Parquet footer as the statistics of a Delta `add` action.

A wrong bound makes readers skip rows, so truncated bounds are widened. Some columns cannot be left out either: when a
pyarrow dataset is filtered, deltalake 1.6.6 reads a missing bound beside a present one as "matches nothing". So a file
gets bounds for all its columns, or for none.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from holdfast.sinks.place import require

_MOST_COLUMNS = 32
"""Delta's default: readers use the statistics of this many columns."""
_LONGEST_TEXT = 32
_GREATEST_CHARACTER = "\U0010ffff"
_MOST_EXACT_DIGITS = 15
"""A reader that parses a decimal with more digits as a float gets another value."""
_MILLISECOND = timedelta(milliseconds=1)


def delta_statistics(footer: Any) -> str:
    types = require("pyarrow.types", "delta")
    fields = [f for f in footer.schema.to_arrow_schema() if not _without_order(types, f.type)]
    chunks = _chunks_by_column(footer)
    found = {field.name: chunks.get(field.name, []) for field in fields}
    nulls = {name: sum(s.null_count for s in statistics) for name, statistics in found.items() if _counted(statistics)}
    bounds = {name: _bounds(chunks) for name, chunks in found.items() if nulls.get(name) != footer.num_rows}
    complete = len(fields) <= _MOST_COLUMNS and all(pair is not None for pair in bounds.values())
    content: dict[str, object] = {"numRecords": footer.num_rows, "nullCount": nulls}
    if complete:
        content["minValues"] = {name: pair[0] for name, pair in bounds.items() if pair is not None}
        content["maxValues"] = {name: pair[1] for name, pair in bounds.items() if pair is not None}
    return json.dumps(content, separators=(",", ":"))


def _without_order(types: Any, kind: Any) -> bool:
    """Types that have no bounds in Delta, and for which no reader expects any."""
    return bool(types.is_list(kind) or types.is_map(kind) or types.is_binary(kind))


def _chunks_by_column(footer: Any) -> dict[str, list[Any]]:
    """Per top-level plain column the statistics of its row groups. A dot in the path means nested, or looks like it."""
    chunks: dict[str, list[Any]] = {}
    for group in (footer.row_group(index) for index in range(footer.num_row_groups)):
        for chunk in (group.column(index) for index in range(group.num_columns)):
            if "." not in chunk.path_in_schema:
                chunks.setdefault(chunk.path_in_schema, []).append(chunk.statistics)
    return chunks


def _counted(statistics: list[Any]) -> bool:
    return bool(statistics) and all(s is not None and s.has_null_count for s in statistics)


def _bounds(statistics: list[Any]) -> tuple[object, object] | None:
    """The column's least and greatest value as JSON values, None when they are not known for certain."""
    if not _counted(statistics):
        return None
    filled = [s for s in statistics if s.num_values > 0]  # row groups that are not all null
    try:
        if not filled or not all(s.has_min_max for s in filled):
            return None
        low, high = min(s.min for s in filled), max(s.max for s in filled)
    except (ValueError, OverflowError, NotImplementedError, TypeError):
        return None  # a value that Python cannot express
    pair = _json_value(low, up=False), _json_value(high, up=True)
    return None if None in pair else pair


def _json_value(value: object, *, up: bool) -> object | None:
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # NaN is not ordered
    if isinstance(value, Decimal):
        return float(value) if len(value.as_tuple().digits) <= _MOST_EXACT_DIGITS else None
    if isinstance(value, str):
        return _text(value, up=up)
    if isinstance(value, datetime):
        return _instant(value, up=up)
    return value.isoformat() if isinstance(value, date) else None


def _text(value: str, *, up: bool) -> str | None:
    if len(value) <= _LONGEST_TEXT:
        return value
    if not up:
        return value[:_LONGEST_TEXT]
    return None if _GREATEST_CHARACTER in value else value[:_LONGEST_TEXT] + _GREATEST_CHARACTER


def _instant(value: datetime, *, up: bool) -> str | None:
    """Delta keeps milliseconds; the upper bound is rounded up so that it stays a bound."""
    zone = "" if value.tzinfo is None else "Z"
    value = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    whole = value.replace(microsecond=value.microsecond // 1000 * 1000)
    try:
        rounded = whole + _MILLISECOND if up and whole != value else whole
    except OverflowError:
        return None
    return rounded.isoformat(timespec="milliseconds") + zone
