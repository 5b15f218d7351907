"""Lets Spark repartition the state in a checkpoint directory, and proves that nothing was lost or misplaced.

All state is read before and after, as the bytes of every key and value, and must be the same. Each key must also be in
the partition that Spark's rule for repartitioning gives it, before and after. Before, the query itself put it there: so
the query has the same rule, and will look for the key where it is afterwards. An aggregation without keys has another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from holdfast.checkpoint.query_facts import FORMAT, SHUFFLE_PARTITIONS
from holdfast.checkpoint.spark_files import read_offsets, source_offsets, state_format_of
from holdfast.errors import Corrupt, InvalidSettings
from holdfast.identifiers import BatchId
from holdfast.workdir.interface import WorkDirectory

_READ_ALL = "_readAllColumnFamilies"
"""Spark's own option for repartitioning."""
_ANY_ORDER = 38
"""Digits of a sum of hashes, which does not depend on the order of the rows."""


class OperatorStore(NamedTuple):
    operator: int
    name: str
    processor: bool
    """It belongs to a transformWithState, whose lists have an order."""


class FamilyContent(NamedTuple):
    """Of one column family of a store."""

    rows: int
    hashes: tuple[int, int]


Contents = dict[tuple[OperatorStore, str], FamilyContent]


def require_able(spark: SparkSession) -> None:
    if not hasattr(spark, "_streamingCheckpointManager"):
        raise InvalidSettings(
            f"could not rescale with Spark {spark.version}: it cannot repartition state",
            hint="use PySpark 4.2 or newer for this, without Spark Connect; the job must then be run with it, too",
        )


def repartition(spark: SparkSession, directory: WorkDirectory, barrier: BatchId, partitions: int) -> int:
    """The next batch of the directory has the state of `barrier` in that many partitions. How many rows of state."""
    offsets = directory.read(f"offsets/{barrier}")
    before = int(read_offsets(offsets).conf[SHUFFLE_PARTITIONS])
    if before == partitions:
        raise InvalidSettings(f"could not rescale: the state has {partitions} partitions already")
    batch = BatchId(barrier + 1)
    with _state_format(spark, state_format_of(directory.read(f"commits/{barrier}"))):
        try:
            stores = _stores(spark, directory)
            held = _contents(spark, directory, stores, barrier, before)
            spark._streamingCheckpointManager.repartition(directory.spark_root, partitions)
            _drop_left(directory, partitions)
            found = _contents(spark, directory, stores, batch, partitions)
        except (PySparkException, Py4JError) as error:
            _refuse(error)
    if found != held:
        raise _changed(held, found)
    if source_offsets(directory.read(f"offsets/{batch}")) != source_offsets(offsets):
        raise Corrupt(f"could not rescale: Spark has changed the position of the sources in batch {batch}")
    return sum(content.rows for content in held.values())


@contextmanager
def _state_format(spark: SparkSession, version: str) -> Iterator[None]:
    """Spark writes state in the format of the session, and refuses another one than the checkpoint's."""
    given = spark.conf.get(FORMAT, None)
    spark.conf.set(FORMAT, version)
    try:
        yield
    finally:
        if given is None:
            spark.conf.unset(FORMAT)
        else:
            spark.conf.set(FORMAT, given)


def _stores(spark: SparkSession, directory: WorkDirectory) -> list[OperatorStore]:
    rows = spark.read.format("state-metadata").load(directory.spark_root).collect()
    return [
        OperatorStore(
            row["operatorId"], row["stateStoreName"], row["operatorName"].lower().startswith("transformwithstate")
        )
        for row in rows
    ]


def _contents(
    spark: SparkSession, directory: WorkDirectory, stores: list[OperatorStore], batch: BatchId, partitions: int
) -> Contents:
    contents: Contents = {}
    for store in stores:
        rows = _rows(spark, directory, store, batch)
        _require_keys(rows, store)
        for row in _digests(rows, store, partitions).collect():
            if row["misplaced"]:
                raise _misplaced(store, row["misplaced"])
            contents[store, row["column_family_name"]] = FamilyContent(
                row["rows"], (int(row["first"]), int(row["second"]))
            )
    return contents


def _rows(spark: SparkSession, directory: WorkDirectory, store: OperatorStore, batch: BatchId) -> DataFrame:
    options = {"operatorId": store.operator, "storeName": store.name, "batchId": batch, _READ_ALL: "true"}
    reader = spark.read.format("statestore").option("path", directory.spark_root)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


def _digests(rows: DataFrame, store: OperatorStore, partitions: int) -> DataFrame:
    """Per column family: how many rows, their hashes, and how many are not where the query looks for them."""
    place = F.pmod(F.hash("partition_key"), F.lit(partitions))
    placed = rows.select(
        "column_family_name",
        "key_bytes",
        "value_bytes",
        (place != F.spark_partition_id()).cast("int").alias("misplaced"),
        F.monotonically_increasing_id().alias("at"),
    )
    nth = F.lit(1)
    if store.processor:
        nth = F.row_number().over(Window.partitionBy("column_family_name", "key_bytes").orderBy("at"))
    hashed = placed.select(
        "column_family_name",
        "misplaced",
        F.xxhash64("key_bytes", "value_bytes", nth).alias("one"),
        F.xxhash64(nth, "value_bytes", "key_bytes").alias("other"),
    )
    return hashed.groupBy("column_family_name").agg(
        F.count("*").alias("rows"),
        F.sum("misplaced").alias("misplaced"),
        F.sum(F.col("one").cast(f"decimal({_ANY_ORDER},0)")).alias("first"),
        F.sum(F.col("other").cast(f"decimal({_ANY_ORDER},0)")).alias("second"),
    )


def _require_keys(rows: DataFrame, store: OperatorStore) -> None:
    if not rows.select("partition_key.*").columns:
        raise InvalidSettings(
            f"could not rescale: operator {store.operator} groups by nothing, so its state is one row in partition 0, "
            "and Spark would move it to where the query does not look",
            hint="the number of partitions of this query stays as it is",
        )


def _drop_left(directory: WorkDirectory, partitions: int) -> None:
    """Partitions that the new batch does not have."""
    for operator in filter(str.isdigit, directory.names("state")):
        for partition in filter(str.isdigit, directory.names(f"state/{operator}")):
            if int(partition) >= partitions:
                directory.at(f"state/{operator}/{partition}").remove_tree()


def _refuse(error: Exception) -> NoReturn:
    raise InvalidSettings(
        f"could not rescale: Spark refuses: {str(error).strip().partition(chr(10))[0]}",
        hint="the checkpoint and the job are as they were",
    ) from error


def _misplaced(store: OperatorStore, rows: int) -> InvalidSettings:
    return InvalidSettings(
        f"could not rescale: {rows} rows of state of operator {store.operator}, store {store.name}, are not in the "
        "partition that Spark's repartitioning expects: the query would not find them where it puts them",
        hint="the number of partitions of this query stays as it is",
    )


def _changed(held: Contents, found: Contents) -> Corrupt:
    store, family = next(at for at in {**held, **found} if held.get(at) != found.get(at))
    rows = [str(side[store, family].rows if (store, family) in side else 0) for side in (held, found)]
    return Corrupt(
        f"could not rescale: Spark has changed the state of operator {store.operator}, store {store.name}, "
        f"{family}: {rows[0]} rows before, {rows[1]} after, or other ones",
        hint="the checkpoint and the job are as they were; report this to the project",
    )
