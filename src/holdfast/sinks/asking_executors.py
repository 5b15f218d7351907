"""Runs a function once on every executor of a session."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROUNDS = 3
_LOOK_S = 0.05

# Takes the number of the task; returns host, executor, and the answer.
Question = Callable[[int], tuple[Any, ...]]


def is_cluster(master: str) -> bool:
    """Whether executors run in other processes than the driver."""
    return re.fullmatch(r"local(\[.*\])?", master) is None


def ask_executors(spark: SparkSession, question: Question, ends: float) -> list[tuple[Any, ...]]:
    """One answer from each registered executor; empty when none answers in time.

    Spark cannot send a task to a given executor. So there are more tasks than slots and each takes a moment, so that
    every executor gets one; if not, another round may reach it.
    """
    found: dict[tuple[str, int], tuple[Any, ...]] = {}
    for _ in range(_ROUNDS):
        for answer in _round(spark, question, ends):
            found[answer[0], answer[1]] = answer
        if not found or len(found) >= _registered(spark):
            break
    return list(found.values())


def _round(spark: SparkSession, question: Question, ends: float) -> list[tuple[Any, ...]]:
    context = spark.sparkContext
    tasks = 2 * max(1, context.defaultParallelism)
    answers = context.parallelize(range(tasks), tasks).map(question)
    running = answers._jrdd.collectAsync()
    while not running.isDone():
        if time.monotonic() > ends:  # noqa: TID251
            running.cancel(True)
            return []
        time.sleep(_LOOK_S)  # noqa: TID251
    return [answer for part in running.get() for answer in pickle.loads(bytes(part))]


def _registered(spark: SparkSession) -> int:
    """Number of executors, without the driver's own entry."""
    return len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1
