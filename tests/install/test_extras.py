"""Each extra in an environment of its own, and none: what is promised there works, what is missing is named.

Costs about two minutes of one core: six environments out of uv's cache, four starts of Spark.
"""

import json
import re
import subprocess
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.documents import every_command
from tests.install.environments import ROOT, Environment, built_wheel, environment
from tests.patience import PATIENCE

pytestmark = pytest.mark.long
Made = Callable[..., Environment]
HERE = "a home of its own"
TABLE = """
from deltalake import DeltaTable
print(*sorted(DeltaTable("orders").to_pyarrow_table()["value"].to_pylist()))
"""
FILES = """
import os
import holdfast
from holdfast.sinks import Files

def numbers(spark):
    spark.range(10).write.mode("overwrite").json("in")
    return spark.readStream.schema("id LONG").json("in")

if __name__ == "__main__":
    home = "file://" + os.path.abspath("home")
    holdfast.run(numbers, job="numbers", home=home, sink=Files("numbers"), work="work", trigger="available-now")
"""
PARQUET = """
import glob
from pyarrow import parquet
print(*sorted(i for path in glob.glob("numbers/*.parquet") for i in parquet.read_table(path)["id"].to_pylist()))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    wheel = built_wheel(tmp_path_factory.mktemp("wheel"))
    ready: dict[tuple[str, ...], Environment] = {}

    def make(*extras: str) -> Environment:
        if extras not in ready:
            place = tmp_path_factory.mktemp("-".join(extras) or "none")
            ready[extras] = environment(wheel, extras, place)
        return ready[extras]

    return make


@pytest.fixture(scope="module")
def home(made: Made) -> Path:
    """That of a job which the program of the README has run, stopped with a savepoint after some checkpoints."""
    installed = made("spark", "delta")
    directory = installed.place / "home"
    directory.mkdir()
    (installed.place / "orders.py").write_text(first_program(directory, installed.place / "orders"))
    with (installed.place / "log").open("wb") as log:
        process = subprocess.Popen(
            [installed.path / "bin" / "python", "orders.py"],
            cwd=installed.place,
            env=installed.variables(XDG_DATA_HOME=str(installed.place / "data")),
            stdout=log,
            stderr=log,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while completed(directory / "orders") < 2:
            assert process.poll() is None, (installed.place / "log").read_text()
            assert time.monotonic() < deadline, (installed.place / "log").read_text()
            time.sleep(0.2)
        stop = ("savepoint", "create", "end", "--stop", "--home", f"file://{directory}", "--job", "orders")
        asked = made().run("holdfast", *stop)
        assert asked.returncode == 0, asked.stderr
        assert process.wait(PATIENCE) == 0, (installed.place / "log").read_text()
    finally:
        process.kill()
        process.wait()
    return directory


def first_program(home: Path, table: Path) -> str:
    """The ten lines of the README, with other places and a shorter interval."""
    (program,) = re.findall(r"```python\n(import holdfast\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[:1]
    assert len([line for line in program.splitlines() if line]) <= 10
    for shown, own in (("/var/lib/holdfast", str(home)), ("/data/orders", str(table)), ("10s", "1s")):
        assert shown in program
        program = program.replace(shown, own)
    return str(program)


def completed(job: Path) -> int:
    return sum(b'"checkpoint-completed"' in path.read_bytes() for path in (job / "journal").glob("0*.json"))


def test_without_an_extra_every_command_says_what_it_does(made: Made) -> None:
    bare = made()
    shown = bare.run("holdfast", "--help")
    assert shown.returncode == 0, shown.stderr
    commands = re.findall(r"^  ([a-z]+)  ", shown.stdout, re.MULTILINE)
    assert {"demo", "run", "jobs", "status", "checkpoints", "show", "savepoint", "doctor"} <= set(commands)
    for command in commands:
        assert bare.run("holdfast", command, "--help").returncode == 0
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert bare.run("holdfast", "--version").stdout == f"holdfast {version}\n"


def test_without_an_extra_it_imports_and_is_typed(made: Made) -> None:
    bare = made()
    looked = "import holdfast, holdfast.sinks, pathlib; p = pathlib.Path(holdfast.__file__); "
    looked += "print(p, p.with_name('py.typed').exists())"
    path, typed = bare.run("python", "-c", looked).stdout.split()
    assert Path(path).is_relative_to(bare.path), "not this repository"
    assert typed == "True"


def test_without_an_extra_and_without_java_the_doctor_reads_a_paste(made: Made) -> None:
    bare = made()
    pasted = (
        "Caused by: org.rocksdb.RocksDBException: Bad table magic number: expected 9863518390377041911, "
        "found 17223112372431451250 in /tmp/x/db/000210.sst"
    )
    missing = "import importlib.util as u; print(*(n for n in ('pyspark', 'pandas', 'numpy') if u.find_spec(n)))"
    assert bare.run("python", "-c", missing).stdout == "\n"
    (bare.place / "pasted").write_text(pasted)
    for arguments in (("doctor", "-"), ("doctor",), ("doctor", "pasted")):
        with (bare.place / "pasted").open("rb") as given:
            ended = subprocess.run(
                [bare.path / "bin" / "holdfast", *arguments],
                stdin=given,
                capture_output=True,
                text=True,
                cwd=bare.place,
                env=bare.variables(PATH="", JAVA_HOME="/nowhere"),
                timeout=PATIENCE,
                check=False,
            )
        assert ended.returncode == 1, ended.stderr
        assert "critical  state-unreadable" in ended.stdout
        assert "certain: files of the checkpoint" in ended.stdout
        assert "state.backend.local-recovery: true" in ended.stdout


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (("run", "orders.py", "--home", HERE, "--job", "orders"), "spark"),
        (("doctor", "some.log", "--keep", "events"), "doctor"),
        (("demo",), "spark"),
        (("alarm", "test", "--alarm", "mailto://user:password@example.org"), "alarms"),
        (("jobs", "--home", "hdfs://127.0.0.1:1/home"), "hdfs"),
        (("jobs", "--home", "s3://bucket/home?profile=team&region=eu-west-1"), "aws"),
    ],
)
def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    made: Made, command: tuple[str, ...], extra: str
) -> None:
    bare = made()
    (bare.place / "home").mkdir(exist_ok=True)
    (bare.place / "some.log").touch()
    (bare.place / "orders.py").write_text("def orders(spark): ...\n")
    there = (word.replace(HERE, f"file://{bare.place / 'home'}") for word in command)
    ended = bare.run("holdfast", *there, AWS_CONFIG_FILE=aws_config(bare))
    assert ended.returncode in (1, 2), ended.stderr
    assert f"pip install 'holdfast-spark[{extra}]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def aws_config(installed: Environment) -> str:
    """A profile whose credentials another program knows."""
    path = installed.place / "aws-config"
    keys = json.dumps({"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b"})
    path.write_text(f"[profile team]\ncredential_process = echo '{keys}'\n")
    return str(path)


def test_ten_lines_make_an_exact_table(made: Made, home: Path) -> None:
    read = made("spark", "delta").run("python", "-c", TABLE)
    values = list(map(int, read.stdout.split()))
    assert values, read.stderr
    assert values == list(range(len(values)))


def test_without_an_extra_a_home_can_be_read_and_kept(made: Made, home: Path, tmp_path: Path) -> None:
    """Every command that README and docs show, but those that need Spark or a running job, and `top`, which goes on."""
    bare = made()
    where = {"HOLDFAST_HOME": f"file://{home}", "HOLDFAST_JOB": "orders"}
    (tmp_path / "copy").mkdir()
    commands = (
        ("jobs",),
        ("status",),
        ("checkpoints",),
        ("show", "1"),
        ("verify", "--all"),
        ("restore", "--to", str(tmp_path / "restored")),
        ("savepoint", "create", "v2", "--from", "1"),
        ("savepoint", "list"),
        ("savepoint", "delete", "v2"),
        ("collect", "--dry-run"),
        ("copy", "--to", f"file://{tmp_path / 'copy'}"),
        ("doctor",),
        ("events",),
        ("watch", "--once"),
        ("stop",),
        ("rollback", "orders@1"),
        ("init", str(tmp_path / "new")),
        ("protect", str(tmp_path / "restored"), "--job", "protected", "--once"),
        ("--help",),
    )
    assert {command.name for command in every_command()} - {
        "run",
        "demo",
        "top",
        "checkpoint",
        "rescale",
        "prepare",
    } <= {command[0] for command in commands}
    for command in commands:
        ended = bare.run("holdfast", *command, **where)
        assert ended.returncode == 0, f"{command}: {ended.stderr}"
    assert (tmp_path / "restored" / "metadata").exists()
    jobs = json.loads(bare.run("holdfast", "jobs", "--json", **where).stdout)["jobs"]
    assert {job["job"] for job in jobs} == {"orders", "protected"}


def test_the_doctor_reads_logs(made: Made) -> None:
    log = "state-missing-sst-1.18.log"
    installed = made("doctor")
    (installed.place / log).write_bytes((ROOT / "tests" / "doctor" / "cases" / log).read_bytes())
    ended = installed.run("holdfast", "doctor", log, "--json")
    assert ended.returncode == 1, ended.stderr
    assert json.loads(ended.stdout)["findings"]


def test_the_files_sink_writes_parquet(made: Made) -> None:
    installed = made("spark", "files")
    (installed.place / "home").mkdir()
    (installed.place / "readings.py").write_text(FILES)
    ended = installed.run("python", "readings.py")
    assert ended.returncode == 0, ended.stderr
    assert installed.run("python", "-c", PARQUET).stdout.split() == list(map(str, range(10)))


def test_the_command_runs_a_pipeline(made: Made) -> None:
    installed = made("spark", "files")
    home = installed.place / "home of the command"
    home.mkdir()
    (installed.place / "readings.py").write_text(FILES)
    places = ("--home", f"file://{home}", "--sink", f"files:{installed.place / 'again' / 'numbers'}", "--work", "work")
    ended = installed.run("holdfast", "run", "readings.py", "--job", "again", *places, "--trigger", "available-now")
    assert ended.returncode == 0, ended.stderr
    read = installed.run("python", "-c", PARQUET.replace("numbers/", "again/numbers/"))
    assert read.stdout.split() == list(map(str, range(10)))


@pytest.mark.parametrize(
    ("extra", "home"),
    [
        ("hdfs", "hdfs://127.0.0.1:1/home"),
        ("aws", "s3://bucket/home?profile=team&region=eu-west-1&endpoint=http://127.0.0.1:1"),
    ],
)
def test_with_its_extra_a_store_is_asked(made: Made, extra: str, home: str) -> None:
    """Nobody listens there: exit code 6 says that it was tried."""
    installed = made(extra)
    ended = installed.run("holdfast", "jobs", "--home", home, AWS_CONFIG_FILE=aws_config(installed))
    assert ended.returncode == 6, ended.stderr


TRACED = """
from datetime import datetime, UTC
from http.server import BaseHTTPRequestHandler, HTTPServer
import threading
from holdfast.coordination.history import CheckpointRecord
from holdfast.coordination.lifecycle import Phase
from holdfast.monitoring.traces import Traces

class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        print(self.path, len(self.rfile.read(int(self.headers["Content-Length"]))) > 0, flush=True)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_): pass

server = HTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=server.serve_forever, daemon=True).start()
traces = Traces(f"http://127.0.0.1:{server.server_port}", "orders")
phases = ((Phase.STARTING, 1.0),)
record = CheckpointRecord(1, 1, "checkpoint", None, 3, 0.0, 1.0, phases, 1, 1, 1, 1, 1, 1, (), None)
traces.checkpoint(record, datetime.now(UTC))
traces.close(60)
"""


def test_with_its_extra_a_checkpoint_is_a_trace(made: Made) -> None:
    sent = made("traces").run("python", "-c", TRACED)
    assert sent.stdout == "/v1/traces True\n", sent.stderr


def test_without_its_extra_traces_are_refused(made: Made) -> None:
    refused = made().run("python", "-c", "from holdfast.monitoring.traces import Traces; Traces('http://x', 'orders')")
    assert "pip install 'holdfast-spark[traces]'" in refused.stderr
