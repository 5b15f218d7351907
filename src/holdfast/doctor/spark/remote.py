"""Files that only Spark can reach, such as `s3a://` or `hdfs://`: Spark hands their lines to the workers.

A file is one task there. The lines come in batches, so memory stays bounded.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from holdfast.doctor.matching.clues import Rule
from holdfast.doctor.matching.scanning import Reading, scan_stream
from holdfast.doctor.reading.blocks import Piece
from holdfast.doctor.reading.windows import Read
from holdfast.errors import NotFound, StorageError
from holdfast.showing import masked

_ONE_FILE_EACH = {
    "spark.sql.files.maxPartitionBytes": str(2**62),
    "spark.sql.files.openCostInBytes": str(2**61),
}
_ENDS_IN_ZSTD = ".zst"
_SCHEMA = "reading BINARY"
_SPARKS_OWN = "Spark must be able to read the URL: its packages and credentials are those of every Spark job"

OverBatches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def scanned(spark: SparkSession, urls: Sequence[str], rules: Sequence[Rule]) -> list[Reading]:
    if not urls:
        return []
    try:
        with _settings(spark, _ONE_FILE_EACH):
            return _scanned(spark, urls, tuple(rules))
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            raise NotFound(f"No logs to read: {' '.join(urls)} does not exist", hint="check the spelling") from error
        raise StorageError(f"Reading {' '.join(urls)} failed: {_first_line(error)}") from error
    except PySparkException as error:
        raise StorageError(f"Reading {' '.join(urls)} failed: {_first_line(error)}", hint=_SPARKS_OWN) from error
    except Py4JJavaError as error:  # what Hadoop throws before Spark can give it a name
        why = str(error.java_exception).split("\n", 1)[0]
        raise StorageError(f"Reading {' '.join(urls)} failed: {why}", hint=_SPARKS_OWN) from error


def _scanned(spark: SparkSession, urls: Sequence[str], rules: tuple[Rule, ...]) -> list[Reading]:
    lines = spark.read.option("lineSep", "\n").option("recursiveFileLookup", "true").text(list(urls))
    files = [unquote(file) for file in lines.inputFiles()]
    zstd = [file for file in files if file.endswith(_ENDS_IN_ZSTD)]
    if not zstd:
        return _scanned_lines(lines, rules)
    others = [file for file in files if not file.endswith(_ENDS_IN_ZSTD)]
    readings = _scanned_whole(spark.read.format("binaryFile").load(zstd), rules)
    return readings + (_scanned_lines(spark.read.option("lineSep", "\n").text(others), rules) if others else [])


def _scanned_lines(lines: DataFrame, rules: tuple[Rule, ...]) -> list[Reading]:
    frame = lines.select(f.input_file_name().alias("file"), f.concat("value", f.lit("\n")).alias("line"))
    rows = frame.mapInArrow(_reading_lines(rules), _SCHEMA).collect()
    return [pickle.loads(row.reading) for row in rows]


def _scanned_whole(files: DataFrame, rules: tuple[Rule, ...]) -> list[Reading]:
    """Hadoop reads zstd only with a native library that PySpark does not include."""
    rows = files.select("path", "content").mapInArrow(_reading_whole(rules), _SCHEMA).collect()
    return [pickle.loads(row.reading) for row in rows]


def _reading_lines(rules: tuple[Rule, ...]) -> OverBatches:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        slices = (part for batch in batches for part in _by_file(batch))
        for file, parts in groupby(slices, key=lambda part: part[0]):
            yield _sent(scan_stream(Piece(masked(unquote(file))), _read_from(text for _, text in parts), rules))

    return run


def _reading_whole(rules: tuple[Rule, ...]) -> OverBatches:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                stream = pa.CompressedInputStream(pa.BufferReader(row["content"]), "zstd")
                yield _sent(scan_stream(Piece(masked(unquote(row["path"]))), stream.read, rules))

    return run


def _sent(reading: Reading) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(reading)], pa.binary())], ["reading"])


def _by_file(batch: pa.RecordBatch) -> Iterator[tuple[str, bytes]]:
    """Lines of one file follow one another; most batches have those of one only."""
    first, last = batch.column(0)[0].as_py(), batch.column(0)[-1].as_py()
    if first == last:
        yield first, _bytes(batch.column(1))
        return
    names = batch.column(0).to_pylist()
    begin = 0
    for end in range(1, len(names) + 1):
        if end == len(names) or names[end] != names[begin]:
            yield names[begin], _bytes(batch.column(1).slice(begin, end - begin))
            begin = end


def _bytes(lines: pa.Array) -> bytes:
    """All lines of the array, concatenated, UTF-8 or not."""
    lines = lines.cast(pa.large_binary())
    offsets = memoryview(lines.buffers()[1]).cast("q")
    start, end = offsets[lines.offset], offsets[lines.offset + len(lines)]
    return bytes(memoryview(lines.buffers()[2])[start:end])


def _read_from(chunks: Iterator[bytes]) -> Read:
    rest = b""

    def read(size: int) -> bytes:
        nonlocal rest
        chunk = rest or next(chunks, b"")
        rest = chunk[size:]
        return chunk[:size]

    return read


@contextmanager
def _settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
