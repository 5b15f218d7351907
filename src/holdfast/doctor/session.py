"""The Spark session of the doctor: quiet, and wherever spark-submit or the environment says; else on all cores."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError


@contextmanager
def doctors_session() -> Iterator[SparkSession]:
    """A session of this process, if there is one, which then stays; else one that ends here."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    made_here = SparkContext._active_spark_context is None
    session = SparkSession.getActiveSession() or _started()
    try:
        yield session
    finally:
        if made_here:
            session.stop()


def _started() -> SparkSession:
    builder = SparkSession.builder.appName("holdfast doctor").config("spark.ui.showConsoleProgress", "false")
    try:
        return builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
    except (PySparkException, OSError) as error:
        why = str(error).strip().split("\n", 1)[0]
        raise HoldfastError(
            f"Starting Spark to read the logs failed: {why}", hint="install Java 17 or newer"
        ) from error
