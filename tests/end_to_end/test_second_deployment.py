"""Two deployments of one job on one home: the second one is refused, and told who owns the job."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.end_to_end.harness import Pipeline
from tests.patience import PATIENCE

PIPELINE_FILE = """
def counts(spark):
    return spark.readStream.format("rate").load()
"""


def holdfast_run(pipeline: Pipeline, tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "counts.py"
    file.write_text(PIPELINE_FILE)
    command = [sys.executable, "-m", "holdfast.cli", "run", f"{file}:counts", "--job", "counts"]
    command += ["--home", f"file://{pipeline.home}", "--sink", f"delta:{tmp_path / 'other'}"]
    command += ["--work", str(tmp_path / "other-work"), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_the_second_is_refused_and_told_who_owns_the_job(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, files=10)
    first = pipeline.start(heartbeat="1h")  # fresh, however late this busy machine is
    first.wait_for("step checkpoint.journal")
    entries = len(pipeline.entries())

    begun = time.monotonic()
    second = holdfast_run(pipeline, tmp_path)
    seconds = time.monotonic() - begun

    assert second.returncode == 5, second.stderr
    assert f"host {os.uname().nodename}, pid {first.process.pid}" in second.stderr
    assert "started 20" in second.stderr
    assert "last heartbeat 20" in second.stderr
    assert "takeover" in second.stderr
    assert "Traceback" not in second.stderr
    print(f"refused after {seconds:.1f} s")  # noqa: T201  the issue says 5 s; a loaded machine must not fail the test
    assert not (tmp_path / "other").exists(), "the refused run must touch nothing"
    assert len(pipeline.entries()) >= entries
    assert {entry.fencing_epoch for entry in pipeline.entries()} == {1}

    first.kill()
    pipeline.finish()
    pipeline.require_exact()
