"""The log pipeline on Spark: files are split into pieces, workers scan them, the driver aggregates the results.

The result of the workers is bounded by the number of jobs, hosts, kinds of trouble and minutes, not by the size of the
logs. It depends neither on how the files were split nor on which worker read which piece.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from msgspec import structs
from pyspark import Broadcast
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.doctor.matching.clues import Rule
from holdfast.doctor.matching.scanning import Reading, placed, scan, unparsed
from holdfast.doctor.matching.sightings import Sighting, merged
from holdfast.doctor.reading.blocks import Piece
from holdfast.doctor.reading.inputs import Inputs, piece_size, pieces_of, shared_out
from holdfast.doctor.spark import remote
from holdfast.errors import HoldfastError, InvalidSettings


@dataclass(frozen=True)
class Examination:
    sightings: list[Sighting]
    files: int
    bytes: int
    lines: int
    events: int
    unparsed: int
    """Lines that belong to no event."""
    binary: tuple[str, ...]
    """Files that are not text and were skipped."""
    troubles: tuple[str, ...]
    """Why files could not be read, or not to their end."""
    first_lines: dict[Piece, int] = field(default_factory=dict)
    """The number, from 1, of the first line of each piece."""


def examine(spark: SparkSession, inputs: Inputs, rules: Sequence[Rule], size: int | None = None) -> Examination:
    """`size`: of the pieces that files are split into."""
    cores = spark.sparkContext.defaultParallelism
    size = size or piece_size(inputs.files, cores)
    pieces = list(pieces_of(inputs.files, size))
    shared = shared_out(pieces, size, cores)
    return added_up([*_scanned(spark, pieces, rules, shared), *remote.scanned(spark, inputs.urls, rules)])


def added_up(readings: Iterable[Reading]) -> Examination:
    files: dict[str, list[Reading]] = {}
    for reading in sorted(readings, key=lambda reading: (reading.piece.path, reading.piece.start)):
        files.setdefault(reading.piece.path, []).append(reading)
    everything = [reading for file in files.values() for reading in file]
    return Examination(
        sightings=merged(sighting for file in files.values() for sighting in placed(file)),
        files=len(files),
        bytes=sum(reading.bytes for reading in everything),
        lines=sum(reading.lines for reading in everything),
        events=sum(reading.events for reading in everything),
        unparsed=sum(unparsed(file) for file in files.values()),
        binary=tuple(path for path, file in files.items() if any(reading.binary for reading in file)),
        troubles=tuple(reading.trouble for reading in everything if reading.trouble),
        first_lines=_first_lines(files.values()),
    )


def renamed(examination: Examination, names: Mapping[str, str]) -> Examination:
    """With other names for some of the files."""

    def name(source: str) -> str:
        return names.get(source, source)

    def other(sighting: Sighting) -> Sighting:
        key = structs.replace(sighting.key, source=name(sighting.key.source))
        samples = [structs.replace(sample, source=name(sample.source)) for sample in (*sighting.samples, sighting.last)]
        return structs.replace(sighting, key=key, samples=tuple(samples[:-1]), last=samples[-1])

    return (
        replace(examination, sightings=[other(sighting) for sighting in examination.sightings])
        if names
        else examination
    )


def _first_lines(files: Iterable[Sequence[Reading]]) -> dict[Piece, int]:
    numbers = {}
    for file in files:
        number = 1
        for reading in file:
            numbers[reading.piece] = number
            number += reading.lines
    return numbers


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
