"""The command line as a process: exit codes, what goes to which stream, what is imported."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.commands import LISTED, WITH_SUBCOMMANDS
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


def imported_by(*command_lines: list[str]) -> set[str]:
    """What a process has imported after these commands. Their answers go to standard error."""
    program = (
        "import contextlib, json, sys\n"
        "from holdfast.cli.main import main\n"
        "with contextlib.redirect_stdout(sys.stderr):\n"
        "    codes = [main(words) for words in json.loads(sys.argv[1])]\n"
        "print(json.dumps([codes, sorted(sys.modules)]))"
    )
    arguments = [sys.executable, "-c", program, json.dumps(command_lines)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    codes, modules = json.loads(done.stdout)
    assert set(codes) == {0}, done.stderr
    return set(modules)


def test_the_help_imports_no_command() -> None:
    imported = imported_by(["--help"])
    commands = {f"holdfast.cli.{listed.where.partition(':')[0]}" for _, listed in LISTED.values()}
    assert imported & (commands - {"holdfast.cli.completion"}) == set()
    assert imported & {"pyspark", "pyarrow", "obstore", "rich.console", "holdfast.repository.journal"} == set()


def test_commands_that_read_do_not_import_spark(history: History) -> None:
    where = ["--home", str(history.home), "--job", "orders"]
    reading = [["jobs", "--home", str(history.home)], *([word, *where] for word in ("status", "checkpoints", "events"))]
    more = [["show", "1", *where], ["savepoint", "list", *where], ["collect", "--dry-run", *where]]
    imported = imported_by(*reading, *more)
    assert "holdfast.cli.status" in imported
    assert imported & {"pyspark", "py4j", "deltalake", "holdfast.cli.run", "holdfast.cli.demo.command"} == set()


@pytest.mark.parametrize("name", LISTED)
def test_the_list_of_commands_says_what_the_command_says_of_itself(name: str) -> None:
    panel, listed = LISTED[name]
    command = listed.load(name, panel)
    assert command.name == name
    assert listed.line == command.get_short_help_str(80)
    assert (name in WITH_SUBCOMMANDS) == hasattr(command, "commands")


def test_what_a_pipeline_prints_stays_off_standard_output_with_json(tmp_path: Path, history: History) -> None:
    """Down to the file descriptor, which is what the JVM inherits."""
    (tmp_path / "orders.py").write_text("import os\nprint('python')\nos.write(1, b'descriptor\\n')\nraise ValueError\n")
    out, err = holdfast("run", str(tmp_path / "orders.py"), "--home", str(history.home), "--json", code=1)
    assert list(json.loads(out)) == ["error"]
    assert "python\n" in err
    assert "descriptor\n" in err


def test_nothing_is_read_before_signals_are_heard() -> None:
    code = "import sys; before = {*sys.modules}; import holdfast.cli.starting; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"__future__", "holdfast", "holdfast.cli", "holdfast.cli.starting"}


_SIGNALLED_AT_AN_IMPORT = """
import os, sys
number, module, *sys.argv[1:] = map(str, sys.argv[1:])

class Signalling:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), int(number))

sys.meta_path.insert(0, Signalling())
from holdfast.cli.starting import main
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("holdfast.errors", "status"),
        ("typer", "status"),
        ("holdfast.cli.status", "status"),
        ("holdfast.cli.run", "run pipeline.py"),
        ("holdfast.cli.doctor", "doctor"),
        ("holdfast.cli.demo.command", "demo"),
    ],
)
def test_a_signal_ends_it_with_one_line_while_it_is_still_imported(
    module: str, arguments: str, number: signal.Signals
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SIGNALLED_AT_AN_IMPORT, str(int(number)), module, *arguments.split()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "holdfast: interrupted\n")
