"""Runs planned batches again, each as a query of its own: Spark looks only at the newest plan of a directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from holdfast.job_log import begin_step, log
from holdfast.plans.replay import How, Repeat
from holdfast.plans.spark_logs import commit, put_in_place
from holdfast.runtime.ports import RunDirectory
from holdfast.runtime.query.causes import StartFailed
from holdfast.spark.failure_text import exception_text, failure_text
from holdfast.spark.query_facts import frame_and_mode
from holdfast.spark.writer_position import field_of
from holdfast.storage.durable import storage_errors

Files = Callable[[], AbstractContextManager[None]]
"""How Spark is to write the files of a query that is started inside."""

_EVERY = 20
"""Batches between two lines that say how far it is."""


def repeat_batches(writer: DataStreamWriter, directory: RunDirectory, steps: Sequence[Repeat], files: Files) -> None:
    """Raises `StartFailed`."""
    for number, step in enumerate(steps, 1):
        begin_step(f"repeating batch {number} of {len(steps)}")
        if number % _EVERY == 0:
            log.info("repeated %s of %s planned batches", number, len(steps))
        with storage_errors(f"put the plan of batch {step.batch_id} into {directory.location}"):
            put_in_place(directory, step.plan)
            if step.how is How.COMMIT:
                commit(directory, step.plan, steps[number].plan)
        match step.how:
            case How.LEAVE:
                return
            case How.DISCARD:
                _run_once(_discarding(writer), directory, step, files)
            case How.WRITE:
                _written_once(writer, directory, step, files)


def _discarding(writer: DataStreamWriter) -> DataStreamWriter:
    """Computes the same, and keeps nothing of it but the state."""
    frame, mode = frame_and_mode(writer, "append")
    return frame.writeStream.format("noop").outputMode(mode or "append").trigger(once=True)


def _written_once(writer: DataStreamWriter, directory: RunDirectory, step: Repeat, files: Files) -> None:
    """With the query's own writer, which has its own trigger again afterwards."""
    trigger = field_of(writer, "trigger")
    writer.trigger(once=True)
    try:
        _run_once(writer, directory, step, files)
    finally:
        writer._jwrite.trigger(trigger)


def _run_once(writer: DataStreamWriter, directory: RunDirectory, step: Repeat, files: Files) -> None:
    query: StreamingQuery | None = None
    try:
        with files():
            query = writer.option("checkpointLocation", directory.location).start()
        query.awaitTermination()
    except Exception as error:
        frame, _ = frame_and_mode(writer, "append")
        said = failure_text(frame.sparkSession, query) if query is not None else None
        raise StartFailed(said or exception_text(error)) from error
    if directory.newest_barrier() != step.batch_id:
        raise StartFailed(f"Spark did not repeat batch {step.batch_id} in {directory.location}")
