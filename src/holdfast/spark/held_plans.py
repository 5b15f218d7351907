"""Spark's JVM asks before it writes `offsets/N`: the class `holdfast.HeldPlans`, compiled when the package is built.

It is added to the session as any jar is, so executors get it too and hold nothing. It extends the file manager that
`checkpoint_files` chooses for local directories, and behaves as that one otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from holdfast.spark.checkpoint_files import NAME, PACKAGES, SETTING, exists

JAR = Path(__file__).parent / "jvm" / "holdfast.jar"
_NAMES = ("holdfast.HeldPlans", "holdfast.HeldPlansBefore41")
"""For the packages in which Spark has what they extend, in the same order."""

Keeper = Callable[[int, bytes], str]
"""Why batch and offsets must not be written, "" when they may."""


def plans_refusal(session: SparkSession, work: str | Path | None) -> str | None:
    """Why plans cannot be held in this session, None when they can."""
    if work is not None and "://" in str(work) and not str(work).startswith("file:"):
        return "the work directory is not on a mounted file system"
    if not JAR.exists():
        return "this package was built without a JDK (javac), so the class that Spark needs for it is missing"
    chosen = session.conf.get(SETTING, None)
    if chosen is not None and chosen.rpartition(".")[2] != NAME and chosen not in _NAMES:
        return f"the session has {SETTING}={chosen}"
    return None


class HeldPlans:
    """The class in the JVM of a session."""

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        jvm: Any = self._context._jvm
        self.name = _NAMES[0] if exists(jvm, f"{PACKAGES[0]}.CheckpointFileManager") else _NAMES[1]
        self._loader, self._class = self._loaded(session)

    def _loaded(self, session: SparkSession) -> tuple[Any, Any]:
        loader = session._jsparkSession.sharedState().jarClassLoader()
        try:
            return loader, loader.loadClass(self.name)
        except Py4JJavaError:
            session.sql(f"ADD JAR '{JAR}'")
            return loader, loader.loadClass(self.name)

    def hold(self, directory: str, keeper: Keeper) -> None:
        """A query that starts in `directory`, from this thread, asks `keeper` before each batch."""
        jvm: Any = self._context._jvm
        ensure_callback_server_started(self._context._gateway)
        # The query's thread takes it over from the one that starts the query.
        jvm.java.lang.Thread.currentThread().setContextClassLoader(self._loader)
        self._call("hold", directory, _Function(keeper))

    def release(self, directory: str) -> None:
        self._call("release", directory)

    def _call(self, name: str, *arguments: object) -> None:
        method = next(method for method in self._class.getMethods() if method.getName() == name)
        jvm: Any = self._context._jvm
        given = jvm.java.util.ArrayList()
        for argument in arguments:
            given.add(argument)
        method.invoke(None, given.toArray())


class _Function:
    """A keeper as Java sees it."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def apply(self, batch: str, offsets: bytes) -> str:
        return self._keeper(int(batch), bytes(offsets))

    class Java:
        implements = ["java.util.function.BiFunction"]
