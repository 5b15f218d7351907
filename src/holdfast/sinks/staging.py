"""A micro-batch as Parquet files in a directory of its own, written by the executors."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.sinks.durable import flush
from holdfast.sinks.place import require
from holdfast.sinks.protocol import StagedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FLUSHED_AT_ONCE = 16
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


def write_parquet(batch: DataFrame, directory: Path, partition_by: tuple[str, ...] = ()) -> None:
    """Write all rows of `batch` below `directory`, which must not exist yet."""
    with _timestamps_in_microseconds(batch.sparkSession):
        # A plain path would go to Hadoop's default file system.
        batch.write.mode("errorifexists").partitionBy(*partition_by).parquet(f"file://{directory}")


def staged_files(root: Path, directory: Path, remember: Callable[[Any], str] = lambda _: "") -> tuple[StagedFile, ...]:
    """What was written below `directory`, flushed to the disk; paths relative to `root`. Deletes files without rows.

    `remember` makes the `stats` of a file from its Parquet footer.
    """
    parquet = require("pyarrow.parquet", "files")
    staged = []
    for path in sorted(directory.rglob("part-*.parquet")):
        footer = parquet.read_metadata(path)
        if footer.num_rows == 0:
            path.unlink()
            continue
        relative = path.relative_to(root).as_posix()
        staged.append(StagedFile(relative, path.stat().st_size, footer.num_rows, remember(footer)))
    if staged:
        _flush_all([*(root / file.path for file in staged), *_folders(root, directory)])
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return tuple(staged)


def lost(attempt: str, path: Path) -> HoldfastError:
    return HoldfastError(
        f"could not {attempt}: {path} is neither staged nor published any more",
        hint="someone deleted it: put it back, or go back to a checkpoint before that batch: --from-checkpoint",
    )


def _folders(root: Path, directory: Path) -> Iterator[Path]:
    """Every folder that a name below `directory` depends on, up to `root`."""
    yield from directory.rglob("*/")
    while directory != root:
        yield directory
        directory = directory.parent
    yield root


def _flush_all(paths: list[Path]) -> None:
    """At once rather than in turn: the file system writes them in one go, and the batch waits for that."""
    with ThreadPoolExecutor(_FLUSHED_AT_ONCE) as pool:
        for _ in pool.map(flush, paths):
            pass


@contextmanager
def _timestamps_in_microseconds(spark: SparkSession) -> Iterator[None]:
    """Spark's default is INT96, which carries no statistics and which other readers no longer take for a timestamp.

    Inside foreachBatch the session is the query's own copy, so nobody else sees the change.
    """
    before = spark.conf.get(_TIMESTAMPS)
    spark.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        spark.conf.set(_TIMESTAMPS, str(before))
