"""An Iceberg table that Iceberg's own streaming sink writes to: which batches of a query it has, and how they are taken
back.

The sink records the query's id and the batch in the summary of each snapshot, and looks there from the newest snapshot
backwards. It is asked in the same way, through the library in the session's JVM. Where a class is missing, asking
raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from holdfast.identifiers import BatchId
from holdfast.plans.table_history import Change, HistoryExpired, Shown, shown

_QUERY = "spark.sql.streaming.queryId"
_BATCH = "spark.sql.streaming.epochId"
_MAIN = "main"


class IcebergTable:
    def __init__(self, spark: SparkSession, name: str, branch: str | None = None) -> None:
        self.name = f"Iceberg's sink at {name}"
        self._spark = spark
        self._table = name
        self._branch = branch or _MAIN

    def newest_of(self, query: str | None) -> BatchId | None:
        """The sink accepts a batch that is newer than the newest one of the query's id in the table's history."""
        if query is None:
            return None
        change = None
        for change in self._changes():
            if change.query == query:
                return change.batch
        if change is not None and change.before is not None:
            raise HistoryExpired(f"its snapshots before {change.version} have expired, none since is of {query}")
        return None

    def shown(self, query: str, barrier: BatchId) -> Shown:
        return shown(self._changes(), query, barrier)

    def restored_to(self, query: str, recorded: BatchId) -> None:
        """The sink itself looks only at what the table shows."""

    def take_back(self, version: int) -> str:
        if self._branch != _MAIN:
            return f"ALTER TABLE {self._table} CREATE OR REPLACE BRANCH {self._branch} AS OF VERSION {version}"
        catalog, _, table = self._table.partition(".")
        return f"CALL {catalog}.system.rollback_to_snapshot('{table}', {version})"

    def _changes(self) -> Iterator[Change]:
        """Snapshots of the branch, newest first, as far as they are kept."""
        table = self._loaded()
        table.refresh()
        snapshot = table.snapshot(self._branch)
        while snapshot is not None:
            summary, parent = snapshot.summary(), snapshot.parentId()
            batch = summary.get(_BATCH)
            yield Change(
                snapshot.snapshotId(), parent, summary.get(_QUERY), None if batch is None else BatchId(int(batch))
            )
            snapshot = None if parent is None else table.snapshot(parent)

    def _loaded(self) -> Any:
        jvm: Any = self._spark._jvm
        session = self._spark._jsparkSession
        if "/" in self._table:
            return jvm.org.apache.iceberg.hadoop.HadoopTables(session.sessionState().newHadoopConf()).load(self._table)
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, self._table)
