"""Refuses, before anything is changed, what Spark would refuse at the query's start or only at its first batch."""

from __future__ import annotations

from contextlib import suppress

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from holdfast.checkpoint.query_facts import PROVIDER
from holdfast.errors import InvalidSettings
from holdfast.spark.forgetting import require_keeping_sources
from holdfast.spark.planning import nodes, output_mode_of, singleton
from holdfast.spark.query_facts import frame_and_mode

_CHECKED = "spark.sql.streaming.unsupportedOperationCheck"
_CHECKER = "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker"
_WITHOUT_COLUMN_FAMILIES = "HDFSBackedStateStoreProvider"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def require_runnable(built: DataFrame | DataStreamWriter, output_mode: str, *, begins: bool) -> None:
    """`begins`: the job has no checkpoint. With one, Spark takes the state store provider from there."""
    frame, mode = frame_and_mode(built, output_mode)
    _require_supported(frame, mode or "append")
    require_keeping_sources(frame)
    if begins:
        _require_column_families(frame)


def _require_supported(frame: DataFrame, mode: str) -> None:
    try:
        if frame.sparkSession.conf.get(_CHECKED) == "false":
            return
        checker = singleton(frame.sparkSession._jvm, _CHECKER)
        checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), output_mode_of(frame, mode))
    except AnalysisException as error:
        raise InvalidSettings(
            f"Spark cannot run this query in output mode {mode!r}: {str(error).partition(chr(10))[0].rstrip(';')}",
            hint="change the query, or output_mode",
        ) from error
    except Exception:
        return  # this version of Spark has no such check; it reports the error itself when the query starts


def _require_column_families(frame: DataFrame) -> None:
    provider = ""
    with suppress(Exception):
        kinds = {str(node.getClass().getSimpleName()) for node in nodes(frame._jdf.queryExecution().analyzed())}
        if any(kind.startswith("TransformWithState") for kind in kinds):
            provider = str(frame.sparkSession.conf.get(PROVIDER))
    if provider.endswith(_WITHOUT_COLUMN_FAMILIES):
        raise InvalidSettings(
            f"transformWithState cannot keep its state in Spark's {_WITHOUT_COLUMN_FAMILIES}, which has no column "
            "families: Spark would fail at the first batch",
            hint=f"set {PROVIDER}={_ROCKSDB} before the first start",
        )
