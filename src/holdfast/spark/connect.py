"""Refuses sessions of Spark Connect. Nothing here loads PySpark.

A client of Spark Connect has no JVM: Spark's listener, its query's thread, its checkpoint files, the scheduler pool and
the plan log are all reached through the driver's JVM, in the process that a pipeline runs in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from holdfast.errors import InvalidSettings

_PACKAGE = "pyspark.sql.connect."
_WHY = (
    "is a client of Spark Connect: it has no JVM, in which holdfast sees a batch commit, holds its plan and stops "
    "the query"
)
_HINT = (
    "run the pipeline in the driver: with spark-submit, python or holdfast run, a --master instead of --remote, "
    "and without SPARK_REMOTE and SPARK_CONNECT_MODE_ENABLED; docs/cluster.md"
)


def refuse_connect(*given: object) -> None:
    """Of sessions, DataFrames and writers."""
    for each in given:
        if type(each).__module__.startswith(_PACKAGE):
            raise InvalidSettings(f"could not use the {type(each).__name__}: it {_WHY}", hint=_HINT)


def refuse_connect_by(environment: Mapping[str, str] = os.environ) -> None:
    """Where a session that holdfast makes would be one."""
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if environment.get(name):
            raise InvalidSettings(f"could not make a Spark session: with {name} set it {_WHY}", hint=_HINT)
