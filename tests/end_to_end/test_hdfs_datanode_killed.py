"""HDFS loses its only DataNode amid a checkpoint: the pipeline runs on, and nothing is lost or sent twice.

The same with S3 in test_store_in_trouble.py; DataNodes that die, without a pipeline, in tests/stores/test_hdfs.py.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.coordination.coordinator import FAILING
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.repository.retention import keys_of
from holdfast.runtime.recovery.recovery import load_manifest
from tests.end_to_end.harness import Pipeline
from tests.stores.hdfs_server import HdfsServer, running_hdfs


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[HdfsServer]:
    with running_hdfs(tmp_path / "hdfs") as server:
        yield server


def objects(pipeline: Pipeline) -> set[str]:
    return {item.key for item in pipeline.store().list("") if item.key.startswith(("blobs/", "packs/"))}


@pytest.mark.long
def test_the_pipeline_runs_on_and_the_first_checkpoint_after_healing_reuses_what_was_uploaded(
    tmp_path: Path, hdfs: HdfsServer
) -> None:
    # So few batches that the state store makes no snapshot: each file of a barrier belongs to all later ones.
    pipeline = Pipeline(tmp_path, files=7, state_format="hdfs", home_url=f"{hdfs.address}/homes")
    pipeline.hold_back(5)

    driver = pipeline.start(freeze_at="checkpoint.acknowledged:2", tolerable_failures=0, storage_deadline="1s")
    driver.wait_for("step checkpoint.acknowledged", times=2)
    driver.wait_until_frozen()
    # Everything of the second checkpoint is uploaded; its manifest and its entry are not.
    hdfs.kill_datanode()
    uploaded = objects(pipeline)
    driver.send(signal.SIGCONT)
    driver.wait_for(f"alarm {FAILING} on")
    for _ in range(3):
        pipeline.feed(1)
        driver.wait_for("step written")
    hdfs.start_datanode()
    driver.wait_for(f"alarm {FAILING} over")
    driver.wait_for("step publish.done")
    pipeline.stop(driver)

    state = pipeline.state()
    assert not state.restarts, "the query was not touched"
    failures = [entry.failure for entry in state.failed if entry.failure.counted]
    assert {failure.reason for failure in failures} == {FailureReason.STORAGE_UNREACHABLE.value}
    assert all("DataNode" in failure.message or "datanode" in failure.message for failure in failures)
    first, healed = [state.completed[id] for id in sorted(state.completed)][:2]
    needed = {entry.id: keys_of(entry, load_manifest(pipeline.store(), entry)) for entry in (first, healed)}
    only_of_the_failed = uploaded - set(needed[first.id])
    assert only_of_the_failed
    assert only_of_the_failed <= set(needed[healed.id]), "what the failed checkpoint had uploaded is used"
    assert healed.bytes_new < healed.bytes_total

    pipeline.feed(2)
    pipeline.finish()
    pipeline.require_exact()
