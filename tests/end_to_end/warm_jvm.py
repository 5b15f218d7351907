"""One JVM that serves many driver processes, one after the other.

Starting a JVM and the first batch in it take two thirds of the life of a driver that dies after a few batches. A driver
attaches to a JVM that exists when its environment says so, and makes a Spark context of its own in there. Its death by
SIGKILL is real, and so is that of everything in Python; Spark's part is stopped right after, by `clear`. Tests in which
the JVM must die at that very moment use one of their own, and in `make torture` all do.
"""

import atexit
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from tests.patience import PATIENCE

_CLOSED_BY_THE_OTHER_SIDE = "08"
_NUMBERS = Path(__file__).parent / "in_warm_jvm"
# What a driver in this JVM finds when it sets nothing itself.
_DEFAULTS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class WarmJvm:
    def __init__(self, settings: Mapping[str, str] = MappingProxyType({}), spark_home: Path | None = None) -> None:
        """`settings` besides the usual ones; `spark_home` of another version of PySpark than this process has."""
        self._settings = {**_DEFAULTS, **settings}
        self._spark_home = spark_home
        self._gateway: Any = None

    def environment(self) -> dict[str, str]:
        """For a driver that is to live in this JVM, alone."""
        if self._gateway is None:
            self._start()
        self.clear()
        address = self._gateway.java_parameters
        return {
            "PYSPARK_GATEWAY_PORT": str(address.port),
            "PYSPARK_GATEWAY_SECRET": address.auth_token,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(_NUMBERS), os.environ.get("PYTHONPATH")])),
        }

    def clear(self) -> None:
        """End what the last driver left: its queries at once, then its Spark context."""
        if self._gateway is None:
            return
        deadline = time.monotonic() + PATIENCE
        while self._end_what_is_there() or self._works_for_the_dead():
            assert time.monotonic() < deadline, f"the JVM works on for a driver that ended {PATIENCE:g} s ago"
            time.sleep(0.02)

    def _end_what_is_there(self) -> bool:
        """True if there was something."""
        sessions = self._gateway.jvm.org.apache.spark.sql.classic.SparkSession
        session, context = sessions.getDefaultSession(), self._contexts().getActive()
        if session.isDefined():
            for query in session.get().streams().active():
                query.stop()
        if context.isDefined():  # a driver may have died before it had a session
            context.get().stop()
        sessions.clearDefaultSession()
        sessions.clearActiveSession()
        return bool(context.isDefined())

    def _contexts(self) -> Any:
        return getattr(getattr(self._gateway.jvm.org.apache.spark, "SparkContext$"), "MODULE$")

    def _works_for_the_dead(self) -> bool:
        """What a driver asked for last is done to its end, also when it has died: a context that was being made."""
        port = self._gateway.java_parameters.port
        return any(
            int(local.rpartition(":")[2], 16) == port and state == _CLOSED_BY_THE_OTHER_SIDE
            for table in ("/proc/net/tcp", "/proc/net/tcp6")
            for _, local, _, state, *_ in (line.split() for line in Path(table).read_text().splitlines()[1:])
        )

    def discard(self, log: Path) -> None:
        """A driver hangs in it: what its threads do goes to the log, and the next driver gets another one."""
        if self._gateway is not None:
            with log.open("ab") as file:
                subprocess.run(["jstack", str(self._gateway.proc.pid)], stdout=file, stderr=file, check=False)
            self._gateway.proc.kill()
            self._gateway = None

    def _start(self) -> None:
        conf = SparkConf(loadDefaults=False).setAll(list(self._settings.items()))
        with self._of_that_version():
            self._gateway = launch_gateway(conf, {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL})
        atexit.register(self._gateway.proc.kill)

    @contextmanager
    def _of_that_version(self) -> Iterator[None]:
        """A JVM is started with the environment of this process."""
        before = os.environ.get("SPARK_HOME")
        if self._spark_home is not None:
            os.environ["SPARK_HOME"] = str(self._spark_home)
        yield
        if self._spark_home is not None:
            os.environ.pop("SPARK_HOME")
        if before is not None:
            os.environ["SPARK_HOME"] = before
