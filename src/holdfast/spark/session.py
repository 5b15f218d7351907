"""The Spark session, when the user passes none."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from holdfast.errors import InvalidSettings
from holdfast.job_log import phase
from holdfast.spark.class_archive import sharing_classes
from holdfast.spark.started_processes import none_left_behind
from holdfast.spark.stop_signals import take_signals_back
from holdfast.spark.user_name import require_a_name

_FAIR = ("spark.scheduler.mode", "FAIR")
"""Batches and copy tasks share the executors fairly, each in its own pool."""


def session_for(job: str, spark_log: Path | None = None) -> SparkSession:
    """The active session, or a new one: local with all cores, unless spark-submit or the environment configures another
    master.

    The output of a new JVM goes to `spark_log`, if given.
    """
    # Workers must run the driver's interpreter: another one lacks the packages of its virtual environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    settings = {"spark.app.name": f"holdfast: {job}", "spark.ui.showConsoleProgress": "false"}
    if not SparkConf().contains(_FAIR[0]):
        settings.update([_FAIR])
    if SparkContext._gateway is None:
        require_a_name()
    if SparkContext._gateway is None:
        with sharing_classes(), phase("JVM"):
            _start_jvm(settings, spark_log)
    with phase("Spark session"):
        SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
        take_signals_back()  # at once: what PySpark does on Ctrl-C fails while it still talks to the JVM
        return SparkSession.builder.config(map=settings).getOrCreate()


def _start_jvm(settings: dict[str, str], spark_log: Path | None) -> None:
    """Starts the JVM as PySpark would; its output goes to the file, if given."""
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    if spark_log is None:
        with none_left_behind():
            SparkContext._ensure_initialized(conf=conf)
        return
    try:
        with _fresh(spark_log) as output, none_left_behind():
            gateway = launch_gateway(conf, popen_kwargs={"stdout": output, "stderr": output})
    except OSError as error:
        raise InvalidSettings.of("spark_log", str(spark_log), f"it cannot be written: {error}") from error
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _fresh(path: Path) -> BinaryIO:
    """An empty file that only its owner may read, because Spark prints settings. The previous run's file is kept beside
    it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        path.replace(path.with_name(f"{path.name}.1"))
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
