"""A pod that is gone and comes back under its name takes its job over at once; anybody else watches the heartbeat.

Each life runs in a process namespace of its own, as in a container: the next one cannot see whether it is dead.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.repository.entries import CheckpointCompleted, RunEnded, RunStarted
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


@pytest.mark.long
def test_a_rolling_update_hands_the_job_over_and_loses_nothing(tmp_path: Path) -> None:
    """As of a Deployment with `maxSurge: 0`: the old pod gets SIGTERM, the new one starts at once, under another name
    and with an empty disk, and is started again as often as it is refused."""
    if why := missing_namespaces():
        pytest.skip(f"process namespaces cannot be made here: {why}")
    pipeline = Pipeline(tmp_path, files=14, own_jvms=True)
    pipeline.hold_back(4)
    old = pipeline.start(launcher=CONTAINER, identity="counts-5d8f-old")
    old.wait_for("step publish.done", times=2)
    os.kill(only_child_of(old.process.pid), signal.SIGTERM)
    pipeline.work_url = str(tmp_path / "disk-of-the-new-pod")
    refused = 0
    while next((new := pipeline.start(launcher=CONTAINER, identity="counts-77c9-new")).lines()).startswith("error 5 "):
        refused += 1
        new.end()
    code, last = old.end()
    assert code == 0, f"exit {code}: {last}"
    pipeline.feed(4)
    new.wait_for("step publish.done", times=1)
    new.kill()
    pipeline.finish(launcher=CONTAINER, identity="counts-77c9-new")
    pipeline.require_exact()

    entries = pipeline.entries()
    ends = [entry for entry in entries if isinstance(entry, RunEnded)]
    starts = [entry for entry in entries if isinstance(entry, RunStarted)]
    assert not ends[0].failed
    assert ends[0].sequence < starts[1].sequence, "the new one did not take it away"
    last_of_old = max(
        (each for each in entries if isinstance(each, CheckpointCompleted) and each.sequence < ends[0].sequence),
        key=lambda each: each.id,
    )
    resumed = f"resuming at batch {last_of_old.barrier_batch_id} from checkpoint {last_of_old.id}"
    assert resumed in pipeline.log.read_text(), "it repeats no batch: the old one's last checkpoint has them all"
    print(f"refused {refused} times")  # noqa: T201


def only_child_of(pid: int) -> int:
    """The process that the launcher has started: it gets the signals of a container."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)
