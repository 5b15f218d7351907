"""A real run serves its metrics, calls its dead man's switch, and tells a webhook what happens to its query."""

import urllib.request
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast.sinks import Files
from tests.patience import PATIENCE
from tests.stores.processes import free_port
from tests.unit.http_receiver import HttpReceiver


def test_a_run_is_seen_from_outside(spark: SparkSession, tmp_path: Path) -> None:
    hook, switch, port = HttpReceiver(), HttpReceiver(), free_port()

    def numbers(session: SparkSession) -> DataFrame:
        return session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().select("value")

    (tmp_path / "home").mkdir()
    started = holdfast.start(
        numbers,
        job="numbers",
        home=f"file://{tmp_path / 'home'}",
        sink=Files(tmp_path / "table"),
        spark=spark,
        work=tmp_path / "work",
        restart_delay="100ms",
        alarms=[hook.url],
        alive_url=switch.url,
        metrics_port=port,
    )
    try:
        with started as job:
            switch.wait_for(1)
            checkpoint = job.checkpoint()
            scraped = _scraped(port)
            assert f'holdfast_last_completed_checkpoint_id{{job="numbers"}} {float(checkpoint)}' in scraped
            assert 'holdfast_job_running{job="numbers"} 1.0' in scraped
            table = job.history()
            assert list(table["id"]) == list(range(checkpoint, 0, -1))
            assert job.history("arrow")["status"].to_pylist() == ["completed"] * checkpoint
            assert f"the newest is {checkpoint}" in job._repr_html_()
            assert job.query is not None
            job.query.stop()
            documents: list[Any] = []
            while ("query_died", "over") not in _changes(documents):
                documents = hook.wait_for(len(documents) + 1)
            assert _changes(documents) == [("query_died", "began"), ("query_died", "over")]
            assert (
                documents[0]["alarms"][0]["command"]
                == f"holdfast status --home file://{tmp_path / 'home'} --job numbers"
            )
    finally:
        hook.close()
        switch.close()
    with pytest.raises(OSError, match="refused"):
        _scraped(port)


def _changes(documents: list[Any]) -> list[tuple[str, str]]:
    return [(alarm["code"], alarm["change"]) for document in documents for alarm in document["alarms"]]


def _scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def test_a_job_stops_where_its_block_ends_and_the_blocks_own_error_comes_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()

    def begun() -> holdfast.RunningJob:
        return holdfast.start(
            lambda session: session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load(),
            job="numbers",
            home=f"file://{tmp_path / 'home'}",
            sink=Files(tmp_path / "table"),
            spark=spark,
            work=tmp_path / "work",
        )

    with pytest.raises(ValueError, match="of the block"), begun() as job:
        raise ValueError("of the block")
    assert job.await_termination("0s"), "it has ended"
    status = holdfast.open(f"file://{tmp_path / 'home'}").job("numbers").status()
    assert (status.running, status.ended_reason) == (False, "stopped")
