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

from holdfast.errors import InvalidSettings
from holdfast.spark.checkpoint_files import NAME, PACKAGES, SETTING, exists

JAR = Path(__file__).parent / "jvm" / "holdfast.jar"
_NAMES = ("holdfast.HeldPlans", "holdfast.HeldPlansBefore41")
"""For the packages in which Spark has what they extend, in the same order."""

_OF_ALL_THREADS = "MutableURLClassLoader"
"""The class loader that threads have from the beginning, to which jars can be added."""

Keeper = Callable[[int, bytes], str]
"""Why batch and offsets must not be written, "" when they may."""


def plans_refusal(session: SparkSession, work: str | Path | None) -> str | None:
    """Why plans cannot be held in this session, None when they can."""
    if work is not None and "://" in str(work) and not str(work).startswith(("file:", "s3a:")):
        return "the work directory is neither on a mounted file system nor on S3"
    if not JAR.exists():
        return "this package was built without a JDK (javac), so the class that Spark needs for it is missing"
    chosen = session.conf.get(SETTING, None)
    if chosen is not None and chosen.rpartition(".")[2] != NAME and chosen not in _NAMES:
        return f"the session has {SETTING}={chosen}"
    return None


class HeldPlans:
    """The class in the JVM of a session."""

    def __init__(self, session: SparkSession, *, for_all_threads: bool = False) -> None:
        """With `for_all_threads` every thread of this JVM can load it, and so any query of the session use it."""
        self._context = session.sparkContext
        jvm: Any = self._context._jvm
        self.name = _NAMES[0] if exists(jvm, f"{PACKAGES[0]}.CheckpointFileManager") else _NAMES[1]
        if for_all_threads:
            self._add_to_all(session)
        self._loader, self._class = self._loaded(session)

    def _add_to_all(self, session: SparkSession) -> None:
        jvm: Any = self._context._jvm
        loader = session._jsparkSession.sharedState().jarClassLoader()
        while loader is not None and not loader.getClass().getName().endswith(f".{_OF_ALL_THREADS}"):
            loader = loader.getParent()
        if loader is None:
            raise InvalidSettings(
                f"could not add {JAR} to the driver's JVM: it has no {_OF_ALL_THREADS}",
                hint=f"start Spark with spark.jars={JAR}",
            )
        loader.addURL(jvm.java.io.File(str(JAR)).toURI().toURL())
        session.sql(f"ADD JAR '{JAR}'")  # for executors

    def _loaded(self, session: SparkSession) -> tuple[Any, Any]:
        loader = session._jsparkSession.sharedState().jarClassLoader()
        try:
            return loader, loader.loadClass(self.name)
        except Py4JJavaError:
            session.sql(f"ADD JAR '{JAR}'")
            return loader, loader.loadClass(self.name)

    def commits(self) -> int:
        """How many batches queries of this JVM have committed in directories on S3."""
        return int(self._call("commits"))

    def hold(self, directory: str, keeper: Keeper) -> None:
        """A query that starts in `directory`, from this thread, asks `keeper` before each batch."""
        ensure_callback_server_started(self._context._gateway)
        self.write_here()
        self._call("hold", directory, _Function(keeper))

    def write_here(self) -> None:
        """A query that starts from this thread can load the class: its thread takes this one's loader over."""
        jvm: Any = self._context._jvm
        jvm.java.lang.Thread.currentThread().setContextClassLoader(self._loader)

    def release(self, directory: str) -> None:
        self._call("release", directory)

    def _call(self, name: str, *arguments: object) -> Any:
        method = next(method for method in self._class.getMethods() if method.getName() == name)
        jvm: Any = self._context._jvm
        given = jvm.java.util.ArrayList()
        for argument in arguments:
            given.add(argument)
        return method.invoke(None, given.toArray())


class _Function:
    """A keeper as Java sees it."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def apply(self, batch: str, offsets: bytes) -> str:
        return self._keeper(int(batch), bytes(offsets))

    class Java:
        implements = ["java.util.function.BiFunction"]
