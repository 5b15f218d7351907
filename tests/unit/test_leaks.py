"""Whatever a test leaves behind is seen, and named."""

import os
import signal
import socket
import subprocess
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
