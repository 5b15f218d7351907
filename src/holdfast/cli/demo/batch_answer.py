"""Computes the table in batch: plain Python over the input files, which shares nothing with the streaming code."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Row = tuple[datetime, str, int, int]
"""minute, shop, orders, cents"""

_WINDOW = timedelta(minutes=1)
_WATERMARK_DELAY = timedelta(minutes=1)


def recompute(input: Path) -> list[Row]:
    """The rows of every window that the watermark has closed: append mode emits them then."""
    counts: Counter[tuple[datetime, str]] = Counter()
    takings: Counter[tuple[datetime, str]] = Counter()
    newest = datetime.fromisoformat("0001-01-01T00:00:00+00:00")
    for path in sorted(input.glob("*.json")):
        for line in path.read_text().splitlines():
            order = json.loads(line)
            at = datetime.fromisoformat(order["at"])
            key = (at.replace(second=0, microsecond=0), order["shop"])
            counts[key] += 1
            takings[key] += order["cents"]
            newest = max(newest, at)
    return [
        (minute, shop, count, takings[minute, shop])
        for (minute, shop), count in counts.items()
        if minute + _WINDOW <= newest - _WATERMARK_DELAY
    ]


def read_table(table: Path) -> list[Row]:
    from deltalake import DeltaTable

    rows = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return [_row(row) for row in rows]


def committed_files(table: Path) -> tuple[str, ...]:
    """Those that readers of Spark's file sink see: by its log, whose every tenth entry stands for all before it."""
    log = table / "_spark_metadata"
    names = [path.name for path in log.iterdir() if not path.name.startswith(".")] if log.is_dir() else []
    compacted = max((int(name.removesuffix(".compact")) for name in names if name.endswith(".compact")), default=-1)
    later = sorted(int(name) for name in names if name.isdigit() and int(name) > compacted)
    read = [f"{compacted}.compact"] * (compacted >= 0) + [str(number) for number in later]
    lines = [line for name in read for line in (log / name).read_text().splitlines()[1:]]
    return tuple(urlsplit(json.loads(line)["path"]).path for line in lines)


def read_parquet(files: Iterable[str]) -> list[Row]:
    from pyarrow.parquet import read_table as read_file

    tables = [read_file(file, coerce_int96_timestamp_unit="us") for file in files]
    return [_row(row) for table in tables for row in table.to_pylist()]


def _row(row: Mapping[str, Any]) -> Row:
    return row["minute"].replace(tzinfo=UTC), row["shop"], row["orders"], row["cents"]


@dataclass(frozen=True)
class Comparison:
    rows: int
    missing: tuple[Row, ...]
    unexpected: tuple[Row, ...]
    """Rows that are wrong or duplicate."""

    @property
    def exact(self) -> bool:
        return self.rows > 0 and not self.missing and not self.unexpected


def compare(expected: list[Row], found: list[Row]) -> Comparison:
    """Row by row, duplicates included."""
    wanted, present = Counter(expected), Counter(found)
    missing = sorted((wanted - present).elements())
    unexpected = sorted((present - wanted).elements())
    return Comparison(len(expected), tuple(missing), tuple(unexpected))
