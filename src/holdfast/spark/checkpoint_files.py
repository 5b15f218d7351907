"""How Spark writes a query's logs and state into the work directory.

Its usual way sets the permissions of every file that it makes. Without Hadoop's native library, which PySpark does not
bring, Hadoop starts a process for that: several per batch and partition. Spark has another way, which leaves them as
they are and is the same otherwise on a local file system: written beside, then renamed. So a query gets that one unless
the user has chosen.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from pyspark.sql import SparkSession

from holdfast.job_log import log
from holdfast.workdir.interface import WorkDirectory

SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGES = ("org.apache.spark.sql.execution.streaming.checkpointing", "org.apache.spark.sql.execution.streaming")
"""Since Spark 4.1, and before."""
_NAME = "FileSystemBasedCheckpointFileManager"

_lock = threading.Lock()
_starting: dict[SparkSession, int] = {}
"""Sessions that have our setting at this moment, and how many queries start in them; none waits for another."""


def files_of(directory: WorkDirectory, session: SparkSession) -> AbstractContextManager[None]:
    """How a query that is started inside writes the files of this directory."""
    return quick_files(session) if directory.scheme == "file" else nullcontext()


@contextmanager
def quick_files(session: SparkSession) -> Iterator[None]:
    """For a query with a local checkpoint location that is started inside: it takes a copy of its session's settings.
    After that the session has the settings that it had."""
    ours = _enter(session)
    try:
        yield
    finally:
        if ours:
            _leave(session)


def _enter(session: SparkSession) -> bool:
    with _lock:
        if session not in _starting:
            manager = _quick_manager(session)
            if manager is None:
                return False
            session.conf.set(SETTING, manager)
        _starting[session] = _starting.get(session, 0) + 1
        return True


def _leave(session: SparkSession) -> None:
    with _lock:
        _starting[session] -= 1
        if not _starting[session]:
            del _starting[session]
            with suppress(Exception):  # a JVM that died while the query started has no settings
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
