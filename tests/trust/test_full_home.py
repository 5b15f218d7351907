"""R13: a full home can be freed. The home is a small file system of its own, really full; only root may mount it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import Retention
from holdfast.repository.reserve import KEY, keep_reserve
from holdfast.storage.local import LocalStore
from tests.end_to_end.test_home_in_trouble import fill
from tests.unit.churning_runs import needed_keys, state_of, stored_keys
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.work_files import write

KEPT = Retention(retained=1)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    home.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(home)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a file system cannot be mounted here: {error}")
    try:
        yield home
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True)


def ended_job(home: Path, tmp_path: Path, *, retired: bool = False) -> History:
    """Three checkpoints, of which one is to be kept."""
    history = History(home, job="churn")
    blobs = Blobs(history.store, history.run(retention=KEPT))
    for id in (1, 2, 3):
        write(tmp_path / "work", {"commits/12": f"v1\n{id}".encode(), "state/0/0/1.delta": bytes([id]) * 200_000})
        complete_with_bytes(history, id, tmp_path / "work", blobs)
    if retired:
        history.retire(1, 2)
    history.end()
    return history


def collect(home: Path) -> int:
    return main(["collect", "--home", str(home), "--job", "churn", "--on-conflict", "takeover"])


def test_a_full_home_is_freed_by_its_reserve(home: Path, tmp_path: Path) -> None:
    history = ended_job(home, tmp_path)
    keep_reserve(history.store)
    ballast = fill(home)
    assert collect(home) == 0
    assert [entry.id for entry in state_of(home).retained()] == [3]
    assert stored_keys(home) == needed_keys(home)
    assert history.store.exists(KEY), "it is there for the next time"
    ballast.unlink()


def test_without_a_reserve_what_needs_no_entry_goes_first(home: Path, tmp_path: Path) -> None:
    """A home of a version before there were reserves."""
    ended_job(home, tmp_path, retired=True)
    fill(home)
    assert collect(home) == 0
    assert [entry.id for entry in state_of(home).retained()] == [3]
    assert stored_keys(home) == needed_keys(home)


def test_with_neither_it_says_that_there_is_no_space(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = ended_job(home, tmp_path)
    before = stored_keys(home)
    fill(home)
    assert collect(home) == 6
    assert "space" in capsys.readouterr().err
    assert stored_keys(home) >= before, "what needs an entry to be freed stays"
    assert len(history.state().retained()) == 3


def test_an_owner_keeps_a_reserve(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    keep_reserve(store)
    size = (tmp_path / KEY).stat()
    keep_reserve(store)
    assert (tmp_path / KEY).stat().st_mtime_ns == size.st_mtime_ns, "written once"
