"""A pod that is gone and comes back under its name takes its job over at once; anybody else watches the heartbeat.

Each life runs in a process namespace of its own, as in a container: the next one cannot see whether it is dead.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.repository.entries import RunStarted
from tests.end_to_end.harness import Pipeline

CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
NEVER_STALE = "10m"


def missing_namespaces() -> str | None:
    try:
        tried = subprocess.run([*CONTAINER, "true"], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return tried.stderr.strip() or None


def test_the_next_life_of_a_pod_takes_over_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if why := missing_namespaces():
        pytest.skip(f"process namespaces cannot be made here: {why}")
    pipeline = Pipeline(tmp_path, files=12)
    pod = pipeline.start(launcher=CONTAINER, identity="counts-0", heartbeat=NEVER_STALE)
    pod.wait_for("step publish.done", times=2)
    pod.kill()

    # Nothing shows that it is dead, so it counts as alive for everybody but the one that has its name.
    assert main(["status", "--home", pipeline.home_url, "--job", "counts", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["running"], status["owner"]["identity"], status["owner"]["pid"]) == (True, "counts-0", 1)
    file = tmp_path / "counts.py"
    file.write_text("def counts(spark):\n    return spark.readStream.format('rate').load()\n")
    command = [sys.executable, "-m", "holdfast.cli", "run", str(file), "--home", pipeline.home_url, "--job", "counts"]
    with subprocess.Popen([*command, "--identity", "counts-1"], stderr=subprocess.PIPE, text=True) as other:
        assert other.stderr is not None
        said = next(line for line in other.stderr if "watching" in line)
        other.kill()
    assert "watching the heartbeat of run 1 on host" in said
    assert "0 of 3600 s" in said

    pipeline.wipe_work()
    pipeline.finish(launcher=CONTAINER, identity="counts-0", heartbeat=NEVER_STALE)
    pipeline.require_exact()
    runs = [entry.process.identity for entry in pipeline.entries() if isinstance(entry, RunStarted)]
    assert runs == ["counts-0", "counts-0"]
