"""What the stories need besides themselves: stores, brokers, databases, JVMs, each of them once."""

import os
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from tests.compat.environments import OWN, interpreter_of
from tests.end_to_end.connectors import DELTA_SPARK, ICEBERG_SPARK, kafka_broker
from tests.end_to_end.forked_drivers import ForkedDrivers
from tests.end_to_end.own_writer_driver import jars_of_all
from tests.end_to_end.own_writer_story import DRIVER, OF_DELTA, python_for
from tests.end_to_end.postgres import postgres_server
from tests.end_to_end.warm_jvm import WarmJvm
from tests.stores.s3 import S3Server, s3_server

_IMPORTED = (DRIVER, "pyspark.sql", "holdfast.runtime.run.launching")


class Servers:
    """Started when they are needed, ended with the campaign."""

    def __init__(self, root: Path, held: ExitStack) -> None:
        self._root = root
        self._held = held
        self._jvms: dict[str, WarmJvm] = {}
        self._forked: dict[str, ForkedDrivers] = {}

    @cache  # noqa: B019
    def s3(self) -> S3Server:
        place = self._root / "s3"
        place.mkdir()
        return self._held.enter_context(s3_server(place))

    @cache  # noqa: B019
    def kafka(self) -> str:
        return self._held.enter_context(kafka_broker(self._root / "kafka"))

    @cache  # noqa: B019
    def postgres(self) -> str:
        return self._held.enter_context(postgres_server(self._root / "postgres"))

    def jvm(self, writer: str) -> WarmJvm:
        python = python_for(writer)
        if python not in self._jvms:
            version: str = OWN
            writers: tuple[str, ...] = ("files",)
            if writer in OF_DELTA:
                version, writers = DELTA_SPARK, OF_DELTA
            elif writer == "iceberg":
                version, writers = ICEBERG_SPARK, ("iceberg",)
            self._jvms[python] = WarmJvm({"spark.jars": jars_of_all(writers)}, _spark_home(version))
        return self._jvms[python]

    def forked(self, writer: str) -> ForkedDrivers:
        python = python_for(writer)
        if python not in self._forked:
            path = {"PYTHONPATH": self.jvm(writer).environment()["PYTHONPATH"]}
            self._forked[python] = drivers = ForkedDrivers(python, _IMPORTED, {**os.environ, **path})
            self._held.callback(drivers.end)
        return self._forked[python]


def _spark_home(version: str) -> Path | None:
    if version == OWN:
        return None
    (found,) = Path(interpreter_of(version)).parents[1].glob("lib/python*/site-packages/pyspark")
    return found
