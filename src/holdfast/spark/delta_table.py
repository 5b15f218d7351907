"""A Delta table that Spark's own Delta sink writes to: which batches of a query it has, and how they are taken back.

Asked through the Delta library in the session's JVM, with the session's own access to the table: who writes with
`format("delta")` has it. Its classes are not public; where one is missing, asking raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from holdfast.identifiers import BatchId
from holdfast.plans.table_history import Change, HistoryExpired, Shown, restored_to, shown
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

    def shown(self, query: str, barrier: BatchId) -> Shown:
        return shown(self._changes(), query, barrier)

    def restored_to(self, query: str, recorded: BatchId) -> BatchId | None:
        """The transactions of a table stay when an older version of it is restored."""
        return restored_to(self._changes(), query, recorded)

    def take_back(self, version: int) -> str:
        return f"RESTORE TABLE delta.`{self._path}` TO VERSION AS OF {version}"

    def _changes(self) -> Iterator[Change]:
        rows = {row.version: row for row in self._spark.sql(f"DESCRIBE HISTORY delta.`{self._path}`").collect()}
        version: int | None = max(rows, default=None)
        while version is not None and (row := rows.get(version)) is not None:
            change = Change(version, self._before(row, rows), *_streamed(row))
            yield change
            version = change.before

    def _before(self, row: Any, rows: Mapping[int, Any]) -> int | None:
        if row.operation != _RESTORE:
            return row.version - 1 if row.version else None
        given = row.operationParameters or {}
        if (given.get("version") or "").isdigit():
            return int(given["version"])
        # As text that Spark understands in the session's time zone. Delta's parser takes no parameters.
        moment = self._spark.range(1).select(lit(given.get("timestamp")).cast("timestamp")).collect()[0][0]
        older = [earlier.version for earlier in rows.values() if moment is not None and earlier.timestamp <= moment]
        if not older:
            raise HistoryExpired(f"version {row.version} restores one that the table's history does not have")
        return int(max(older))


def _streamed(row: Any) -> tuple[str | None, BatchId | None]:
    given = row.operationParameters or {}
    query, batch = given.get("queryId"), given.get("epochId")
    return query, None if batch is None else BatchId(int(batch))


def _as_of_now(spark: SparkSession, log: Any) -> Any:
    """The table's newest snapshot. The parameters of `update` differ between versions, and none is needed."""
    jvm: Any = spark._jvm
    update = next(method for method in log.getClass().getMethods() if method.getName() == "update")
    given = [
        False if parameter.getName() == "boolean" else jvm.scala.Option.empty()
        for parameter in update.getParameterTypes()
    ]
    return log.update(*given)
