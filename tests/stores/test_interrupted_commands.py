"""SIGTERM and Ctrl-C to a command whose home has stopped answering: it ends, says one line, leaves nothing half-made,
and does its work when it is called again.

The next command that reads or writes has its place in `_COMMANDS`.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.identifiers import FencingEpoch
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import Retention
from holdfast.storage.interface import ObjectStore
from holdfast.storage.local import LocalStore
from holdfast.storage.urls import open_store
from tests.patience import PATIENCE
from tests.stores.proxy import Fate, Proxy, Seen, proxy_to
from tests.stores.s3 import S3Server
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.work_files import write


@dataclass(frozen=True)
class Case:
    arguments: str
    method: str
    folder: str
    """Such a request to something below that folder is the first that is not answered."""

    def is_held(self, seen: Seen) -> bool:
        return seen.method == self.method and f"/{self.folder}/" in seen.path


_COMMANDS = {
    "restore": Case("restore --home {home} --to {here}/restored", "GET", "packs"),
    "verify": Case("verify --home {home} --all", "GET", "packs"),
    "copy": Case("copy --home {home} --to {other} --all", "PUT", "packs"),
    "collect": Case("collect --home {home} --retained 1 --grace 0s", "DELETE", "packs"),
    "savepoint": Case("savepoint create before-upgrade --home {home} --from 2", "PUT", "journal"),
    "status": Case("status --home {home}", "GET", "journal"),
}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a job that has ended, with two checkpoints that have bytes."""
    root = tmp_path_factory.mktemp("job")
    history = History(root / "home")
    history.run(retention=Retention(retained=2))
    for id in (1, 2):
        write(root / "work", {"metadata": b"{}", f"state/0/0/{id}.delta": os.urandom(5000)})
        assert isinstance(history.store, LocalStore)
        complete_with_bytes(history, id, root / "work", Blobs(history.store, FencingEpoch(id)))
    history.end()
    return root / "home"


@pytest.fixture(scope="module")
def proxy(s3: S3Server) -> Iterator[Proxy]:
    with proxy_to(s3.endpoint) as proxy:
        yield proxy


@pytest.fixture
def places(job: Path, s3: S3Server, proxy: Proxy, tmp_path: Path) -> dict[str, str]:
    """The same home in the bucket, for this test alone; another one to copy to; and a directory."""
    home, other = (f"{tmp_path.name}/{name}" for name in ("home", "other"))
    target: ObjectStore = open_store(s3.home(home))
    source = LocalStore(job)
    for item in source.list(""):
        target.put(item.key, source.get(item.key))
    return {
        "home": s3.home(home, proxy.endpoint),
        "other": s3.home(other, proxy.endpoint),
        "here": str(tmp_path),
    }


def started(case: Case, places: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "holdfast.cli", *case.arguments.format(**places).split(), "--job", "orders"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("name", "number"), [*((name, signal.SIGTERM) for name in _COMMANDS), ("restore", signal.SIGINT)]
)
def test_it_ends_and_can_be_repeated(
    name: str, number: signal.Signals, places: dict[str, str], proxy: Proxy, tmp_path: Path
) -> None:
    case, held = _COMMANDS[name], threading.Event()

    def judge(seen: Seen) -> Fate:
        if case.is_held(seen):
            held.set()
        return Fate.HOLD if held.is_set() else Fate.PASS

    proxy.judge = judge
    try:
        with started(case, places) as process:
            assert held.wait(PATIENCE)
            process.send_signal(number)
            out, said = process.communicate(timeout=PATIENCE)
    finally:
        proxy.judge = lambda seen: Fate.PASS
        proxy.release()

    assert process.returncode == 128 + number, said
    assert (out, said) == ("", "holdfast: interrupted\n")
    assert os.listdir(tmp_path) == []

    with started(case, places) as again:
        _, said = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, said
    shutil.rmtree(tmp_path / "restored", ignore_errors=True)
