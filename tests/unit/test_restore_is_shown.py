"""`holdfast run` shows how far a restore has come: a bar on a terminal, a few lines elsewhere.

Real processes, one of them on a pseudo-terminal; what they restore is a checkpoint of a real home.
"""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.identifiers import FencingEpoch
from holdfast.repository.blobs import Blobs
from holdfast.storage.local import LocalStore
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.work_files import MIB, write

_RESTORES = """
import sys
from holdfast.cli.logs import log_to_standard_error
from holdfast.cli.run import living_on_a_terminal
from holdfast.identifiers import FencingEpoch, JobName, Sequence, AttemptId
from holdfast.job_log import log
from holdfast.repository.damage import load_manifest
from holdfast.repository.journal import read_entries
from holdfast.repository.ownership import current_process
from holdfast.repository.state import JobState
from holdfast.runtime.job_folder import JobFolder
from holdfast.runtime.work_marker import WorkMarker
from holdfast.storage.urls import open_store
from holdfast.workdir.factory import work_directory

home, work = sys.argv[1:]
store = open_store(home).scoped("orders")
log_to_standard_error()
(entry,) = JobState.of(read_entries(store)).completed.values()
with living_on_a_terminal():
    workplace = JobFolder(
        work_directory(work),
        WorkMarker(
            job=JobName("orders"), home=home, lineage="l", home_id="", epoch=FencingEpoch(9), claim=AttemptId("a"),
            head=Sequence(9), process=current_process(),
        ),
    )
    workplace.restore(store, load_manifest(store, entry), FencingEpoch(9))
    log.info("restored")
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    history = History(tmp_path / "home")
    history.run()
    files = {f"state/0/{number}/1.delta": os.urandom(8 * MIB) for number in range(6)}
    write(tmp_path / "was", {"metadata": b"{}", **files})
    assert isinstance(history.store, LocalStore)
    complete_with_bytes(history, 7, tmp_path / "was", Blobs(history.store, FencingEpoch(1)))
    return [sys.executable, "-c", _RESTORES, f"file://{history.home}", str(tmp_path / "work")]


def on_a_terminal(command: list[str]) -> str:
    terminal, end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environment) as process:
        os.close(end)
        said = b""
        try:
            while data := os.read(terminal, 1 << 16):
                said += data
        except OSError:  # how a terminal ends
            pass
    os.close(terminal)
    assert process.returncode == 0, said
    return said.decode()


def test_a_bar_on_a_terminal(command: list[str]) -> None:
    said = on_a_terminal(command)

    assert re.search(r"restoring checkpoint 7 .*[━╸╺].*\d.*/50\.3 MB", said), said
    assert "INFO    restored" in said, "lines of the log are whole"
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h"), "the cursor comes back"


def test_lines_elsewhere(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    lines = [line.partition("INFO    ")[2] for line in done.stderr.splitlines()]
    assert lines[0] == "restoring checkpoint 7: 50.3 MB"
    assert lines[-1] == "restored"
    assert len(lines) > 2
    assert all(re.fullmatch(r"restoring checkpoint 7: \d+\.\d MB of 50\.3 MB", line) for line in lines[1:-1])
    assert "\x1b" not in done.stderr
    assert done.stdout == ""
