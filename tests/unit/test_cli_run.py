"""`holdfast run`: finding the function, checking the command before anything is touched, handing it all over."""

import json
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast
from holdfast.checkpoint.difference import refuse, warn
from holdfast.cli.logs import OneLineFormatter
from holdfast.cli.main import main
from holdfast.cli.run import add_spark_arguments
from holdfast.cli.run_options import OPTION_HELP
from holdfast.errors import Incompatible, InvalidSettings, OwnedByAnotherRun
from holdfast.repository.ownership import current_process
from holdfast.settings import Settings
from tests.unit.job_histories import ELSEWHERE, History


class Calls:
    """Stands where the runtime is, and remembers what it was asked to run."""

    def __init__(self) -> None:
        self.build: Any = None
        self.options: dict[str, Any] = {}
        self.error: Exception | None = None

    def __call__(self, build: Any, **options: Any) -> None:
        self.build, self.options = build, options
        if self.error:
            raise self.error


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    calls = Calls()
    monkeypatch.setattr(holdfast, "run", calls, raising=False)
    monkeypatch.delenv("HOLDFAST_JOB", raising=False)
    monkeypatch.delenv("HOLDFAST_DEBUG", raising=False)
    monkeypatch.delenv("HOLDFAST_IDENTITY", raising=False)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    logger = logging.getLogger("holdfast")
    before = logger.handlers, logger.level, logger.propagate
    yield calls
    logger.handlers, logger.level, logger.propagate = before


@pytest.fixture
def home(tmp_path: Path) -> str:
    (tmp_path / "home").mkdir()
    return f"file://{tmp_path}/home"


def pipeline(tmp_path: Path, text: str) -> str:
    path = tmp_path / "pipe-line.py"
    path.write_text(text)
    return str(path)


ONE = "def orders(spark):\n    return 'orders of ' + spark\n"
SEVERAL = ONE + "def clicks(spark):\n    return 'clicks'\n"


def ran(calls: Calls) -> tuple[str, str]:
    return calls.options["job"], calls.build.__name__


def test_the_only_function_is_the_pipeline_and_names_the_job(calls: Calls, home: str, tmp_path: Path) -> None:
    assert main(["run", pipeline(tmp_path, "from os.path import join\n_x = 1\n" + ONE), "--home", home]) == 0
    assert ran(calls) == ("orders", "orders")
    assert calls.build("x") == "orders of x"
    assert calls.options["home"] == home
    assert calls.options["sink"] is None


@pytest.mark.parametrize(
    ("text", "function", "job", "expected"),
    [
        (SEVERAL, ":clicks", None, ("clicks", "clicks")),
        (SEVERAL, "", "clicks", ("clicks", "clicks")),
        (SEVERAL + "def pipeline(spark): ...\n", "", None, ("pipeline", "pipeline")),
        (SEVERAL + "def build(spark): ...\n", "", "daily", ("daily", "build")),
        (ONE, "", "daily", ("daily", "orders")),
        (SEVERAL, ":orders", "clicks", ("clicks", "orders")),
    ],
)
def test_which_function_is_taken(
    calls: Calls, home: str, tmp_path: Path, text: str, function: str, job: str | None, expected: tuple[str, str]
) -> None:
    named = ["--job", job] if job else []
    assert main(["run", pipeline(tmp_path, text) + function, "--home", home, *named]) == 0
    assert ran(calls) == expected


@pytest.mark.parametrize(
    ("text", "function", "code", "said"),
    [
        (SEVERAL, "", 2, "pipe-line.py:orders, "),
        (SEVERAL, ":nope", 2, "no function 'nope'"),
        ("x = 1\n", "", 2, "no function"),
        ("x = 1\n", ":x", 2, "no function 'x'"),
        ("def broken(:\n", "", 2, "line 1: SyntaxError"),
        ("\nimport not_there\n" + ONE, "", 2, "line 2: ModuleNotFoundError: No module named 'not_there'"),
        ("def f():\n    raise TimeoutError('no answer')\n\nf()\n", "", 1, "line 2: TimeoutError: no answer"),
        ("raise SystemExit(3)\n", "", 1, "line 1: SystemExit: 3"),
    ],
)
def test_a_pipeline_file_that_cannot_be_used_is_named_with_its_line(
    calls: Calls,
    home: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    function: str,
    code: int,
    said: str,
) -> None:
    """Exit 2, which no supervisor restarts, is for what stays wrong; an exception of the user's code may pass."""
    file = pipeline(tmp_path, text)
    assert main(["run", file + function, "--home", home]) == code
    message = capsys.readouterr().err
    assert said in message
    assert "pipe-line.py" in message
    assert "Traceback" not in message
    assert len(message.splitlines()) == 2
    assert calls.build is None


def test_a_file_that_does_not_exist_exits_2(calls: Calls, home: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "/nowhere/orders.py", "--home", home]) == 2
    assert "/nowhere/orders.py" in capsys.readouterr().err


