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
_UNCOMMITTED = "_temporary"
"""Where Spark's tasks write until they are committed. A late one may do so after the job is over."""
_ROWS = "rows"
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


def write_parquet(batch: DataFrame, directory: Path, partition_by: tuple[str, ...] = ()) -> int:
    """Write all rows of `batch` below `directory`, which must not exist yet. The number of rows that Spark wrote.

    Spark counts on the way, in the tasks that write: a task that is repeated, or runs twice, counts once. What that
    costs was measured on a busy machine only: some 30 to 80 ms more per small batch of 150 to 300 ms, up to a quarter
    more for a million narrow rows, with a spread as large as that. To be measured again on an idle one.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as spark_functions

    counted = Observation()
    rows = batch.observe(counted, spark_functions.count(spark_functions.lit(1)).alias(_ROWS))
    with _timestamps_in_microseconds(batch.sparkSession):
        # A plain path would go to Hadoop's default file system.
        rows.write.mode("errorifexists").partitionBy(*partition_by).parquet(f"file://{directory}")
    # Nothing is counted where Spark could see beforehand that there is no row.
    return int(counted.get.get(_ROWS) or 0)


def staged_files(
    root: Path, directory: Path, produced: int, remember: Callable[[Any], str] = lambda _: ""
) -> tuple[StagedFile, ...]:
    """What was written below `directory`, flushed to the disk; paths relative to `root`. Deletes files without rows.

    `remember` makes the `stats` of a file from its Parquet footer. The files are those that a listing shows. That is as
    good as what the committed tasks say they wrote, because the directory is this attempt's own, what is below
    `_temporary` is no committed task's, and the rows must add up to what Spark produced: a file too few or too many
    shows in the sum, and a batch is never staged with another number of rows than it has.
    """
    parquet = require("pyarrow.parquet", "files")
    staged = []
    for path in _committed(directory):
        footer = parquet.read_metadata(path)
        if footer.num_rows == 0:
            path.unlink()
            continue
        relative = path.relative_to(root).as_posix()
        staged.append(StagedFile(relative, path.stat().st_size, footer.num_rows, remember(footer)))
    _require_all(directory, produced, staged)
    if staged:
        _flush_all([*(root / file.path for file in staged), *_folders(root, directory)])
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return tuple(staged)


def _committed(directory: Path) -> list[Path]:
    found = directory.rglob("part-*.parquet")
    return sorted(path for path in found if _UNCOMMITTED not in path.relative_to(directory).parts)


def _require_all(directory: Path, produced: int, staged: list[StagedFile]) -> None:
    rows = sum(file.rows for file in staged)
    if rows != produced:
        raise HoldfastError(
            f"could not stage {directory}: Spark produced {produced} rows, its {len(staged)} files there hold {rows}, "
            f"so the ledger would say {rows} and not {produced}",
            hint="let nobody delete or add files there, and see that driver and executors mean the same disk",
        )


def lost(attempt: str, path: Path) -> HoldfastError:
    return HoldfastError(
        f"could not {attempt}: {path} is neither staged nor published any more",
        hint="someone deleted it: put it back, or go back to a checkpoint before that batch: --from-checkpoint",
    )


def size_of(path: Path) -> int | None:
    """None when there is no such file."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def require_size(attempt: str, path: Path, size: int, staged: StagedFile) -> None:
    if size != staged.size:
        raise HoldfastError(
            f"could not {attempt}: {path} has {size} bytes, it was staged with {staged.size}",
            hint="someone changed it: put it back, or go back to a checkpoint before that batch: --from-checkpoint",
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
