"""Runs copy tasks on Spark's executors: each is a Spark job of one task, in a scheduler pool of its own.

A batch never queues behind copying: at most a quarter of the executors' task slots copy at the same time, and the pool
separates waiting copy tasks from those of batches. Cancelling the Spark job cancels its task.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from holdfast.identifiers import JobName
from holdfast.job_log import log
from holdfast.snapshot.carrier import Cancelled
from holdfast.snapshot.copy_task import CopyReport, CopyTask, WorkerUnavailable, run_copy_task
from holdfast.spark.failures import one_line

POOL = "holdfast"
_SHARE = 4
_LOOK_S = 0.05
"""How often to check whether a Spark job is done or cancelled."""


class Executors:
    def __init__(self, spark: SparkSession, job: JobName, *, most: int, slots: int) -> None:
        """At most `most` tasks copy at once, fewer on a small cluster, and none when there are fewer than `slots` task
        slots."""
        self._context = spark.sparkContext
        self._job = job
        self._most = most
        self._fewest_slots = slots
        self._busy = 0
        self._counting = threading.Lock()

    def at_once(self) -> int:
        return max(1, min(self._most, self.slots() // _SHARE))

    def slots(self) -> int:
        """Tasks that the executors can run at the same time now; 0 when Spark does not report it."""
        try:
            context = self._context._jsc.sc()
            return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))
        except Exception as error:  # the JVM may be gone
            log.debug("could not count the executors: %s", error)
            return 0

    def send(self, copy_task: CopyTask, cancelled: Callable[[], bool]) -> CopyReport:
        if (slots := self.slots()) < self._fewest_slots:
            raise WorkerUnavailable(f"the executors have {slots} task slots, batches would wait for the copy")
        with self._turn(cancelled):
            try:
                return self._run(copy_task, cancelled)
            except Cancelled:
                raise
            except Exception as error:  # of Spark, Py4J or a connection: the JVM may be gone
                raise WorkerUnavailable(f"Spark could not run the task: {one_line(error)}") from error

    @contextmanager
    def _turn(self, cancelled: Callable[[], bool]) -> Iterator[None]:
        while not self._took_turn():
            if cancelled():
                raise Cancelled
            time.sleep(_LOOK_S)
        try:
            yield
        finally:
            with self._counting:
                self._busy -= 1

    def _took_turn(self) -> bool:
        most = self.at_once()
        with self._counting:
            if self._busy >= most:
                return False
            self._busy += 1
            return True

    def _run(self, copy_task: CopyTask, cancelled: Callable[[], bool]) -> CopyReport:
        context = self._context
        # Job group and pool are local to this thread, which uses Spark for nothing else.
        context.setLocalProperty("spark.scheduler.pool", POOL)
        context.setJobGroup(f"holdfast: {self._job}", f"checkpoint: {len(copy_task.shards)} shards", True)
        task = context.parallelize([copy_task], 1).map(run_copy_task)
        running = task._jrdd.collectAsync()
        while not running.isDone():
            if cancelled():
                running.cancel(True)
                raise Cancelled
            time.sleep(_LOOK_S)
        ((report,),) = (pickle.loads(bytes(answer)) for answer in running.get())
        assert isinstance(report, CopyReport)
        return report
