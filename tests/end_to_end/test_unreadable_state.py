"""State in the work directory that cannot be read: set aside, the next candidate is taken, the output is exact."""

import os
from pathlib import Path

import pytest

from holdfast.repository.entries import QueryRestarted
from tests.end_to_end.driver import STATE_FORMATS, damage_state
from tests.end_to_end.harness import Pipeline

TORTURE = "HOLDFAST_KILLS" in os.environ


def run_until_published(pipeline: Pipeline) -> None:
    driver = pipeline.start()
    driver.wait_for("step publish.done", times=3)
    driver.kill()


@pytest.mark.timeout(300)
def test_a_damaged_directory_of_the_previous_run_is_not_resumed(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, files=12)
    run_until_published(pipeline)
    damage_state(pipeline.work)
    pipeline.finish()
    assert list(pipeline.work.glob("counts/*.aside")), "it is kept for inspection"
    assert not pipeline.state().corrupt
    pipeline.require_exact()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("state_format", STATE_FORMATS if TORTURE else ["rocksdb"])
def test_state_that_only_spark_finds_unreadable(tmp_path: Path, state_format: str) -> None:
    """Damaged after recovery has verified it: Spark fails, and the run goes on from the checkpoint before."""
    pipeline = Pipeline(tmp_path, files=12, state_format=state_format)
    run_until_published(pipeline)
    newest = pipeline.state().restorable()[0].id
    pipeline.wipe_work()
    pipeline.finish(damage_at="recovery.aligned")
    assert newest in pipeline.state().corrupt
    restarts = [entry for entry in pipeline.entries() if isinstance(entry, QueryRestarted)]
    assert [entry.cause for entry in restarts] == ["state unreadable"]
    pipeline.require_exact()
