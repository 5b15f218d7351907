"""SIGTERM or Ctrl-C while a job starts: one line, exit code 0, and the job as it was."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.spark.started_processes import started_with
from tests.end_to_end.harness import WARM_JVM
from tests.end_to_end.warm_jvm import WarmJvm
from tests.patience import PATIENCE

_PIPELINE = """
def orders(spark):
    return spark.readStream.format("rate").load()
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "orders.py").write_text(_PIPELINE)
    (tmp_path / "home").mkdir()
    places = ["--home", f"file://{tmp_path}/home", "--work", f"{tmp_path}/work", "--sink", f"files:{tmp_path}/table"]
    spark = ["--master", "local[1]", "--conf", "spark.ui.enabled=false"]
    return [sys.executable, "-m", "holdfast.cli", "run", str(tmp_path / "orders.py"), *places, *spark]


def stopped_at(
    line: str, command: list[str], number: signal.Signals | None = signal.SIGTERM, jvm: WarmJvm | None = None
) -> tuple[int, str]:
    """The exit code and all that was said, of a process that gets the signal, if any, when it says `line`."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(jvm.environment() if jvm else {})}
    said = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        killer = threading.Timer(PATIENCE, process.kill)
        killer.start()
        try:
            for heard in process.stderr:
                said.append(heard)
                if number is not None and line in heard:
                    process.send_signal(number)
        finally:
            killer.cancel()
            killer.join()
    return process.returncode, "".join(said)


def entries(home: Path) -> Iterator[dict[str, object]]:
    for path in sorted((home / "orders" / "journal").glob("0*.json")):
        yield json.loads(path.read_bytes())


def test_while_spark_starts_nothing_was_touched(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOPPED_WHILE_STARTING", tmp_path.name)
    code, said = stopped_at("starting Spark", command)

    deadline = time.monotonic() + PATIENCE
    while left := list(started_with(f"STOPPED_WHILE_STARTING={tmp_path.name}")):
        assert time.monotonic() < deadline, f"its JVM stays: {left}"
        time.sleep(0.05)
    assert code == 0, said
    assert "Traceback" not in said
    assert "stopped before the query ran" in said
    assert list(entries(tmp_path / "home")) == []


_SLOW_SESSION = """
import os, signal, sys, threading
from pyspark.sql import SparkSession
from holdfast.cli.main import main

made = SparkSession.__init__

def slowly(session, context, *given, **named):
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    context._jvm.java.lang.Thread.sleep(5000)
    made(session, context, *given, **named)

SparkSession.__init__ = slowly
sys.exit(main(sys.argv[1:]))
"""


def test_while_pyspark_waits_for_its_jvm_it_prints_nothing(command: list[str], tmp_path: Path) -> None:
    """The handler of PySpark for SIGINT asks the JVM for something, in the middle of the answer to another question."""
    python, _, _, *arguments = command
    code, said = stopped_at("", [python, "-c", _SLOW_SESSION, *arguments], jvm=WARM_JVM, number=None)

    assert code == 0, said
    assert "Traceback" not in said
    assert [line for line in said.splitlines() if "stopped before the query ran" in line] == said.splitlines()[-1:]
    assert list(entries(tmp_path / "home")) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_once_it_owns_the_job_the_end_is_in_the_journal(
    command: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    """Spark has put a handler of its own for SIGINT by then."""
    code, said = stopped_at("owns the job", command, number, WARM_JVM)

    assert code == 0, said
    assert "Traceback" not in said
    assert [entry["kind"] for entry in entries(tmp_path / "home")][-1] == "run-ended", said


_WAITING_FOR_THE_JVM = """
import os, signal, sys
from pathlib import Path
from pyspark import java_gateway
from holdfast.doctor.spark.session import doctors_session
from holdfast.spark.session import session_for

pause = java_gateway.time.sleep

def interrupted(seconds):
    java_gateway.time.sleep = pause
    os.kill(os.getpid(), signal.SIGINT)
    pause(seconds)

java_gateway.time.sleep = interrupted  # between two looks for the port of the JVM
try:
    doctors_session().__enter__() if sys.argv[1] == "doctor" else session_for("orders", Path(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("who", ["run", "doctor"])
def test_a_jvm_that_is_awaited_no_more_goes(tmp_path: Path, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"AWAITED_NO_MORE={tmp_path.name}"
    monkeypatch.setenv(*mark.split("="))
    where = who if who == "doctor" else str(tmp_path / "spark.log")
    done = subprocess.run(
        [sys.executable, "-c", _WAITING_FOR_THE_JVM, where], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
    assert list(started_with(mark)) == []
