"""Savepoints of a real running job by command, a stop with one, and going back to one with exact output."""

import json
import subprocess
import sys
from pathlib import Path

from holdfast.repository.entries import RequestAnswered, RunEnded, WentBack
from tests.end_to_end.harness import Pipeline
from tests.patience import PATIENCE


def command(pipeline: Pipeline, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "holdfast.cli", *arguments, "--home", pipeline.home_url, "--job", "counts", "--json"]
    return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_back_to_a_savepoint_and_on_from_there_once_with_exact_output(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, files=40)
    driver = pipeline.start()
    driver.wait_for("step publish.done", times=2)
    made = command(pipeline, "savepoint", "create", "before")
    assert made.returncode == 0, made.stderr
    before = json.loads(made.stdout)
    assert (before["status"], before["kind"], before["name"]) == ("completed", "savepoint", "before")
    driver.wait_for("step publish.done", times=3)
    stopped = command(pipeline, "savepoint", "create", "end", "--stop")
    assert stopped.returncode == 0, stopped.stderr
    assert driver.end()[0] == 0
    end = json.loads(stopped.stdout)
    assert end["barrier_batch_id"] > before["barrier_batch_id"]
    entries = pipeline.entries()
    assert isinstance(entries[-1], RunEnded)
    assert isinstance(entries[-2], RequestAnswered)
    seen = pipeline.visible()

    # Back, and killed on the way; then the supervisor's second start with the same arguments.
    code, last = pipeline.start(from_savepoint="before", crash_at="publish.done:2").end()
    assert code == -9, last
    pipeline.require_nothing_wrong()
    again = pipeline.start(from_savepoint="before", files_per_batch=20, trigger="available-now")
    assert again.end()[0] == 0
    (went,) = (entry for entry in pipeline.entries() if isinstance(entry, WentBack))
    assert went.chosen == before["id"]
    assert end["id"] in went.abandoned
    pipeline.require_exact()
    assert set(seen) <= set(pipeline.visible())

    # The history that was abandoned can still be looked at, and not run.
    code, last = pipeline.start(from_savepoint="end").end()
    assert code == 2
    assert "holdfast restore" in last
    restored = command(pipeline, "restore", "--savepoint", "end", "--to", str(tmp_path / "restored"))
    assert restored.returncode == 0, restored.stderr
    assert (tmp_path / "restored" / "commits" / str(end["barrier_batch_id"])).exists()
    pipeline.require_exact()
