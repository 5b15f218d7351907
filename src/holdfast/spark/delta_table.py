"""A Delta table that Spark's own Delta sink writes to: which batches of a query it has, and how they are taken back.

Asked through the Delta library in the session's JVM, with the session's own access to the table: who writes with
`format("delta")` has it. Its classes are not public; where one is missing, asking raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from holdfast.identifiers import BatchId
from holdfast.plans.table_history import Beyond, Change, shown_beyond
from holdfast.spark.planning import singleton

_LOG = "org.apache.spark.sql.delta.DeltaLog"
_RESTORE = "RESTORE"


class DeltaTable:
    def __init__(self, spark: SparkSession, path: str) -> None:
        self.name = f"Spark's Delta sink at {path}"
        self._spark = spark
        self._path = path

    def newest_of(self, query: str | None) -> BatchId | None:
        """The sink accepts a batch that is newer than the table's transaction of the query's id."""
        if query is None:
            return None
        log = singleton(self._spark._jvm, _LOG).forTable(self._spark._jsparkSession, self._path)
        version = _as_of_now(self._spark, log).transactions().get(query)
        return BatchId(int(version.get())) if version.isDefined() else None

    def beyond(self, query: str, barrier: BatchId) -> Beyond | None:
        return shown_beyond(self._changes(), query, barrier)

    def take_back(self, version: int) -> str:
        return f"RESTORE TABLE delta.`{self._path}` TO VERSION AS OF {version}"

    def _changes(self) -> Iterator[Change]:
        rows = self._spark.sql(f"DESCRIBE HISTORY delta.`{self._path}`").collect()
        changes = {row.version: _change(row) for row in rows}
        version: int | None = max(changes, default=None)
        while version in changes:
            yield changes[version]
            version = changes[version].before


def _change(row: Any) -> Change:
    given = row.operationParameters or {}
    before = row.version - 1 if row.version else None
    if row.operation == _RESTORE:
        # Of one that was restored by time the table does not say the version: it counts for nothing.
        before = int(given["version"]) if (given.get("version") or "").isdigit() else row.version - 1
    query, batch = given.get("queryId"), given.get("epochId")
    return Change(row.version, before, query, None if batch is None else BatchId(int(batch)))


def _as_of_now(spark: SparkSession, log: Any) -> Any:
    """The table's newest snapshot. The parameters of `update` differ between versions, and none is needed."""
    jvm: Any = spark._jvm
    update = next(method for method in log.getClass().getMethods() if method.getName() == "update")
    given = [
        False if parameter.getName() == "boolean" else jvm.scala.Option.empty()
        for parameter in update.getParameterTypes()
    ]
    return log.update(*given)
