"""A process may end at any moment, also while it closes the connection of a callback."""

from typing import Any

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from holdfast.spark import callbacks


def test_no_lock_of_the_jvm_is_held_by_this_process(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could give it back, and a JVM that outlives Python, as that of spark-submit, would never end."""
    context = spark.sparkContext
    field: Any = callbacks._field
    client = JavaObject("GATEWAY_SERVER", context._gateway._gateway_client).getCallbackClient()
    lock = field(client, "lock")
    held: list[bool] = []

    class Connections:
        def toArray(self) -> list[Any]:
            held.append(lock.isLocked())
            return []

    monkeypatch.setattr(
        callbacks, "_field", lambda of, name: Connections() if name == "connections" else field(of, name)
    )
    callbacks.close_callback(context, 1)
    assert held == [False]
