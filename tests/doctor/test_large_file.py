"""A file of 300 MB, read in one process because there is no Java: an answer, and memory that does not grow with it.

About 20 s on an idle machine, most of them for writing the file.
"""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench import generated_logs

pytestmark = pytest.mark.long
MEGABYTES = 300
MOST = 400 * 2**20
MEASURED = """
import resource, subprocess, sys
subprocess.call(sys.argv[2:])
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
"""
"""By a small process: to a child's own memory counts what its parent had when it was made."""


def test_a_file_of_300_mb_takes_bounded_memory(tmp_path: Path) -> None:
    generated_logs.write(tmp_path / "logs", MEGABYTES, jobs=1)
    (log,) = (tmp_path / "logs").iterdir()
    assert log.stat().st_size > (MEGABYTES - 1) * 2**20
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PATH")}
    command = [sys.executable, "-m", "holdfast.cli", "doctor", str(log), "--json"]
    measured = [sys.executable, "-c", MEASURED, str(tmp_path / "used"), *command]
    with (tmp_path / "report").open("wb") as report, (tmp_path / "said").open("wb") as said:
        subprocess.run(measured, stdout=report, stderr=said, env={**environment, "PATH": str(tmp_path)}, check=False)
    used = int((tmp_path / "used").read_text())
    words = (tmp_path / "said").read_text()
    assert "in this process, because Spark cannot" in words
    assert "Traceback" not in words
    document = msgspec.json.decode((tmp_path / "report").read_bytes())
    assert document["logs"]["bytes"] == log.stat().st_size
    assert document["findings"]
    assert used * 1024 < MOST, f"{used // 1024} MB"
