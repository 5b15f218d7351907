"""Whatever a test leaves behind is seen, and named."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests import leaks


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(leaks, "_ENDS_WITHIN", 0.0)
    return leaks.held()


def test_nothing_new_is_nothing(before: dict[str, str]) -> None:
    assert leaks.left_since(before) == {}


def test_a_thread(before: dict[str, str]) -> None:
    over = threading.Event()
    thread = threading.Thread(target=_wait_for, args=(over,), name="holdfast-forgotten", daemon=True)
    thread.start()
    (what,) = leaks.left_since(before).values()
    over.set()
    thread.join()
    assert what == f"holdfast-forgotten, of {__name__}"
    assert leaks.left_since(before) == {}


def _wait_for(over: threading.Event) -> None:
    over.wait()


def test_a_listening_socket(before: dict[str, str]) -> None:
    with socket.socket() as forgotten:
        forgotten.bind(("127.0.0.1", 0))
        forgotten.listen()
        (what,) = leaks.left_since(before).values()
        assert str(forgotten.getsockname()) in what
    assert leaks.left_since(before) == {}


def test_a_temporary_file(before: dict[str, str]) -> None:
    handle, path = tempfile.mkstemp(prefix="holdfast-")
    os.close(handle)
    (name,) = leaks.left_since(before)
    Path(path).unlink()
    assert name == f"temporary file {Path(path).name}"
    assert leaks.left_since(before) == {}


def test_a_process_whose_parent_has_died_is_told_with_its_test(before: dict[str, str]) -> None:
    shell = subprocess.run(["sh", "-c", "sleep 600 >&- 2>&- & echo $!"], stdout=subprocess.PIPE, text=True, check=True)
    orphan = int(shell.stdout)
    left = leaks.left_since(before)
    os.kill(orphan, signal.SIGKILL)
    assert left.keys() == {f"process {orphan}"}
    assert "sleep 600" in left[f"process {orphan}"]
    assert "test_a_process_whose_parent_has_died" in left[f"process {orphan}"]


PLANTED = {
    "thread": ("threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()", "thread "),
    "socket": ("kept.append(socket.socket())", "socket "),
    "temporary_file": ("os.close(tempfile.mkstemp()[0])", "temporary file "),
    "process": ("kept.append(subprocess.Popen(['sleep', '600']))", "process "),
    "exception_in_a_thread": (
        "raising = threading.Thread(target=int, args=('x',)); raising.start(); raising.join()",
        "PytestUnhandledThreadException",
    ),
    "file_that_nobody_closed": ("open(__file__)", "Exception ignored in: <_io.FileIO"),
    "warning": ("warnings.warn('old', DeprecationWarning)", "DeprecationWarning"),
}
"""A line of a test, and what the report says about it."""
MODULE = """
import os, socket, subprocess, tempfile, threading, time, warnings
kept = []
def test_it():
    {line}
def test_after_it():
    pass
"""
NO_WAITING = "from tests import leaks\nleaks._ENDS_WITHIN = 0.0\n"


def test_a_run_of_the_tests_fails_on_each(tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "conftest.py").write_text(NO_WAITING)
    for name, (line, _) in PLANTED.items():
        (planted / f"test_{name}.py").write_text(MODULE.format(line=line))
    (planted / "test_well_behaved.py").write_text(MODULE.format(line="pass"))
    root = Path(__file__).parents[2]
    rules = ["-c", str(root / "pyproject.toml"), "--rootdir", str(root), "-p", "tests.conftest", "-n", "0"]
    shown = ["-vvv", "-rfE", "--tb=no", "--basetemp", str(tmp_path / "base")]
    command = [sys.executable, "-m", "pytest", *rules, *shown, str(planted)]
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as run:
        report, _ = run.communicate()
        os.killpg(run.pid, signal.SIGKILL)  # the process that was planted
    summary = re.split(r"^(?:FAILED|ERROR) ", report.partition("short test summary")[2], flags=re.MULTILINE)[1:]
    told = {re.search(r"test_(\w+)\.py", one)[1]: one for one in summary}  # type: ignore[index]
    assert told.keys() == PLANTED.keys(), report
    assert len(summary) == len(PLANTED), report
    for name, (_, said) in PLANTED.items():
        assert said in told[name]
