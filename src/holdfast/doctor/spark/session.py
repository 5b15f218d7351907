"""The Spark session of the doctor: quiet, on the master of spark-submit or the environment; else on all cores."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.errors import InvalidSettings
from holdfast.spark.started_processes import none_left_behind

_QUIET = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
logger.python.name = org.apache.spark.api.python.PythonGatewayServer
logger.python.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
_OPTIONS = "SPARK_SUBMIT_OPTS"


@contextmanager
def doctors_session() -> Iterator[SparkSession]:
    """The session of this process, if there is one, which is kept; else a new one, which is stopped at the end."""
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
        with quiet_unless_it_fails():
            with none_left_behind():
                SparkContext._ensure_initialized()
            return builder.config("spark.ui.enabled", "false").getOrCreate()
    except (PySparkException, OSError) as error:
        why = str(error).strip().split("\n", 1)[0]
        raise InvalidSettings(
            f"Starting Spark to read the logs failed: {why}", hint="install Java 17 or newer"
        ) from error


@contextmanager
def quiet_unless_it_fails() -> Iterator[None]:
    """Spark prints ten lines before its log level applies. They are only shown if the start fails."""
    before = os.environ.get(_OPTIONS)
    if before and "log4j" in before:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as directory:
        settings = Path(directory) / "log4j2.properties"
        settings.write_text(_QUIET)
        os.environ[_OPTIONS] = " ".join(filter(None, (before, f"-Dlog4j2.configurationFile={settings.as_uri()}")))
        try:
            yield
        finally:
            if before is None:
                del os.environ[_OPTIONS]
            else:
                os.environ[_OPTIONS] = before
