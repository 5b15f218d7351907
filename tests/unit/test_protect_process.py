"""`holdfast protect` as a process: it waits for its query, ends with a last checkpoint, reads from S3."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.cli.adopt import above
from holdfast.cli.main import main
from holdfast.errors import InvalidSettings
from holdfast.storage.urls import open_store
from tests.patience import PATIENCE
from tests.stores.s3 import s3_server
from tests.unit.churning_runs import ChurningQuery, state_of
from tests.unit.work_files import tree, write

METADATA = b'{"id":"%s"}'
QUERY = b"00000000-0000-4000-8000-000000000000"


@pytest.fixture
def query(tmp_path: Path) -> ChurningQuery:
    (tmp_path / "home").mkdir()
    made = ChurningQuery(3)
    made.directory = tmp_path / "cp"
    return made


def begin(query: ChurningQuery, batches: int, name: bytes = QUERY) -> None:
    write(query.directory, {"metadata": METADATA % name})
    for _ in range(batches):
        query.batch()


@contextmanager
def protecting(root: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "holdfast.cli", "protect", str(root / "cp"), "--home", f"file://{root / 'home'}"]
    options = ["--job", "churn", "--interval", "500ms", "--heartbeat", "500ms"]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    ends = time.monotonic() + PATIENCE
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends
        time.sleep(0.02)


def barriers(root: Path) -> list[int]:
    return [entry.barrier_batch_id for entry in state_of(root / "home").completed.values()]


def test_it_may_be_started_before_the_query_and_ends_with_a_last_checkpoint(
    query: ChurningQuery, tmp_path: Path
) -> None:
    with protecting(tmp_path) as process:
        assert process.stderr is not None
        assert "waiting for a committed batch" in process.stderr.readline()
        begin(query, 2)
        wait_for(lambda: barriers(tmp_path) == [1], process)
        query.batch()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert barriers(tmp_path)[-1] == 2
    assert "holds" in out
    assert "at batch 2" in out
    assert "Traceback" not in err
    assert state_of(tmp_path / "home").ended is not None


def test_another_query_in_the_directory_ends_it_with_code_2(query: ChurningQuery, tmp_path: Path) -> None:
    begin(query, 2)
    with protecting(tmp_path) as process:
        wait_for(lambda: barriers(tmp_path) == [1], process)
        begin(query, 3, b"11111111-0000-4000-8000-000000000000")
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2, err
    assert "holdfast: could not protect" in err
    assert "Try: protect it under a name of its own: --job NAME" in err
    assert barriers(tmp_path) == [1]


def test_once_takes_one_and_nothing_new_takes_none(
    query: ChurningQuery, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["protect", str(query.directory), "--home", f"file://{tmp_path / 'home'}", "--job", "churn", "--once"]
    assert main(command) == 3
    begin(query, 2)
    assert main(command) == 0
    capsys.readouterr()
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) | {"location": ""} == {
        "job": "churn",
        "home": f"file://{tmp_path / 'home'}",
        "location": "",
        "checkpoint": 1,
        "barrier_batch_id": 1,
    }
    assert barriers(tmp_path) == [1]


def test_a_directory_on_an_object_store(
    query: ChurningQuery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(query, 3)
    with s3_server(tmp_path / "s3") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        url, mark, options = server.home("churn").replace("s3://", "s3a://").partition("?")
        store = open_store(f"{url}{mark}{options}").scoped("cp")
        for path, data in tree(query.directory).items():
            store.put(path, data)
        before = {item.key: item.modified_at for item in store.list("")}
        home = ["--home", f"file://{tmp_path / 'home'}", "--job", "churn"]
        assert main(["protect", f"{url}/cp{mark}{options}", *home, "--once"]) == 0, capsys.readouterr().err
        assert {item.key: item.modified_at for item in store.list("")} == before, "it was only read"
    assert main(["restore", "churn", str(tmp_path / "restored"), *home]) == 0
    restored = tree(tmp_path / "restored")
    assert restored.items() <= tree(query.directory).items()
    assert {"metadata", "offsets/2", "commits/2"} <= restored.keys()


def test_stopped_before_it_has_begun_it_still_says_one_document(query: ChurningQuery, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast.cli", "protect", str(tmp_path / "cp"), "--json"]
    options = ["--home", str(tmp_path / "home"), "--job", "churn"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "waiting for a committed batch" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "holdfast: stopped before the job was changed\n")
    assert json.loads(out)["checkpoint"] is None


@pytest.mark.parametrize("command", ["protect", "adopt"])
def test_a_variable_that_is_not_set_is_not_the_current_directory(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `${CHECKPOINT_LOCATION}` of the systemd unit."""
    assert main([command, "", "--home", str(tmp_path), "--job", "churn"]) == 2
    assert "it is empty, but must name a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("location", "parent"),
    [
        ("/cp", "/"),
        ("file:///cp", "file:///"),
        ("/data/cp", "/data"),
        ("s3a://bucket/cp?region=x", "s3a://bucket?region=x"),
    ],
)
def test_a_volume_may_be_mounted_at_the_top(location: str, parent: str) -> None:
    assert above("protect", location) == parent


@pytest.mark.parametrize("location", ["/", "s3a://bucket", "file:///"])
def test_what_has_nothing_above_it_is_not_one_query(location: str) -> None:
    with pytest.raises(InvalidSettings, match="it is not the checkpoint directory of one query"):
        above("protect", location)
