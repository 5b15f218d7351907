"""A stop ends within its deadline whatever hangs, names it, and the next start is exact. About 10 s each."""

import signal
from pathlib import Path

import pytest

from tests.end_to_end.harness import Pipeline

_HANGS = {
    "batch.begin:3": "starting or stopping the query",
    "publish.begin:2": "publishing to the sink",
    "checkpoint.manifest:2": "a write to the journal",
    "checkpoint.planned:2": "copying to the home",
}


@pytest.mark.parametrize("step", _HANGS)
def test_what_hangs_is_named_and_the_next_run_is_exact(tmp_path: Path, step: str) -> None:
    pipeline = Pipeline(tmp_path, files=12)
    driver = pipeline.start(hang_at=step, stop_timeout="3s", timeout="60s")
    driver.wait_for(f"hangs {step.partition(':')[0]}")

    driver.send(signal.SIGTERM)
    code, last = driver.end()

    assert code == 1, last
    assert "did not stop within 3 s" in last
    assert _HANGS[step] in last
    pipeline.finish()
    pipeline.require_exact()
