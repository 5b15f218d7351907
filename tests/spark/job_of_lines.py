"""A job that reads lines of text files into a writer of the user's own. A life ends when its input is used up."""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import holdfast


class JobOfLines:
    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root
        self.work = root / "work dir"
        self.out = root / "out"
        for name in ("in", "home"):
            (root / name).mkdir()
        self._files = 0

    def put(self, *lines: str) -> None:
        """One file."""
        self._files += 1
        (self.root / "in" / f"{self._files}.txt").write_text("\n".join(lines))

    def lines(self, **options: Any) -> DataFrame:
        return self.spark.readStream.format("text").options(**options).load(str(self.root / "in"))

    def run(self, build: Any, **options: Any) -> holdfast.RunningJob:
        running = holdfast.start(
            build,
            job="lines",
            home=f"file://{self.root / 'home'}",
            work=self.work,
            spark=self.spark,
            interval="1h",
            **options,
        )
        running.await_termination()
        return running

    def read(self) -> list[str]:
        return sorted(row.value for row in self.spark.read.json(str(self.out)).collect())