def test_the_file_is_not_run_as_main_and_can_import_its_neighbours(calls: Calls, home: str, tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_pipeline.py").write_text("NAME = 'neighbour'\n")
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from neighbour_of_pipeline import NAME\n"
        "@dataclass\nclass Row:\n    x: int\n"
        "def orders(spark):\n    return NAME\n"
        "if __name__ == '__main__':\n    raise SystemExit('ran as a script')\n"
    )
    assert main(["run", pipeline(tmp_path, text), "--home", home]) == 0
    assert calls.build(None) == "neighbour"


def test_functions_of_the_file_travel_to_workers_with_their_code(calls: Calls, home: str, tmp_path: Path) -> None:
    from pyspark import cloudpickle

    text = "def helper(x):\n    return x + 1\ndef orders(spark):\n    return helper\n"
    assert main(["run", pipeline(tmp_path, text) + ":orders", "--home", home]) == 0
    pickled = cloudpickle.dumps(calls.build(None))
    module = sys.modules.pop("holdfast_pipeline_pipe_line")  # as in a worker, which has no such module
    try:
        assert cloudpickle.loads(pickled)(1) == 2
    finally:
        sys.modules[module.__name__] = module


def test_options_become_settings(calls: Calls, home: str, tmp_path: Path) -> None:
    options = "--interval 10s --timeout 1m --min-pause 2s --max-concurrent 2 --tolerable-failures 5 --on-exceeded fail "
    options += "--retained 3 --on-conflict takeover --restart-delay 2s --restart-attempts 4 --heartbeat 1s "
    options += "--identity orders-0 "
    options += f"--parallelism 2 --output-mode update --trigger available-now --work {tmp_path}/work --spark-log -"
    assert main(["run", pipeline(tmp_path, ONE), "--home", home, *options.split()]) == 0
    assert calls.options["settings"] == Settings(
        interval="10s",
        timeout="1m",
        min_pause="2s",
        max_concurrent=2,
        tolerable_failures=5,
        on_exceeded="fail",
        retained=3,
        on_conflict="takeover",
        restart_delay="2s",
        restart_attempts=4,
        heartbeat="1s",
        spark_log="-",
        parallelism=2,
        identity="orders-0",
        output_mode="update",
        trigger="available-now",
        work=f"{tmp_path}/work",
    )


def test_every_setting_has_an_option() -> None:
    assert set(OPTION_HELP) == {field.name for field in fields(Settings)} - {"spark", "alarms", "sink_position"}


@pytest.mark.parametrize(
    "options",
    [
        "--interval 10x",
        "--retained 0",
        "--retained many",
        "--on-conflict maybe",
        "--trigger sometimes",
        "--bogus 1",
        "--job ../x",
        "--job a/b",
        "--identity a/b",
        "--sink nowhere",
        "--conf novalue",
    ],
)
def test_a_wrong_option_exits_2_before_the_file_is_loaded(
    calls: Calls, home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str
) -> None:
    marker = tmp_path / "loaded"
    text = f"open({str(marker)!r}, 'w').close()\n" + ONE
    assert main(["run", pipeline(tmp_path, text), "--home", home, *options.split()]) == 2
    message = capsys.readouterr().err
    assert len(message.splitlines()) <= 2
    assert options.split()[0].strip("-").replace("-", "_") in message.replace("-", "_")
    assert not marker.exists()
    assert list((tmp_path / "home").iterdir()) == []


def test_the_sink_comes_from_its_url(calls: Calls, home: str, tmp_path: Path) -> None:
    assert main(["run", pipeline(tmp_path, ONE), "--home", home, "--sink", f"delta:{tmp_path}/out"]) == 0
    assert calls.options["sink"].describe() == f"delta:{tmp_path}/out"


def test_spark_settings_reach_the_session_that_is_made_later(calls: Calls, home: str, tmp_path: Path) -> None:
    command = ["run", pipeline(tmp_path, ONE), "--home", home, "--master", "local[2]"]
    assert main([*command, "--conf", "spark.a=1", "--conf", "spark.b=x y"]) == 0
    expected = "--master 'local[2]' --conf spark.a=1 --conf 'spark.b=x y' pyspark-shell"
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == expected


def test_spark_arguments_already_in_the_environment_are_kept() -> None:
    environment = {"PYSPARK_SUBMIT_ARGS": "--jars a.jar pyspark-shell"}
    add_spark_arguments(environment, None, ["spark.a=1"])
    assert environment == {"PYSPARK_SUBMIT_ARGS": "--jars a.jar --conf spark.a=1 pyspark-shell"}
    untouched: dict[str, str] = {}
    add_spark_arguments(untouched, None, [])
    assert untouched == {}
    with pytest.raises(InvalidSettings):
        add_spark_arguments(untouched, None, ["=1"])


