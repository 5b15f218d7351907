"""Real failures of real queries, and what is said of them: the cause, and one line with the exception that counts."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.identifiers import FencingEpoch, JobName
from holdfast.runtime.ports import Supervisor
from holdfast.runtime.query.causes import SUSPICIONS, FailureCause, StartFailed, failure_of_end
from holdfast.runtime.query_end import AS_ASKED, EndedBy, QueryEnd
from holdfast.settings import Settings
from holdfast.sinks import Files, Sink, SinkContext
from holdfast.spark.checkpoint_files import SETTING as FILE_MANAGER
from holdfast.spark.query import SparkQuery
from holdfast.workdir.factory import work_directory
from tests.patience import PATIENCE
from tests.short_lived_jvm import USUAL_FILES
from tests.spark.conftest import STATE_FORMATS, with_state_format

READ_ONLY = "/proc/sys/kernel/output"
"""A file system that is read-only stops root too."""


class Lab:
    """A query over one folder of input, in one work directory, that is let run to its end."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root
        self.work, self.source = root / "work", root / "in"
        self.source.mkdir()
        self.put("first")
        self.owner = True

    def put(self, name: str, text: str = '{"id": 1}\n') -> None:
        (self.source / f"{name}.json").write_text(text)

    def rows(self, **options: str) -> DataFrame:
        return self.spark.readStream.schema("id LONG").options(**options).json(str(self.source))

    def counts(self) -> DataFrame:
        timed = self.rows().withColumn("at", F.timestamp_seconds("id")).withWatermark("at", "1 second")
        return timed.groupBy("at").count()

    def end_of(self, built: Any, sink: Sink | None = None, step: Callable[[str], None] = lambda name: None) -> QueryEnd:
        ended = threading.Event()
        query = SparkQuery(self.spark, JobName("lab"), built, sink, Settings(trigger="available-now"), step)
        if sink is not None:
            query.open_sink(SinkContext(JobName("lab"), FencingEpoch(1), "lineage"))
        try:
            directory = SimpleNamespace(location=str(self.work), files=work_directory(self.work))
            query.start(directory, Supervisor(lambda: self.owner, ended.set))  # type: ignore[arg-type]
        except StartFailed as failure:
            return QueryEnd(EndedBy.ERROR, str(failure))
        assert ended.wait(PATIENCE)
        end = query.end()
        assert end is not None
        return end

    def staged(self, built: DataFrame, step: Callable[[str], None] = lambda name: None) -> QueryEnd:
        return self.end_of(built, Files(self.root / "out"), step)

    def each_batch(self, function: Callable[[DataFrame, int], None]) -> QueryEnd:
        return self.end_of(self.rows().writeStream.foreachBatch(function).trigger(availableNow=True))

    def damaged(self, damage: Callable[[Path], None]) -> QueryEnd:
        """A stateful query goes on after `damage` was done to its work directory."""
        assert self.staged(self.counts()) == AS_ASKED
        damage(self.work)
        self.put("second", '{"id": 100}\n')
        return self.staged(self.counts())


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> Lab:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return Lab(session, tmp_path)


# --- the failures ---


def a_python_function_raises(lab: Lab) -> QueryEnd:
    """Its words are those of Spark about damaged state, and must not be taken for them."""

    @F.udf("long", useArrow=False)
    def parse(id: int) -> int:
        raise ValueError(f"Corruption: bad table magic number {id}\nCaused by: org.rocksdb.RocksDBException: bad")

    return lab.staged(lab.rows().select(parse("id").alias("id")))


def a_python_function_raises_under_a_writer_of_the_users_own(lab: Lab) -> QueryEnd:
    @F.udf("long", useArrow=False)
    def parse(id: int) -> int:
        raise ValueError("CANNOT_LOAD_STATE_STORE")

    return lab.end_of(lab.rows().select(parse("id")).writeStream.format("noop").trigger(availableNow=True))


