"""What a writer of the user's own writes to, in one file with all its versions, and a query that writes there.

Spark's file sink, Delta and Iceberg are asked as holdfast asks the real ones, but for the answers of their libraries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from holdfast.errors import HoldfastError
from holdfast.identifiers import BatchId
from holdfast.plans.query_id import query_id
from holdfast.plans.table_history import Change
from holdfast.runtime.ahead import Ahead
from holdfast.runtime.own_writer import Taken
from holdfast.runtime.ports import RunDirectory
from holdfast.sinks.protocol import Step, no_step
from holdfast.spark.delta_table import DeltaTable
from holdfast.spark.iceberg_table import IcebergTable
from holdfast.spark.looking_ahead import PlaceAhead, refusal_ahead, refusal_of_writer
from holdfast.spark.writer_position import FileSink, newest_planned, taken_from
from holdfast.workdir.interface import WorkDirectory
from tests.attacks.engine import Row
from tests.attacks.mortal import Mortal, SwiftQuery
from tests.unit.churning_runs import JOB

Kind = Literal["file", "delta", "iceberg", "position", "blind", "upsert"]
"""`position` skips batches that it has and is asked by `sink_position`, `blind` skips and cannot be asked, `upsert`
replaces rows and cannot be asked."""


class Version(msgspec.Struct):
    before: int | None
    query: str | None = None
    batch: BatchId | None = None
    rows: list[Row] = []


class Content(msgspec.Struct):
    versions: list[Version] = []
    transactions: dict[str, BatchId] = {}
    """Of Delta: they stay when an older version is restored."""


EMPTY = msgspec.json.encode(Content())


class OwnSink:
    def __init__(self, kind: Kind, place: Path, *, skips_empty: bool, step: Step = no_step) -> None:
        """`skips_empty`: it keeps no record of a batch without rows."""
        self.kind, self.file = kind, place / "rows.json"
        self._skips_empty, self._step = skips_empty and kind != "file", step

    def content(self) -> Content:
        return msgspec.json.decode(self.file.read_bytes(), type=Content) if self.file.exists() else Content()

    def shown(self) -> Iterator[tuple[int, Version]]:
        """Newest first."""
        versions = self.content().versions
        at = len(versions) - 1 if versions else None
        while at is not None:
            yield at, versions[at]
            at = versions[at].before

    def rows(self) -> list[Row]:
        rows = [row for _, version in self.shown() for row in version.rows]
        return list({row["id"]: row for row in reversed(rows)}.values()) if self.kind == "upsert" else rows

    def changes(self) -> Iterator[Change]:
        return (Change(at, version.before, version.query, version.batch) for at, version in self.shown())

    def newest(self) -> BatchId | None:
        return max((version.batch for _, version in self.shown() if version.batch is not None), default=None)

    def table(self) -> FileSink | DeltaTable | IcebergTable:
        if self.kind == "delta":
            return _Delta(self)
        return _Iceberg(self) if self.kind == "iceberg" else _Files(self)

    def write(self, query: str, batch: BatchId, rows: list[Row]) -> None:
        self._step("own.before")
        newest = None
        if self.kind in ("file", "delta", "iceberg"):
            newest = self.table().newest_of(query)
        elif self.kind != "upsert":
            newest = self.newest()
        if newest is not None and batch <= newest:
            return
        if rows or not self._skips_empty:
            content = self.content()
            content.versions.append(
                Version(len(content.versions) - 1 if content.versions else None, query, batch, rows)
            )
            content.transactions[query] = batch
            self._put(content)
        self._step("own.after")

    def restore(self, version: int) -> None:
        content = self.content()
        content.versions.append(Version(version))
        self._put(content)

    def _put(self, content: Content) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.file.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(content))
        temporary.rename(self.file)


class _Files(FileSink):
    def __init__(self, own: OwnSink) -> None:
        self.name, self._own = "the file sink", own

    def newest_of(self, query: str | None) -> BatchId | None:
        return self._own.newest()


class _Delta(DeltaTable):
    def __init__(self, own: OwnSink) -> None:
        self.name, self._own = "the Delta table", own

    def newest_of(self, query: str | None) -> BatchId | None:
        return None if query is None else self._own.content().transactions.get(query)

    def take_back(self, version: int) -> str:
        return f"TAKE BACK TO {version}"

    def _changes(self) -> Iterator[Change]:
        return self._own.changes()


class _Iceberg(IcebergTable):
    def __init__(self, own: OwnSink) -> None:
        self.name, self._own = "the Iceberg table", own

    def take_back(self, version: int) -> str:
        return f"TAKE BACK TO {version}"

    def _changes(self) -> Iterator[Change]:
        return self._own.changes()


class OwnQuery(SwiftQuery):
    def __init__(self, own: OwnSink, options: Mapping[str, Any], source: Path, mortal: Mortal, per_batch: int) -> None:
        super().__init__(None, source, mortal, per_batch)
        self._own, self._options = own, options

    def look_at_sink(self, context: object) -> None:
        return None

    def look_ahead(self, ahead: Ahead) -> None:
        if (refused := refusal_ahead(ahead, self._refusal_in)) is not None:
            raise refused

    def _refusal_in(self, place: PlaceAhead) -> HoldfastError | None:
        taken = self._taken(place.directory, new_line=place.new_line)
        if (broken := place.standing.broken) is not None:
            return place.broken(taken, broken, place.barrier)
        repeats, accept = self._options.get("repeats", "refuse"), self._options.get("accept_sink", False)
        return refusal_of_writer(JOB, taken, place, repeats=repeats, accept=accept)

    def own_writer(self, directory: RunDirectory, *, new_line: bool = False) -> Taken:  # type: ignore[override]
        return self._taken(directory.files, new_line=new_line)

    def _taken(self, directory: WorkDirectory, *, new_line: bool) -> Taken:
        own, planned = self._own, newest_planned(directory)
        if own.kind == "position":
            return Taken("the sink", own.newest(), known=True, earlier="reported", planned=planned)
        if own.kind in ("blind", "upsert"):
            return Taken("the query's own writer", None, known=False, planned=planned)
        return taken_from(own.table(), directory, new_line=new_line)

    def _write_rows(self, rows: list[Row], batch: BatchId) -> None:
        self._own.write(query_id((self._directory / "metadata").read_text()), batch, rows)
