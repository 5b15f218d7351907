"""Tests here may use Spark: the session is that of tests/spark."""

from tests.spark.conftest import spark as spark
