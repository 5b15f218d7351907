"""`holdfast doctor --follow` as a process of its own, ended from the keyboard. Too slow for CI: half a minute."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests import short_lived_jvm
from tests.doctor.collection import CASES
from tests.end_to_end.harness import TORTURE
from tests.patience import PATIENCE

if TORTURE:

    def test_ctrl_c_ends_it_without_a_trace_and_the_exit_code_tells_what_was_found(tmp_path: Path) -> None:
        logs = tmp_path / "logs"
        logs.mkdir()
        shutil.copy(CASES / "disk-full-taskmanager-json.log", logs)
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", "doctor", str(logs), "--follow"],
            cwd=tmp_path,
            env={**os.environ, "JDK_JAVA_OPTIONS": short_lived_jvm.options(), "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            told = next(line for line in process.stdout if line.strip())
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everything that was started
            _, messages = process.communicate(timeout=PATIENCE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        assert "snapshot-write-failed" in told
        assert process.returncode == 1
        assert messages.splitlines()[-1] == "Ended."
        assert "Traceback" not in messages
        assert "Error" not in messages
