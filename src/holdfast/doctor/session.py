"""The Spark session of the doctor: quiet, and wherever spark-submit or the environment says; else on all cores."""

from __future__ import annotations

import os
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError


def doctors_session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    builder = SparkSession.builder.appName("holdfast doctor").config("spark.ui.showConsoleProgress", "false")
    try:
        return builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
    except (PySparkException, OSError) as error:
        why = str(error).strip().split("\n", 1)[0]
        raise HoldfastError(
            f"Starting Spark to read the logs failed: {why}", hint="install Java 17 or newer"
        ) from error