def test_the_error_of_the_run_decides_how_the_command_ends(
    calls: Calls, home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls.error = OwnedByAnotherRun("owned by build-3", hint="--on-conflict takeover")
    assert main(["run", pipeline(tmp_path, ONE), "--home", home]) == 5
    assert capsys.readouterr().err == "holdfast: owned by build-3\nTry: --on-conflict takeover\n"


@pytest.mark.parametrize(
    ("reference", "options", "code"),
    [
        ("", "--job orders", 5),
        (":orders", "", 5),
        ("", "--job orders --on-conflict takeover", 0),
        ("", "--job other", 0),
    ],
)
def test_a_job_that_a_living_run_owns_is_refused_before_the_file_is_loaded(
    calls: Calls,
    home: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    reference: str,
    options: str,
    code: int,
) -> None:
    history = History(tmp_path / "home", "orders")
    history.run(alive := current_process())
    history.beat()
    marker = tmp_path / "loaded"
    file = pipeline(tmp_path, f"open({str(marker)!r}, 'w').close()\n" + ONE)
    assert main(["run", file + reference, "--home", home, *options.split()]) == code
    assert marker.exists() == (code == 0)
    if code == 5:
        message = capsys.readouterr().err
        assert f"host {alive.host}, pid {alive.pid}" in message
        assert "--on-conflict takeover" in message


@pytest.mark.parametrize(
    ("variable", "options", "code"),
    [
        ("orders-0", "", 0),
        (None, "--identity orders-0", 0),
        ("orders-1", "--identity orders-0", 0),
        ("orders-1", "", 0),
        (None, "", 0),
        ("orders/0", "", 2),
    ],
)
def test_a_run_that_cannot_be_seen_is_not_refused_before_it_was_watched(
    calls: Calls,
    home: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variable: str | None,
    options: str,
    code: int,
) -> None:
    if variable is not None:
        monkeypatch.setenv("HOLDFAST_IDENTITY", variable)
    history = History(tmp_path / "home", "orders")
    history.run(replace(ELSEWHERE, identity="orders-0"))
    history.beat()
    command = ["run", pipeline(tmp_path, ONE), "--home", home, "--job", "orders", *options.split()]
    assert main(command) == code
    assert ("identity" in capsys.readouterr().err) is (code != 0)


def test_force_is_a_flag(calls: Calls, home: str, tmp_path: Path) -> None:
    assert main(["run", pipeline(tmp_path, ONE), "--home", home, "--force"]) == 0
    assert calls.options["settings"].force is True
    assert main(["run", pipeline(tmp_path, ONE), "--home", home]) == 0
    assert calls.options["settings"].force is False


@pytest.mark.parametrize("flag", ["new-life", "accept-older-home", "accept-sink", "accept-source"])
def test_each_way_out_of_a_conflict_is_a_flag(calls: Calls, home: str, tmp_path: Path, flag: str) -> None:
    assert main(["run", pipeline(tmp_path, ONE), "--home", home, f"--{flag}"]) == 0
    assert getattr(calls.options["settings"], flag.replace("-", "_")) is True


DIFFERENCES = (
    refuse("sources", "files /a; files /b", "files /b; files /a", "each would be read with another's offsets", "swap"),
    warn("shuffle partitions", "200", "400", "no effect"),
)


def test_a_refused_query_exits_2_and_its_differences_are_one_document(
    calls: Calls, home: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    calls.error = refusal = Incompatible("could not start job 'orders'", hint="swap them back; --force")
    refusal.differences = DIFFERENCES
    assert main(["run", pipeline(tmp_path, ONE), "--home", home, "--json"]) == 2
    printed = capfd.readouterr()
    document = json.loads(printed.out)
    assert (document["job"], document["refused"]) == ("orders", True)
    assert [difference["subject"] for difference in document["differences"]] == ["sources", "shuffle partitions"]
    assert printed.err.splitlines() == ["holdfast: could not start job 'orders'", "Try: swap them back; --force"]
    assert main(["run", pipeline(tmp_path, ONE), "--home", home]) == 2
    assert capfd.readouterr().out == ""


def test_differences_are_one_table_on_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    record = logging.makeLogRecord({"msg": "the query differs:\n%s", "args": ("as text",), "differences": DIFFERENCES})
    heading, columns, *rows = OneLineFormatter().format(record).splitlines()
    assert heading.endswith("the query differs:")
    assert columns.split() == ["what", "checkpoint", "query", "so"]
    assert [row.split()[0] for row in rows] == ["refused", "note"]
    assert rows[0].index("files /b; files /a") == columns.index("query") == rows[1].index("400")


def test_a_log_line_is_one_line_with_its_exception(tracebacks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DEBUG", raising=False)
    try:
        raise ValueError("first\nsecond")
    except ValueError as error:
        record = logging.LogRecord("holdfast", logging.WARNING, "", 0, "query died", (), (ValueError, error, None))
    record.created = 0
    line = OneLineFormatter().format(record)
    (kept,) = tracebacks.glob("holdfast-*")
    assert line == f"1970-01-01T00:00:00Z WARNING query died: ValueError: first second (traceback: {kept})"


def test_what_spark_prints_goes_to_a_file_beside_the_work_directory(calls: Calls, home: str, tmp_path: Path) -> None:
    assert main(["run", pipeline(tmp_path, ONE), "--home", home, "--work", f"{tmp_path}/work"]) == 0

    assert calls.options["settings"].spark_log == tmp_path / "work" / "orders.spark.log"
