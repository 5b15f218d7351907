"""The files in examples/ run as their headings say: as scripts, by spark-submit and by `holdfast run`."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.dataset
import pytest
from deltalake import DeltaTable

from tests.end_to_end.harness import WARM_JVM
from tests.patience import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "examples"
SPARK_SUBMIT = (
    str(Path(sys.executable).with_name("spark-submit")),
    *("--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=ERROR"),
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where an example that runs as a script leaves its things."""
    return tmp_path / "holdfast-examples"


@contextmanager
def started(
    tmp_path: Path, *arguments: str, program: Sequence[str] = (sys.executable,)
) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    # spark-submit is a JVM of its own, and starts Python.
    environment |= {"PYSPARK_PYTHON": sys.executable} if program == SPARK_SUBMIT else WARM_JVM.environment()
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*program, *arguments], env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        WARM_JVM.clear()


def until(reached: Callable[[], bool], process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert process.poll() is None, (tmp_path / "log").read_text()
        assert time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.1)


def stopped(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE)


def completed_batch(home: Path, job: str) -> int:
    """The newest batch that a completed checkpoint holds, -1 for none."""
    entries = [json.loads(path.read_bytes()) for path in sorted((home / job / "journal").glob("0*.json"))]
    return max((e["barrier_batch_id"] for e in entries if e["kind"] == "checkpoint-completed"), default=-1)


def test_orders_run_by_the_command_line_are_all_there_once(tmp_path: Path) -> None:
    home, table = tmp_path / "home", tmp_path / "orders"
    home.mkdir()
    command = ["-m", "holdfast.cli", "run", str(EXAMPLES / "orders.py"), "--home", f"file://{home}"]
    options = ["--sink", f"delta:{table}", "--interval", "1s", "--trigger", "500ms", "--work", str(tmp_path / "work")]
    with started(tmp_path, *command, *options) as process:
        until(lambda: completed_batch(home, "orders") >= 2, process, tmp_path)
        assert stopped(process) == 0, (tmp_path / "log").read_text()
    values = sorted(DeltaTable(str(table)).to_pyarrow_table()["value"].to_pylist())
    assert values
    assert values == list(range(len(values)))


@pytest.mark.long
def test_windowed_clicks_by_spark_submit_counts_the_closed_minutes_and_ends(tmp_path: Path, place: Path) -> None:
    with started(tmp_path, str(EXAMPLES / "windowed_clicks.py"), program=SPARK_SUBMIT) as process:
        assert process.wait(PATIENCE) == 0, (tmp_path / "log").read_text()
    rows = pyarrow.dataset.dataset([str(path) for path in (place / "clicks-per-minute").glob("*.parquet")]).to_table()
    counted = {(row["minute"].minute, row["page"]): row["clicks"] for row in rows.to_pylist()}
    # Ten minutes arrived; the tenth is not closed yet.
    assert counted == {(minute, f"/{page}"): 20 for minute in range(9) for page in range(3)}
    assert len(rows) == len(counted)


def test_spark_submit_ends_as_the_script_does(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import holdfast\nholdfast.run(print, job='orders', home='file:///nowhere/at/all')\n")
    with started(tmp_path, str(script), program=SPARK_SUBMIT) as process:
        assert process.wait(PATIENCE) == 6, (tmp_path / "log").read_text()
    assert "holdfast: could not" in (tmp_path / "log").read_text()
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_own_writer_has_every_reading_once_after_a_kill(tmp_path: Path, place: Path) -> None:
    program = str(EXAMPLES / "own_writer.py")
    with started(tmp_path, program) as process:
        until(lambda: completed_batch(place / "home", "readings") >= 0, process, tmp_path)
        first = len(readings(place))
        until(lambda: len(readings(place)) > first, process, tmp_path)
        process.kill()
        process.wait()
    shutil.rmtree(tmp_path / "data")  # the work directories
    first = len(readings(place))
    with started(tmp_path, program) as process:
        until(lambda: len(readings(place)) > first, process, tmp_path)
        assert stopped(process) == 0, (tmp_path / "log").read_text()
    found = readings(place)
    assert sorted(found) == list(range(len(found)))


def readings(place: Path) -> list[int]:
    with suppress(sqlite3.OperationalError), sqlite3.connect(place / "readings.db") as database:
        return [int(row[0]) for row in database.execute("SELECT id FROM readings")]
    return []
