"""The log pipeline on Spark: files are split into pieces, workers scan them, the driver aggregates the results.

The result of the workers is bounded by the number of jobs, hosts, kinds of trouble and minutes, not by the size of the
logs. It depends neither on how the files were split nor on which worker read which piece.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark import Broadcast
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.doctor.matching.clues import Rule
from holdfast.doctor.matching.examination import Examination, added_up
from holdfast.doctor.matching.scanning import Reading, scan
from holdfast.doctor.reading.blocks import Piece
from holdfast.doctor.reading.inputs import Inputs, piece_size, pieces_of, shared_out
from holdfast.doctor.spark import remote
from holdfast.errors import HoldfastError, InvalidSettings


def examine(spark: SparkSession, inputs: Inputs, rules: Sequence[Rule], size: int | None = None) -> Examination:
    """`size`: of the pieces that files are split into."""
    gc.freeze()  # what the workers send is many small objects, and each collection would scan every module
    cores = spark.sparkContext.defaultParallelism
    size = size or piece_size(inputs.files, cores)
    pieces = list(pieces_of(inputs.files, size))
    shared = shared_out(pieces, size, cores)
    return added_up([*_scanned(spark, pieces, rules, shared), *remote.scanned(spark, inputs.urls, rules)])


def _scanned(
    spark: SparkSession, pieces: Sequence[Piece], rules: Sequence[Rule], shared: Sequence[Sequence[int]]
) -> list[Reading]:
    if not pieces:
        return []
    tasks = spark.sparkContext.broadcast([[pieces[place] for place in task] for task in shared])
    number = len(tasks.value)
    frame = spark.range(0, number, 1, number).mapInArrow(_scanning(tasks, tuple(rules)), "reading BINARY")
    try:
        return [pickle.loads(row.reading) for row in frame.collect()]
    except PySparkException as error:
        raise _reading_failed(error) from error
    finally:
        tasks.destroy()


def _reading_failed(error: PySparkException) -> HoldfastError:
    message = str(error)
    if "ModuleNotFoundError" in message:
        missing = message.split("ModuleNotFoundError: ", 1)[-1].split("\n", 1)[0]
        hint = "install 'holdfast-spark[doctor]' where Spark's workers run, or use --master 'local[*]'"
        return InvalidSettings(f"Reading the logs failed on a worker: {missing}", hint=hint)
    return HoldfastError(f"Reading the logs on Spark failed: {message.strip().splitlines()[0]}")


def _scanning(
    tasks: Broadcast[list[list[Piece]]], rules: tuple[Rule, ...]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gc.freeze()  # PySpark collects garbage after each task, which would scan every module for 50 ms
        for batch in batches:
            for number in batch.column(0).to_pylist():
                readings = [pickle.dumps(scan(piece, rules)) for piece in tasks.value[number]]
                yield pa.RecordBatch.from_arrays([pa.array(readings, pa.binary())], ["reading"])

    return run
