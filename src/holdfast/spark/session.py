"""The Spark session, when the user brings none."""

import os
import sys

from pyspark import SparkConf
from pyspark.sql import SparkSession

_FAIR = ("spark.scheduler.mode", "FAIR")
"""Batches and the copying of checkpoints take turns, each in its own pool."""


def session_for(job: str) -> SparkSession:
    """The active session, or a new one: local with all cores unless spark-submit or the environment says otherwise."""
    # Workers must run the driver's interpreter, or they miss the packages of its virtual environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    builder = SparkSession.builder.appName(f"holdfast: {job}").config("spark.ui.showConsoleProgress", "false")
    if not SparkConf().contains(_FAIR[0]):
        builder = builder.config(*_FAIR)
    return builder.getOrCreate()