def for_each_batch_raises(lab: Lab) -> QueryEnd:
    def write(batch: DataFrame, number: int) -> None:
        raise RuntimeError("No space left on device")

    return lab.each_batch(write)


def an_expression_fails(lab: Lab) -> QueryEnd:
    return lab.staged(lab.rows().selectExpr("1 / (id - 1) AS id"))


def a_python_function_has_no_memory(lab: Lab) -> QueryEnd:
    @F.udf("long", useArrow=False)
    def parse(id: int) -> int:
        raise MemoryError

    return lab.staged(lab.rows().select(parse("id").alias("id")))


def a_python_worker_vanishes(lab: Lab) -> QueryEnd:
    @F.udf("long", useArrow=False)
    def parse(id: int) -> int:
        os._exit(9)

    return lab.staged(lab.rows().select(parse("id").alias("id")))


def the_driver_has_no_memory(lab: Lab) -> QueryEnd:
    return lab.each_batch(lambda batch, number: batch.sparkSession._jvm.java.nio.ByteBuffer.allocate(2**31 - 1))


def the_disk_is_full(lab: Lab) -> QueryEnd:
    full = "/dev/full"
    return lab.each_batch(lambda batch, number: batch.sparkSession._jvm.java.io.FileOutputStream(full).write(1))


def the_disk_is_full_for_python(lab: Lab) -> QueryEnd:
    def write(batch: DataFrame, number: int) -> None:
        with open("/dev/full", "w") as file:
            file.write("x")

    return lab.each_batch(write)


def a_file_of_the_source_is_deleted(lab: Lab) -> QueryEnd:
    def delete(step: str) -> None:
        if step == "batch.begin":
            (lab.source / "first.json").unlink()

    return lab.staged(lab.rows(), delete)


def a_file_of_the_source_is_no_parquet(lab: Lab) -> QueryEnd:
    (lab.source / "first.json").write_bytes(b"x" * 100)
    return lab.staged(lab.spark.readStream.schema("id LONG").parquet(str(lab.source)))


def a_line_of_the_source_is_no_json(lab: Lab) -> QueryEnd:
    lab.put("first", "{nonsense\n")
    return lab.staged(lab.rows(mode="FAILFAST"))


def the_folder_of_the_sink_becomes_a_file(lab: Lab) -> QueryEnd:
    def replace(step: str) -> None:
        if step == "batch.begin":
            shutil.rmtree(lab.root / "out")
            (lab.root / "out").write_text("a file")

    return lab.staged(lab.rows(), replace)


def the_folder_of_the_users_own_sink_cannot_be_written(lab: Lab) -> QueryEnd:
    lab.spark.conf.set(FILE_MANAGER, USUAL_FILES)
    writer = lab.rows().writeStream.format("parquet").option("path", READ_ONLY)
    return lab.end_of(writer.trigger(availableNow=True))


def for_each_batch_cannot_write(lab: Lab) -> QueryEnd:
    return lab.each_batch(lambda batch, number: batch.write.parquet(READ_ONLY))


def another_run_owns_the_job(lab: Lab) -> QueryEnd:
    lab.owner = False
    return lab.staged(lab.rows())


@dataclass(frozen=True)
class Told:
    cause: FailureCause
    line: str
    """How the line for people begins."""


