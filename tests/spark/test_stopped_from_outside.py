"""What others do to a query, and what its own function does, is a failure like any other. About 5 s."""

import threading
from pathlib import Path

import pyarrow.dataset
import pytest
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast.alarm import Alarm
from holdfast.errors import JobFailed
from holdfast.sinks import Files
from tests.patience import PATIENCE


def test_a_query_that_somebody_stops_is_started_again(spark: SparkSession, tmp_path: Path) -> None:
    died, back = threading.Event(), threading.Event()
    causes: list[str] = []

    def hear(alarm: Alarm) -> None:
        if alarm.code == "query_died" and not alarm.cleared:
            causes.append(alarm.message)
            died.set()
        elif alarm.code == "query_died":
            back.set()

    def numbers(session: SparkSession) -> DataFrame:
        return session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().select("value")

    home = tmp_path / "home"
    home.mkdir()
    job = holdfast.start(
        numbers,
        job="numbers",
        home=f"file://{home}",
        sink=Files(tmp_path / "table"),
        spark=spark,
        work=tmp_path / "work",
        restart_delay="100ms",
        alarms=[hear],
    )
    assert job.query is not None

    job.query.stop()

    assert died.wait(PATIENCE)
    assert "stopped from outside" in causes[0]
    assert back.wait(PATIENCE), "a batch completes again"
    job.stop()
    values = sorted(pyarrow.dataset.dataset(tmp_path / "table").to_table()["value"].to_pylist())
    assert values == list(range(len(values)))
    assert values


def test_a_build_function_that_raises_is_a_failure_and_no_wrong_setting(spark: SparkSession, tmp_path: Path) -> None:
    """What it asked may answer at the next start: exit code 2 would keep supervision from trying."""
    (tmp_path / "home").mkdir()

    def build(spark: SparkSession) -> DataFrame:
        raise ConnectionError("the metastore did not answer")

    with pytest.raises(JobFailed, match=r"could not build the pipeline: .*the metastore did not answer") as failed:
        holdfast.start(
            build,
            job="orders",
            home=f"file://{tmp_path / 'home'}",
            sink=Files(tmp_path / "out"),
            spark=spark,
            work=tmp_path / "work",
        )
    assert failed.value.exit_code == 1
    assert not (tmp_path / "home" / "orders" / "journal").exists(), "not even claimed"
