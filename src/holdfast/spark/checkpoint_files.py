"""How Spark writes a query's logs and state into the work directory.

Its usual way sets the permissions of every file that it makes. Without Hadoop's native library, which PySpark does not
bring, Hadoop starts a process for that: several per batch and partition. Spark has another way, which leaves them as
they are and is the same otherwise on a local file system: written beside, then renamed. So a query gets that one unless
the user has chosen.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

log = logging.getLogger("holdfast")

SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGES = ("org.apache.spark.sql.execution.streaming.checkpointing", "org.apache.spark.sql.execution.streaming")
"""Since Spark 4.1, and before."""
_NAME = "FileSystemBasedCheckpointFileManager"

# A query takes a copy of its session's settings when it starts. Others that start at the same time wait.
_starting = threading.Lock()


@contextmanager
def quick_files(session: SparkSession) -> Iterator[None]:
    """For queries with a local checkpoint location that are started inside. The session's settings stay as they are."""
    with _starting:
        manager = _quick_manager(session)
        if manager is not None:
            session.conf.set(SETTING, manager)
        try:
            yield
        finally:
            if manager is not None:
                session.conf.unset(SETTING)


def _quick_manager(session: SparkSession) -> str | None:
    """None where the usual way is to be left alone: chosen by the user, or not slow."""
    try:
        if session.conf.get(SETTING, None) is not None:
            return None
        jvm: Any = session.sparkContext._jvm
        if jvm.org.apache.hadoop.util.NativeCodeLoader.isNativeCodeLoaded():
            return None
        return next((name for name in (f"{package}.{_NAME}" for package in _PACKAGES) if _exists(jvm, name)), None)
    except Exception as error:
        log.debug("Spark's files are written the usual way: %s", error)
        return None


def _exists(jvm: Any, name: str) -> bool:
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(f"{name.replace('.', '/')}.class") is not None
