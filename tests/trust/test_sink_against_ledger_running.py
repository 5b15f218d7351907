"""R7 with a whole job: Spark, a home, a Delta table, and what others do to that table between two runs.

Five short runs, some ten seconds.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast.errors import Conflict
from holdfast.sinks import Delta


class Job:
    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark, self._root = spark, root
        self.table = root / "table"
        (root / "in").mkdir()
        (root / "home").mkdir()

    def run(self, *numbers: int, **settings: object) -> None:
        """One file per number, one batch per file, to the end."""
        for number in numbers:
            (self._root / "part").write_text(f'{{"id": {number}}}\n')
            (self._root / "part").rename(self._root / "in" / f"{number}.json")
        holdfast.run(
            self._query,
            job="orders",
            home=f"file://{self._root / 'home'}",
            sink=Delta(self.table),
            spark=self._spark,
            work=self._root / "work",
            trigger="available-now",
            **settings,  # type: ignore[arg-type]
        )

    def _query(self, spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).json(str(self._root / "in"))

    def rows(self) -> list[int]:
        return sorted(DeltaTable(str(self.table)).to_pyarrow_table().column("id").to_pylist())

    def entries(self) -> int:
        """Everything in the journal, to see that a refusal leaves no trace."""
        return len(list((self._root / "home" / "orders" / "journal").iterdir()))


@pytest.mark.timeout(300)
def test_others_may_change_rows_and_a_restored_table_is_a_conflict(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    job.run(0, 1)
    version = DeltaTable(str(job.table)).version()
    DeltaTable(str(job.table)).delete("id = 1")
    DeltaTable(str(job.table)).optimize.compact()
    write_deltalake(str(job.table), pa.table({"id": [77]}), mode="append")
    job.run(2)
    assert job.rows() == [0, 2, 77]
    DeltaTable(str(job.table)).restore(version)
    before = job.entries()
    with pytest.raises(Conflict, match="RESTORE"):
        job.run(3)
    assert (job.rows(), job.entries()) == ([0, 1], before)
    job.run(accept_sink=True)
    assert job.rows() == [0, 1, 3]
    job.run(4)
    assert job.rows() == [0, 1, 3, 4]
