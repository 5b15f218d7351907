"""An Iceberg table that Iceberg's own streaming sink writes to: which batches of a query it has.

The sink records the query's id and the batch in the summary of each snapshot, and looks there from the newest snapshot
backwards. It is asked in the same way, through the library in the session's JVM. Where a class is missing, asking
raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from holdfast.identifiers import BatchId

_QUERY = "spark.sql.streaming.queryId"
_BATCH = "spark.sql.streaming.epochId"


class HistoryExpired(Exception):
    """Older snapshots were expired, and no newer one is of the query."""


class IcebergTable:
    def __init__(self, spark: SparkSession, name: str, branch: str | None = None) -> None:
        self.name = f"Iceberg's sink at {name}"
        self._spark = spark
        self._table = name
        self._branch = branch or "main"

    def newest_of(self, query: str | None) -> BatchId | None:
        """The sink accepts a batch that is newer than the newest one of the query's id in the table's history."""
        if query is None:
            return None
        snapshot = None
        for snapshot in self._history():
            summary = snapshot.summary()
            if summary.get(_QUERY) == query:
                return BatchId(int(summary.get(_BATCH)))
        if snapshot is not None and snapshot.parentId() is not None:
            raise HistoryExpired(f"its snapshots before {snapshot.snapshotId()} have expired, none since is of {query}")
        return None

    def _history(self) -> Iterator[Any]:
        """Snapshots of the branch, newest first, as far as they are kept."""
        table = self._loaded()
        table.refresh()
        snapshot = table.snapshot(self._branch)
        while snapshot is not None:
            yield snapshot
            parent = snapshot.parentId()
            snapshot = None if parent is None else table.snapshot(parent)

    def _loaded(self) -> Any:
        jvm: Any = self._spark._jvm
        session = self._spark._jsparkSession
        if "/" in self._table:
            return jvm.org.apache.iceberg.hadoop.HadoopTables(session.sessionState().newHadoopConf()).load(self._table)
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, self._table)