FAILURES: dict[Callable[[Lab], str], Told] = {
    a_python_function_raises: Told(
        FailureCause.USER_CODE, "ValueError: Corruption: bad table magic number 1 (test_causes.py"
    ),
    a_python_function_raises_under_a_writer_of_the_users_own: Told(
        FailureCause.USER_CODE, "ValueError: CANNOT_LOAD_STATE_STORE (test_causes.py, line "
    ),
    for_each_batch_raises: Told(FailureCause.USER_CODE, "RuntimeError: No space left on device (test_causes.py, line "),
    an_expression_fails: Told(FailureCause.USER_CODE, "SparkArithmeticException: [DIVIDE_BY_ZERO]"),
    a_python_function_has_no_memory: Told(FailureCause.OUT_OF_MEMORY, "MemoryError (test_causes.py, line "),
    a_python_worker_vanishes: Told(FailureCause.OUT_OF_MEMORY, "SparkException: Python worker exited unexpectedly"),
    the_driver_has_no_memory: Told(FailureCause.OUT_OF_MEMORY, "OutOfMemoryError: Requested array size"),
    the_disk_is_full: Told(FailureCause.STORAGE, "IOException: No space left on device"),
    the_disk_is_full_for_python: Told(
        FailureCause.STORAGE, "OSError: [Errno 28] No space left on device (test_causes.py"
    ),
    a_file_of_the_source_is_deleted: Told(FailureCause.SOURCE, "SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST]"),
    a_file_of_the_source_is_no_parquet: Told(FailureCause.SOURCE, "SparkException: [FAILED_READ_FILE"),
    a_line_of_the_source_is_no_json: Told(FailureCause.SOURCE, "SparkException: [MALFORMED_RECORD_IN_PARSING"),
    the_folder_of_the_sink_becomes_a_file: Told(FailureCause.SINK, "NotADirectoryError: "),
    the_folder_of_the_users_own_sink_cannot_be_written: Told(FailureCause.SINK, "IOException: mkdir of file:/proc"),
    for_each_batch_cannot_write: Told(FailureCause.SINK, "IOException: Mkdirs failed to create file:/proc"),
    another_run_owns_the_job: Told(FailureCause.FENCED, "Fenced: another run owns the job now"),
}


@pytest.mark.parametrize("end", FAILURES, ids=lambda end: end.__name__)
def test_what_is_said_of_a_failure(lab: Lab, end: Callable[[Lab], str]) -> None:
    failure = failure_of_end(end(lab))
    assert failure.cause is FAILURES[end].cause
    assert failure.message.startswith(FAILURES[end].line), failure.message
    assert "\n" not in failure.message


# --- state and logs that cannot be read ---


def overwrite(work: Path, pattern: str, by: bytes = b"U") -> None:
    for file in [path for path in work.glob(pattern) if path.is_file() and not path.name.startswith(".")]:
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
        file.write_bytes(by * file.stat().st_size)


def delete(work: Path, pattern: str) -> None:
    for file in [path for path in work.glob(pattern) if path.is_file()]:
        file.unlink()


DAMAGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    **{name: (name, lambda work: overwrite(work, "state/0/0/*")) for name in STATE_FORMATS},
    "files missing": ("hdfs", lambda work: delete(work, "state/0/0/*.delta")),
    "zip missing": ("rocksdb", lambda work: delete(work, "state/0/0/*.zip")),
    "sst missing": ("rocksdb", lambda work: delete(work, "state/0/0/SSTs/*")),
    "hadoop's checksum": ("hdfs", lambda work: (work / "state/0/0/1.delta").write_bytes(b"other")),
    "offsets": ("hdfs", lambda work: overwrite(work, "offsets/*")),
    "commits": ("hdfs", lambda work: overwrite(work, "commits/*")),
    "offsets empty": ("hdfs", lambda work: overwrite(work, "offsets/*", by=b"")),
    "commits cut off": ("hdfs", lambda work: (work / "commits" / "0").write_text("v1\n{")),
    "offsets missing": ("hdfs", lambda work: delete(work, "offsets/*")),
    "source log": ("hdfs", lambda work: delete(work, "sources/0/*")),
    "schema": ("hdfs", lambda work: overwrite(work, "state/0/0/_metadata/*")),
    "metadata": ("hdfs", lambda work: overwrite(work, "metadata")),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_cannot_be_read_is_known_as_such(lab: Lab, name: str) -> None:
    state_format, damage = DAMAGES[name]
    with_state_format(lab.spark, state_format)
    lab.spark.conf.set(FILE_MANAGER, USUAL_FILES)
    failure = failure_of_end(lab.damaged(damage))
    assert failure.cause in SUSPICIONS, failure
