"""A real run serves its metrics, calls its dead man's switch, and tells a webhook what happens to its query."""

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast.cli.dashboard.command import serving
from holdfast.job_log import current_step
from holdfast.settings import Settings
from holdfast.sinks import Files
from holdfast.spark.api import start_stepwise
from tests.dashboard.owners import GUARD, TOKEN
from tests.patience import PATIENCE
from tests.stores.processes import free_port
from tests.unit.http_receiver import HttpReceiver
from tests.unit.otlp_receiver import OtlpReceiver, facts


def test_a_run_is_seen_from_outside(spark: SparkSession, tmp_path: Path) -> None:
    hook, switch, port = HttpReceiver(), HttpReceiver(), free_port()
    collector = OtlpReceiver()

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
        traces_url=collector.url,
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
            _recorded_batches(tmp_path / "home", job, checkpoint)
            _asked_from_the_page(tmp_path / "home")
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
        collector.close()
    roots = [span for span in collector.spans if not span.parent_span_id]
    assert checkpoint in {facts(span)["holdfast.checkpoint"] for span in roots}
    phases = [span.name for span in collector.below(roots[0])]
    assert phases == ["starting", "planning", "copying", "sealing"]
    with pytest.raises(OSError, match="refused"):
        _scraped(port)


def _recorded_batches(home: Path, job: holdfast.RunningJob, checkpoint: int) -> None:
    """The journal has every batch, with its rows: Spark may tell of the last ones after their checkpoint."""
    ends = time.monotonic() + PATIENCE
    wanted = holdfast.open(f"file://{home}").job("numbers").checkpoint(checkpoint).barrier_batch_id
    assert wanted is not None
    while True:
        listed = holdfast.open(f"file://{home}").job("numbers").checkpoints()
        spans = [span for each in listed for span in each.batches]
        told = {batch for span in spans for batch in range(span.first, span.last + 1)}
        if set(range(wanted + 1)) <= told:
            break
        assert time.monotonic() < ends, f"{told} of {wanted}"
        job.checkpoint()
    assert sum(span.rows for span in spans) == 10 * len(told)
    assert all(span.longest_ms > 0 for span in spans)


def _asked_from_the_page(home: Path) -> None:
    """The job's own run does what a script asks the dashboard for."""
    with serving(f"file://{home}", 0, "127.0.0.1", GUARD) as port:
        api = f"http://127.0.0.1:{port}/api/v1/jobs/numbers"
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        for place, body in (("checkpoints", b""), ("savepoints", b'{"name": "before-upgrade"}')):
            request = urllib.request.Request(f"{api}/{place}", body, headers)
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                assert answer.status == 201
                made = json.load(answer)
            found = holdfast.open(f"file://{home}").job("numbers").checkpoint(made["id"])
            assert (found.status, found.kind) == ("completed", place.removesuffix("s"))
            assert found.manifest is not None
        assert found.name == "before-upgrade"
        for place in ("savepoints/before-upgrade/drop", "collect"):
            request = urllib.request.Request(f"{api}/{place}", b"", headers)
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                told = json.load(answer)
        assert list(holdfast.open(f"file://{home}").job("numbers").savepoints()) == []
        assert "are deleted in the background" in told["message"]


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


def test_a_start_is_at_what_it_says(spark: SparkSession, tmp_path: Path) -> None:
    """What takes long is said again: it must not be a step that is over."""
    for name in ("home", "in"):
        (tmp_path / name).mkdir()
    steps: dict[str, str] = {}

    def note(step: str) -> None:
        steps[step] = current_step()

    def build(spark: SparkSession) -> DataFrame:
        steps["build"] = current_step()
        return spark.readStream.schema("number INT").json(str(tmp_path / "in"))

    start_stepwise(
        build,
        "numbers",
        f"file://{tmp_path / 'home'}",
        Files(tmp_path / "out"),
        Settings(spark=spark, work=tmp_path / "work", trigger="available-now"),
        note,
    ).await_termination()
    assert (steps["build"], steps["recovery.aligned"]) == ("building the query", "finding where to resume")
