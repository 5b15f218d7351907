"""The command line as a process: exit codes, what goes to which stream, what is imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.job_histories import History


def holdfast(*arguments: str, code: int = 0, **environment: str) -> tuple[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST")}
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", *arguments],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History(tmp_path / "home")
    history.run()
    history.complete(1)
    history.beat()
    return history


def test_json_is_one_document_on_standard_output_and_nothing_else(history: History) -> None:
    out, err = holdfast("checkpoints", "--json", HOLDFAST_HOME=str(history.home), HOLDFAST_JOB="orders")
    assert json.loads(out)["checkpoints"][0]["id"] == 1
    assert err == ""


def test_an_error_leaves_standard_output_empty(history: History) -> None:
    out, err = holdfast("show", "7", "--home", str(history.home), "--job", "orders", code=3)
    assert out == ""
    assert len(err.splitlines()) == 2


@pytest.mark.parametrize("arguments", ["--bogus", "jobs", "savepoint", "jobs --home relative/path"])
def test_wrong_usage_exits_2(arguments: str) -> None:
    out, _ = holdfast(*arguments.split(), code=2)
    assert out == ""


def test_a_missing_home_exits_6(tmp_path: Path) -> None:
    holdfast("jobs", "--home", str(tmp_path / "nowhere"), code=6)


def test_a_reader_that_goes_away_is_no_traceback(history: History) -> None:
    read, write = os.pipe()
    os.close(read)
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli", "checkpoints", "--home", str(history.home), "--job", "orders"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(write)
        assert process.communicate()[1] == ""
    assert process.returncode == 1


def test_a_terminal_that_knows_only_ascii_is_no_error(history: History) -> None:
    out, _ = holdfast("show", "1", "--home", str(history.home), "--job", "orders", PYTHONIOENCODING="ascii")
    assert "copy" in out


def test_the_command_line_does_not_import_spark_or_rich_before_it_needs_them() -> None:
    program = (
        "import sys, holdfast.cli.main; "
        "print([m for m in ('pyspark', 'deltalake', 'pyarrow', 'rich.console') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_a_pipeline_prints_stays_off_standard_output_with_json(tmp_path: Path, history: History) -> None:
    """Down to the file descriptor, which is what the JVM inherits."""
    (tmp_path / "orders.py").write_text("import os\nprint('python')\nos.write(1, b'descriptor\\n')\nraise ValueError\n")
    out, err = holdfast("run", str(tmp_path / "orders.py"), "--home", str(history.home), "--json", code=1)
    assert list(json.loads(out)) == ["error"]
    assert "python\n" in err
    assert "descriptor\n" in err
