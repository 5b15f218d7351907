"""The pipelines of README and docs run as they stand there, with places and intervals of the test, and stop well.

Stores, brokers and clusters of which the pages speak are local directories, the rate source and threads here; real ones
are in tests/stores, tests/end_to_end/test_sources.py and tests/cluster.
"""

import re
from pathlib import Path

import pytest
from deltalake import DeltaTable

from holdfast.cli.main import main
from tests.documents import PAGES, ROOT, Block, Command, blocks, every_command
from tests.end_to_end.test_examples import completed_batch, started, stopped, until
from tests.patience import PATIENCE

pytestmark = pytest.mark.long

RUNS = [command for command in every_command() if command.name == "run"]
ASKED = [command for command in every_command() if command.asks_a_running_job]
QUICK = ["--interval", "1s", "--heartbeat", "500ms", "--trigger", "500ms"]
"""A reader has more time."""
PYTHON = [block for page in PAGES for block in blocks(page) if block.language == "python"]
README = next(block.text for block in PYTHON if block.page == ROOT / "README.md")
SNIPPETS = [block for block in PYTHON if block.text != README]
DEFINED = README.partition("if __name__")[0]
AROUND = """
import signal, threading
from pathlib import Path
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
home = "file:///var/lib/holdfast"
pipelines = {"orders": orders, "refunds": orders}
jobs = []

def merge_by_customer(batch, number):
    batch.write.mode("overwrite").json("/data/merged")

def stop_all(*_):
    threading.Thread(target=lambda: [job.stop() for job in jobs]).start()

signal.signal(signal.SIGTERM, stop_all)
"""
"""What the pages take for granted beside the README's first pipeline."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOLDFAST_HOME", f"file://{tmp_path / 'home'}")
    monkeypatch.setenv("HOLDFAST_JOB", "orders")
    return tmp_path


def with_places(code: str, place: Path) -> str:
    code = code.replace("file:///var/lib/holdfast", f"file://{place / 'home'}").replace("/data/", f"{place}/data/")
    code = re.sub(r'format\("kafka"\).*?\.load', 'format("rate").load', code)
    code = code.replace('format("delta")', 'format("parquet")')
    code = code.replace("s3://bucket/holdfast", f"file://{place / 'home'}").replace("s3a://bucket/", f"{place}/data/")
    return code.replace('interval="10s"', 'interval="1s"')


def require_every_row_once(table: Path) -> None:
    values = sorted(DeltaTable(str(table)).to_pyarrow_table()["value"].to_pylist())
    assert values
    assert values == list(range(len(values)))


def test_the_first_pipeline_of_the_readme_makes_an_exact_table(place: Path) -> None:
    (place / "orders.py").write_text(with_places(README, place))
    with started(place, str(place / "orders.py")) as process:
        until(lambda: completed_batch(place / "home", "orders") >= 1, process, place)
        assert stopped(process) == 0, (place / "log").read_text()
    require_every_row_once(place / "data" / "orders")


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda block: block.page.name)
def test_a_snippet_runs_and_its_jobs_are_checkpointed(snippet: Block, place: Path) -> None:
    (place / "snippet.py").write_text(with_places(f"{DEFINED}\n{AROUND}\n{snippet.text}", place))
    with started(place, str(place / "snippet.py")) as process:
        jobs = re.findall(r'job="(\w+)"', snippet.text) or ["orders", "refunds"]
        until(lambda: len(list((place / "data").rglob("commits/0"))) == len(jobs), process, place)
        assert stopped(process) == 0, (place / "log").read_text()
    assert all(completed_batch(place / "home", job) >= 0 for job in jobs), (place / "log").read_text()


def test_every_run_of_the_docs_goes_on_with_the_same_job(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stopped by the commands that the docs have for it, as long as there are some."""
    for name in ("orders.py", "pipeline.py"):
        (place / name).write_text(DEFINED)
    ends = (command for command in ASKED if command.stops_a_job)
    asks = [command for command in ASKED if not command.stops_a_job]
    for command in sorted(RUNS, key=lambda command: "--from-savepoint" in command.line):
        before = completed_batch(place / "home", "orders")
        arguments = arguments_of(command, place)
        with started(place, "-m", "holdfast.cli", *arguments, *QUICK) as process:
            until(lambda: completed_batch(place / "home", "orders") > before, process, place)  # noqa: B023
            while asks:
                ask(asks.pop(), capsys)
            end = next(ends, None)
            if end is None:
                assert stopped(process) == 0, (place / "log").read_text()
            else:
                ask(end, capsys)
                assert process.wait(PATIENCE) == 0
    require_every_row_once(place / "data" / "orders")
    assert next(ends, None) is None, "a command that no run was stopped by"


def arguments_of(command: Command, place: Path) -> list[str]:
    home = f"file://{place / 'home'}"
    return command.words(
        {
            "(pipeline|orders).py": rf"{place}/\1.py --job orders",
            "URL": home,
            "(file:///var/lib|s3://bucket|hdfs://namenode:8020)/holdfast": home,
            "--work (/mnt/shared/holdfast|hdfs://namenode:8020/work|s3a://bucket/work)": f"--work {place / 'work'}",
            "spark://master:7077": "local[2]",
            "delta:(/data|/mnt/shared)/orders": f"delta:{place / 'data' / 'orders'}",
        }
    )


def ask(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    words = command.words({"NAME": "another"})
    if words[0] == "savepoint":
        main(["savepoint", "delete", words[2]])  # one of the others may have taken the name
    assert main(words) == 0, capsys.readouterr().err
