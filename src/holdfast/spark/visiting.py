"""Checks the executors before the job starts: do they see the work directory, and can they copy?"""

from __future__ import annotations

import os
import pickle
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import SparkSession

from holdfast.errors import InvalidSettings
from holdfast.sinks.asking_executors import ask_executors
from holdfast.version import VERSION
from holdfast.workdir.interface import WorkDirectory

_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Visit:
    """The answer of one executor. A host may have several."""

    host: str
    executor: int
    unseen: str | None
    """Why it does not see the driver's work directory."""
    unable: str | None
    """Why it cannot use holdfast."""


def visit_executors(spark: SparkSession, work: WorkDirectory) -> tuple[Visit, ...]:
    """One visit per current executor; none when no executor answers in time."""
    made = not work.exists()
    token = f".probe-{uuid.uuid4().hex}"
    work.write_atomic(token, token.encode())
    try:
        answers = ask_executors(spark, _visitor_of(work, token), time.monotonic() + _PATIENCE_S)
        return tuple(Visit(*answer) for answer in answers)
    finally:
        with suppress(OSError):
            work.remove(token)
        if made:
            work.remove_if_empty()


def require_seen(visits: Sequence[Visit], work: WorkDirectory) -> None:
    """Spark itself needs it: executors write the state there, and the driver the offset and commit logs."""
    blind = {visit.host: visit.unseen for visit in visits if visit.unseen is not None}
    if blind:
        reasons = sorted(set(blind.values()))
        raise InvalidSettings.of(
            "work",
            work.location,
            f"executors on {', '.join(sorted(blind))} do not see it ({'; '.join(map(str, reasons))})",
            hint="name a directory that the driver and all executors have mounted at the same path: --work /mnt/shared",
        )


def unable_to_copy(visits: Sequence[Visit]) -> str | None:
    """Why the executors cannot copy shards, None when they can."""
    unable = {visit.host: visit.unable for visit in visits if visit.unable is not None}
    if not unable:
        return None if visits else f"no executor answered within {_PATIENCE_S:.0f} s"
    reasons = sorted(set(unable.values()))
    return f"executors on {', '.join(sorted(unable))} cannot load holdfast ({'; '.join(map(str, reasons))})"


Visitor = Callable[[int], tuple[str, int, str | None, str | None]]


def _visitor_of(work: WorkDirectory, token: str) -> Visitor:
    if work.mounted_at is None:
        return _visitor(token, None, pickle.dumps(work))
    path = str(work.mounted_at / token)
    return _visitor(path, os.stat(path).st_ino)


def _visitor(token: str, inode: int | None, directory: bytes = b"") -> Visitor:
    """A function without references to this package: it must also run where holdfast is not installed.

    Without an `inode` the token is in a pickled work directory, which only holdfast can read.
    """
    version = VERSION

    def visit(_: int) -> tuple[str, int, str | None, str | None]:
        import importlib
        import os
        import pickle
        import socket
        import time

        unseen = unable = None
        try:
            if inode is not None and os.stat(token).st_ino != inode:
                unseen = "the path is another directory there"
        except OSError as error:
            unseen = error.strerror or str(error)
        try:
            importlib.import_module("holdfast.snapshot.copy_task")
            found = importlib.import_module("holdfast.version").VERSION
            if found != version:
                unable = f"holdfast {found} is installed there, the driver has {version}"
            elif inode is None and not pickle.loads(directory).exists(token):
                unseen = "the location is another directory there"
        except Exception as error:
            unable = f"{type(error).__name__}: {error}"
        time.sleep(0.1)
        return socket.gethostname(), os.getppid(), unseen, unable

    return visit
