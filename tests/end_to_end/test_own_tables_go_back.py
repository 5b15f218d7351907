"""A job with a Delta or an Iceberg table of its own goes back: refused with the command that takes the table back, then
exact. Under the Spark that each of them exists for: only in `make torture`, about a minute each."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.own_writer_driver import submit_arguments
from tests.end_to_end.own_writer_story import python_for
from tests.torture import TORTURE

if TORTURE:

    @pytest.mark.long
    @pytest.mark.timeout(900)
    @pytest.mark.parametrize(
        ("writer", "command"),
        [("delta", "RESTORE TABLE delta.`"), ("iceberg", "CALL local.system.rollback_to_snapshot('numbers.out', ")],
        ids=["delta", "iceberg"],
    )
    def test_the_command_that_is_shown_is_what_it_takes(tmp_path: Path, writer: str, command: str) -> None:
        for name in ("home", "in"):
            (tmp_path / name).mkdir()
        python = python_for(writer)
        environment = os.environ | {
            "PYSPARK_PYTHON": python,
            "PYSPARK_SUBMIT_ARGS": submit_arguments(tmp_path, writer),
        }
        program = [python, "-m", "tests.end_to_end.own_table_driver", str(tmp_path), writer]
        done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        told = json.loads(done.stdout.splitlines()[-1])
        assert told["first"] == told["second"] == ""
        assert "still shows batches 2 to 3 of before" in told["refused"]
        assert command in told["refused"]
        assert told["taken back"] == [1, 2]
        assert told["back"] == "", "a batch 2 of this line is not taken for that of the one before"
        assert told["again"] == [1, 2, 3, 4]
        assert told["third"] == ""
        assert told["at the end"] == [1, 2, 3, 4, 5]
        if writer == "delta":
            assert "shows batches up to 3, and skips batch 4, which it has recorded" in told["lacks"]
            assert told["shown then"] == [1, 2, 3, 4]
            assert told["whole again"] == ""
            assert "shows batches up to 3" in told["lacks by time"]
            assert told["gone back"] == ""
            assert told["in the end"] == [1, 2, 3, 4, 5]
