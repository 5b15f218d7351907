"""Each command of README and docs that needs no Spark ends as they say, on a home with a job that has ended.

Others: tests/spark/test_documented_logs.py, tests/spark/test_protect.py,
tests/end_to_end/test_documented_runs.py.
"""

import shutil
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.repository.blobs import Blobs
from tests.documents import Command, every_command
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.work_files import write

COMMANDS = [
    command
    for command in every_command()
    if command.name not in ("run", "demo", "rescale", "protect")
    and not command.asks_a_running_job
    and not command.reads_logs
]
WELL_WHILE_IT_RUNS = {"--running", "--live"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints 40 to 42, the oldest one a savepoint."""
    root = tmp_path_factory.mktemp("documented")
    history = History(root / "home")
    work = root / "work" / "1-1"
    blobs = Blobs(history.store, history.run())
    write(work, {"metadata": b'{"id":"1"}', "offsets/12": b"offsets", "commits/12": b"commits"})
    complete_with_bytes(history, 40, work, blobs, name="before-upgrade")
    for id in (41, 42):
        history.wait(60)
        write(work, {f"state/0/0/{id}.delta": b"more"})
        complete_with_bytes(history, id, work, blobs)
    history.end()
    return history.home


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_it_ends_as_it_is_documented(
    command: Command, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    shutil.copytree(made, home)
    other.mkdir()
    monkeypatch.setenv("HOLDFAST_HOME", f"file://{home}")
    monkeypatch.setenv("HOLDFAST_JOB", "orders")
    places = {
        "--home URL": f"--home file://{home}",
        "file:///var/lib/holdfast": f"file://{home}",
        "--to (URL|s3://[a-z/]+)": f"--to file://{other}",
        "--job NAME": "--job orders",
        "NAME": "before-upgrade",
        "DIR": str(tmp_path / "directory"),
    }
    words = command.words(places)
    assert main(words) == (1 if WELL_WHILE_IT_RUNS & {*words} else 0), capsys.readouterr().err
