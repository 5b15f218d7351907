"""Which exception of a chain decides, with chains that are hard to bring about. `tests/spark/test_causes.py` has the
others, from Spark itself."""

from pathlib import Path

import pytest

from holdfast.errors import Fenced, HoldfastError, StorageUnreachable
from holdfast.runtime.query.causes import (
    FailureCause,
    QueryFailure,
    failure_of_end,
    failure_of_start,
    failure_of_text,
)
from holdfast.runtime.query.exception_chain import chain_of
from holdfast.runtime.query_end import EndedBy, QueryEnd

FRAMES = "\tat org.apache.spark.sql.execution.streaming.state.RocksDB.load(RocksDB.scala:1052)\n\t... 12 more"


def chain(*exceptions: str) -> str:
    """As Java prints it, outermost first."""
    return f"\n{FRAMES}\nCaused by: ".join(exceptions) + f"\n{FRAMES}"


CANNOT_LOAD = "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred"
KAFKA_LOST = """org.apache.spark.sql.kafka010.KafkaIllegalStateException: \
Some data may have been lost because they are not available in Kafka any more;
either the data was aged out by Kafka or the topic may have been deleted before all the data in the
topic was processed.
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason: Could not read records in offset [10, 20) for topic partition orders-0"""
OUT_OF_RANGE = (
    "org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position FetchPosition{offset=10, ...} is "
    "out of range for partition orders-0"
)
DELTA_LOST = (
    "org.apache.spark.sql.delta.DeltaIllegalStateException: [DELTA_MISSING_FILES_UNEXPECTED_VERSION] "
    "Delta stream cannot resume from 3"
)
TASK = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 7.0 failed 1 times, most "
    "recent failure: Lost task 0.0 in stage 7.0 (TID 9) (10.0.0.7 executor driver): "
)


@pytest.mark.parametrize(
    ("end", "cause", "line"),
    [
        (
            chain(CANNOT_LOAD, "org.rocksdb.RocksDBException: Corruption: bad block contents"),
            FailureCause.STATE_UNREADABLE,
            "RocksDBException: Corruption: bad block contents",
        ),
        (
            chain(CANNOT_LOAD, "java.io.IOException: No space left on device"),
            FailureCause.STORAGE,
            "IOException: No space left on device",
        ),
        (
            chain(CANNOT_LOAD, "java.lang.OutOfMemoryError: Java heap space"),
            FailureCause.OUT_OF_MEMORY,
            "OutOfMemoryError: Java heap space",
        ),
        (
            chain(
                "x.y.StateStoreException: [CANNOT_LOAD_STATE_STORE.HDFS_STORE_PROVIDER_OUT_OF_MEMORY] Could not load"
            ),
            FailureCause.OUT_OF_MEMORY,
            "StateStoreException: [CANNOT_LOAD_STATE_STORE.HDFS_STORE_PROVIDER_OUT_OF_MEMORY] Could not load",
        ),
        (
            chain("x.y.StateStoreException: [CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR] RocksDB is held"),
            FailureCause.UNKNOWN,
            "StateStoreException: [CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR] RocksDB is held",
        ),
        (
            chain(TASK + "org.apache.spark.memory.SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] Unable"),
            FailureCause.OUT_OF_MEMORY,
            "SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] Unable",
        ),
        (
            chain(TASK + "ExecutorLostFailure (executor 3 exited caused by one of the running tasks)"),
            FailureCause.UNKNOWN,
            "ExecutorLostFailure (executor 3 exited caused by one of the running tasks)",
        ),
        (
            QueryEnd(EndedBy.SINK, chain(TASK + KAFKA_LOST, OUT_OF_RANGE)),
            FailureCause.SOURCE,
            "KafkaIllegalStateException: Some data may have been lost because they are not available in Kafka any "
            "more; Could not read records in offset [10, 20) for topic partition orders-0",
        ),
        (
            "org.apache.spark.sql.kafka010.KafkaIllegalStateException: The Kafka message data sent to the producer "
            "contains a null topic.",
            FailureCause.UNKNOWN,
            "KafkaIllegalStateException: The Kafka message data sent to the producer contains a null topic.",
        ),
        (
            DELTA_LOST,
            FailureCause.SOURCE,
            "DeltaIllegalStateException: [DELTA_MISSING_FILES_UNEXPECTED_VERSION] Delta stream cannot resume from 3",
        ),
        (
            "org.apache.spark.sql.delta.DeltaIllegalStateException: [DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] x",
            FailureCause.INCOMPATIBLE,
            "DeltaIllegalStateException: [DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] x",
        ),
        (
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this topic",
            FailureCause.SOURCE,
            "UnknownTopicOrPartitionException: This server does not host this topic",
        ),
        (
            "org.apache.kafka.common.errors.TimeoutException: Topic out not present in metadata after 60000 ms.",
            FailureCause.SINK,
            "TimeoutException: Topic out not present in metadata after 60000 ms.",
        ),
        (
            QueryEnd(EndedBy.SINK, "holdfast.errors.StorageFull: could not stage: [Errno 28] No space left on device"),
            FailureCause.STORAGE,
            "StorageFull: could not stage: [Errno 28] No space left on device",
        ),
        (
            QueryEnd(EndedBy.SINK, "pyarrow.lib.ArrowInvalid: Parquet magic bytes not found"),
            FailureCause.SINK,
            "ArrowInvalid: Parquet magic bytes not found",
        ),
        (
            QueryEnd(EndedBy.SPARK_GONE, "Answer from Java side is empty\nand more"),
            FailureCause.SPARK_GONE,
            "Spark is gone: Answer from Java side is empty",
        ),
        (QueryEnd(EndedBy.OUTSIDE), FailureCause.STOPPED, "the query was stopped, but not the job"),
        ("java.lang.IllegalStateException", FailureCause.UNKNOWN, "IllegalStateException"),
        ("something nobody has seen", FailureCause.UNKNOWN, "something nobody has seen"),
    ],
)
def test_the_innermost_exception_that_is_known_decides(end: str | QueryEnd, cause: FailureCause, line: str) -> None:
    ended = QueryEnd(EndedBy.ERROR, end) if isinstance(end, str) else end
    assert failure_of_end(ended) == QueryFailure(cause, line)


