"""A Delta table that Spark's own Delta sink writes to: which batches of a query it has.

Asked through the Delta library in the session's JVM, with the session's own access to the table: who writes with
`format("delta")` has it. Its classes are not public; where one is missing, asking raises.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from holdfast.identifiers import BatchId
from holdfast.spark.planning import singleton

_LOG = "org.apache.spark.sql.delta.DeltaLog"


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


def _as_of_now(spark: SparkSession, log: Any) -> Any:
    """The table's newest snapshot. The parameters of `update` differ between versions, and none is needed."""
    jvm: Any = spark._jvm
    update = next(method for method in log.getClass().getMethods() if method.getName() == "update")
    given = [
        False if parameter.getName() == "boolean" else jvm.scala.Option.empty()
        for parameter in update.getParameterTypes()
    ]
    return log.update(*given)
