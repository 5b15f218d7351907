"""One JVM that serves many driver processes, one after the other.

Starting a JVM and the first batch in it take two thirds of the life of a driver that dies after a few batches. A driver
attaches to a JVM that exists when its environment says so, and makes a Spark context of its own in there. Its death by
SIGKILL is real, and so is that of everything in Python; Spark's part is stopped right after, by `clear`. Tests in which
the JVM must die at that very moment use one of their own, and in `make torture` all do.
"""

import atexit
import os
import subprocess
from pathlib import Path
from typing import Any

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

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
    def __init__(self) -> None:
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
        sessions = self._gateway.jvm.org.apache.spark.sql.classic.SparkSession
        found = sessions.getDefaultSession()
        if found.isDefined():
            session = found.get()
            for query in session.streams().active():
                query.stop()
            session.stop()
        sessions.clearDefaultSession()
        sessions.clearActiveSession()

    def discard(self, log: Path) -> None:
        """A driver hangs in it: what its threads do goes to the log, and the next driver gets another one."""
        if self._gateway is not None:
            with log.open("ab") as file:
                subprocess.run(["jstack", str(self._gateway.proc.pid)], stdout=file, stderr=file, check=False)
            self._gateway.proc.kill()
            self._gateway = None

    def _start(self) -> None:
        conf = SparkConf(loadDefaults=False).setAll(list(_DEFAULTS.items()))
        self._gateway = launch_gateway(conf, {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL})
        atexit.register(self._gateway.proc.kill)
