"""The Files sink against real Spark and real directories."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.sinks import Files, Sink
from holdfast.sinks.protocol import Step, no_step
from holdfast.testing.sinks import SCHEMA, Row, SinkConformance


class TestFilesConforms(SinkConformance):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "some files"

    def make_sink(self, step: Step = no_step) -> Sink:
        return Files(self.path, step=step)

    def read_rows(self, spark: SparkSession) -> list[Row]:
        return [(row.id, row.text) for row in spark.read.schema(SCHEMA).parquet(str(self.path)).collect()]
