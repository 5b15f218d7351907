"""A script that calls `holdfast.run` and catches nothing ends like the command: an exit code and words that say why."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from holdfast.workdir.unfinished import brief_directory
from tests.patience import PATIENCE

WRONG_JOB = "import holdfast\nholdfast.run(print, job='../x', home='file:///nowhere')"


def ended(script: str, *flags: str, **variables: str) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if name != "HOLDFAST_DEBUG"} | variables
    command = [sys.executable, *flags, "-c", script]
    done = subprocess.run(
        command, env=environment, input="", capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return done.returncode, done.stderr


def test_an_error_that_nobody_catches_is_explained() -> None:
    code, message = ended(WRONG_JOB)
    assert (code, message.count("\n")) == (2, 1)
    assert message.startswith("holdfast: job='../x' is not valid: ")


def test_its_traceback_can_be_had() -> None:
    code, message = ended(WRONG_JOB, HOLDFAST_DEBUG="1")
    assert code == 2
    assert "Traceback" in message


def test_other_errors_are_left_alone() -> None:
    code, message = ended(f"try:\n    {WRONG_JOB.replace(chr(10), '; ')}\nfinally:\n    raise ValueError('mine')")
    assert code == 1
    assert message.endswith("ValueError: mine\n")


def test_what_the_script_catches_it_gets() -> None:
    catching = WRONG_JOB.replace("\n", "; ")
    code, message = ended(f"try:\n    {catching}\nexcept holdfast.HoldfastError as error:\n    print(error.exit_code)")
    assert (code, message) == (0, "")


def test_a_shell_lives_on() -> None:
    code, message = ended(WRONG_JOB, "-i")
    assert code == 0
    assert "Traceback" in message


def test_an_exit_that_waits_for_nothing_leaves_no_temporary_directory(tmp_path: Path) -> None:
    script = (
        "from holdfast.spark.uncaught import leave_at_once\n"
        "from holdfast.workdir.unfinished import temporary_directory\n"
        "with temporary_directory('holdfast-ahead-') as directory:\n"
        "    (directory / 'metadata').touch()\n"
        "    leave_at_once(1)\n"
    )
    assert ended(script, TMPDIR=str(tmp_path)) == (1, "")
    assert list(tmp_path.iterdir()) == []


def test_what_killed_processes_left_goes_when_it_is_a_day_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("holdfast-ahead-old", "holdfast-ahead-young", "holdfast-doctor-old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metadata").touch()
        if name.endswith("old"):
            os.utime(tmp_path / name, (0, 0))
    with brief_directory("holdfast-ahead-") as directory:
        assert directory.is_dir()
    assert {path.name for path in tmp_path.iterdir()} == {"holdfast-ahead-young", "holdfast-doctor-old"}
