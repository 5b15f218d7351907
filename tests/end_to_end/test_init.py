"""What `holdfast init` writes runs as it is: the pipeline by its settings, stopped by a command; and its own test.

Costs two starts of Spark.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.main import main
from tests.end_to_end.test_examples import completed_batch, started, until
from tests.patience import PATIENCE

pytestmark = pytest.mark.long


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert main(["init", str(tmp_path / "new")]) == 0
    monkeypatch.chdir(tmp_path / "new")
    for name in ("HOLDFAST_HOME", "HOLDFAST_JOB"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "new"


def test_the_pipeline_runs_by_its_settings_and_is_stopped(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCOMING", str(place / "incoming"))  # the JVM of the tests was started elsewhere
    with started(tmp_path, "-m", "holdfast.cli", "run", "orders", "--interval", "1s") as process:
        until(lambda: completed_batch(place / "home", "orders") >= 0, process, tmp_path)
        assert main(["stop", "orders"]) == 0
        assert process.wait(PATIENCE) == 0, (tmp_path / "log").read_text()


def test_its_own_test_passes(place: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--basetemp", str(place.parent / "t")]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    ended = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