def test_a_message_that_quotes_a_chain_is_one_exception() -> None:
    """Frames come after a message; before them every line is part of it."""
    said = "x.Y: all went wrong\nCaused by: org.rocksdb.RocksDBException: Corruption: block"
    assert [link.kind for link in chain_of(chain(said, "java.lang.Error: inner"))] == ["x.Y", "java.lang.Error"]


def test_what_python_raised_last_counts_and_its_place_is_the_users() -> None:
    text = chain(
        "py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: "
        "Traceback (most recent call last):\n"
        '  File "/job/orders.py", line 8, in write\n    int("x")\nValueError: invalid literal\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/venv/lib/python3.11/site-packages/pyspark/sql/utils.py", line 163, in call\n    self.func(batch)\n'
        '  File "/job/orders.py", line 10, in write\n    raise Rejected("no") from None\n'
        "orders.Rejected: no\n"
    )
    assert failure_of_text(text) == QueryFailure(FailureCause.USER_CODE, "Rejected: no (orders.py, line 10, in write)")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (StorageUnreachable("could not read manifests/x: no answer"), FailureCause.STORAGE),
        (Fenced("run 7 owns the job"), FailureCause.FENCED),
        (HoldfastError("could not stage"), FailureCause.UNKNOWN),
        (OSError(28, "No space left on device"), FailureCause.STORAGE),
        (ValueError("x"), FailureCause.UNKNOWN),
    ],
)
def test_why_a_restart_failed(error: Exception, cause: FailureCause) -> None:
    assert failure_of_start(error).cause is cause


@pytest.mark.parametrize("cause", FailureCause)
def test_every_cause_says_what_to_change_and_is_in_the_manual(cause: FailureCause) -> None:
    assert cause.hint
    manual = Path(__file__).parents[2] / "docs" / "operating.md"
    assert f"| `{cause}` |" in manual.read_text()


@pytest.mark.parametrize("text", [KAFKA_LOST, DELTA_LOST])
def test_input_that_was_deleted_before_it_was_read_has_a_way_out_of_its_own(text: str) -> None:
    failure = failure_of_text(text)
    assert failure.input_is_deleted
    assert "failOnDataLoss=false" in failure.hint
    assert not QueryFailure(FailureCause.SOURCE, "UnknownHostException: broker").input_is_deleted
    assert not QueryFailure(FailureCause.USER_CODE, "ValueError: data may have been lost").input_is_deleted
