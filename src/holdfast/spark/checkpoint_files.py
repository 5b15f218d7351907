"""How Spark writes a query's logs and state into the work directory.

By default Spark sets the permissions of every file that it creates. Without Hadoop's native library, which PySpark does
not include, Hadoop starts a process for that: several per batch and partition. Spark has another checkpoint file
manager that leaves permissions alone and otherwise does the same on a local file system: it writes a temporary file and
renames it. Queries use that one unless the user has configured another.
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
PACKAGES = ("org.apache.spark.sql.execution.streaming.checkpointing", "org.apache.spark.sql.execution.streaming")
"""Since Spark 4.1, and earlier."""
NAME = "FileSystemBasedCheckpointFileManager"

_lock = threading.Lock()
_starting: dict[SparkSession, int] = {}
"""Sessions that have our setting now, and how many queries are starting in each; no start waits for another."""
_before: dict[SparkSession, str | None] = {}
"""Their former settings."""


def files_of(
    directory: WorkDirectory, session: SparkSession, manager: str | None = None
) -> AbstractContextManager[None]:
    """Inside this context, a query that starts writes the files of this directory in the right way. `manager` as in
    `quick_files`."""
    ours = directory.scheme == "file" or manager is not None
    return quick_files(session, manager) if ours else nullcontext()


@contextmanager
def quick_files(session: SparkSession, manager: str | None = None) -> Iterator[None]:
    """A query that starts in the block with a local checkpoint location gets a quick file manager, as it copies the
    settings of its session. Afterwards the session has its former settings again. `manager`: a class that is as quick
    and does more."""
    ours = _enter(session, manager)
    try:
        yield
    finally:
        if ours:
            _leave(session)


def _enter(session: SparkSession, manager: str | None) -> bool:
    with _lock:
        if session not in _starting:
            manager = manager or _quick_manager(session)
            if manager is None:
                return False
            _before[session] = session.conf.get(SETTING, None)
        if manager is not None:
            session.conf.set(SETTING, manager)
        _starting[session] = _starting.get(session, 0) + 1
        return True


def _leave(session: SparkSession) -> None:
    with _lock:
        _starting[session] -= 1
        if not _starting[session]:
            del _starting[session]
            before = _before.pop(session)
            with suppress(Exception):  # the JVM ended while the query started: there are no settings
                session.conf.unset(SETTING) if before is None else session.conf.set(SETTING, before)


def _quick_manager(session: SparkSession) -> str | None:
    """None to keep Spark's default: the user has configured it, or it is not slow."""
    try:
        if session.conf.get(SETTING, None) is not None:
            return None
        jvm: Any = session.sparkContext._jvm
        if jvm.org.apache.hadoop.util.NativeCodeLoader.isNativeCodeLoaded():
            return None
        return next((name for name in (f"{package}.{NAME}" for package in PACKAGES) if exists(jvm, name)), None)
    except Exception as error:
        log.debug("Spark keeps its default checkpoint file manager: %s", error)
        return None


def exists(jvm: Any, name: str) -> bool:
    """Whether the JVM has a class of that name."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(f"{name.replace('.', '/')}.class") is not None
