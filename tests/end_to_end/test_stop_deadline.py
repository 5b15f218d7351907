"""A stop ends within its deadline whatever hangs, names it, and the next start is exact. Five to ten seconds each.

The next thing that can hang has its place in `CASES`. Those that are like another one are `LIKE_ANOTHER`.
"""

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.coordination.coordinator import FAILING
from tests.end_to_end.freezable_disk import FreezableDisk, freezable_disk
from tests.end_to_end.harness import Driver, Pipeline
from tests.patience import PATIENCE
from tests.stores.proxy import Fate, Proxy, Seen, proxy_to
from tests.stores.s3 import S3Server, s3_server

LIMIT = "2s"
OVERDUE, CLEAN = {1}, {0}


@dataclass
class Place:
    """Where a case happens: a directory, and a server whose answers can be held back."""

    root: Path
    server: S3Server
    proxy: Proxy
    held: threading.Event = field(default_factory=threading.Event)

    def pipeline(self, *, on_a_server: bool = False) -> Pipeline:
        home = self.server.home(self.root.name, self.proxy.endpoint) if on_a_server else None
        return Pipeline(self.root, files=12, home_url=home)

    def freeze(self, which: Callable[[Seen], bool] = lambda seen: True) -> None:
        """From the first such request on none is answered."""

        def judge(seen: Seen) -> Fate:
            if which(seen):
                self.held.set()
            return Fate.HOLD if self.held.is_set() else Fate.PASS

        self.proxy.judge = judge

    def thaw(self) -> None:
        self.proxy.judge = lambda seen: Fate.PASS
        self.proxy.release()
        if (away := self.root / "away").exists():
            away.rename(self.root / "home")


@dataclass(frozen=True)
class Case:
    begin: Callable[[Place, Pipeline], Driver]
    """From its start to the moment at which it is asked to stop."""
    codes: set[int]
    said: str = ""
    """In its last line."""
    logged: str = ""
    on_a_server: bool = False
    signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)


def hanging(step: str, limit: str = LIMIT) -> Callable[[Place, Pipeline], Driver]:
    """The thread that reaches the step never goes on."""

    def begin(place: Place, pipeline: Pipeline) -> Driver:
        driver = pipeline.start(hang_at=step, stop_timeout=limit, timeout="60s")
        driver.wait_for(f"hangs {step.partition(':')[0]}")
        return driver

    return begin


def home_freezes(place: Place, pipeline: Pipeline) -> Driver:
    driver = pipeline.start(stop_timeout=LIMIT, timeout="60s", storage_deadline="10m")
    driver.wait_for("step publish.done", times=2)
    place.freeze()
    assert place.held.wait(PATIENCE)
    return driver


def home_freezes_before_the_claim(place: Place, pipeline: Pipeline) -> Driver:
    """While the files that describe the query are fetched to a temporary directory."""
    run_and_lose_its_work(pipeline)
    place.freeze(lambda seen: seen.method == "GET" and "/packs/" in seen.path)
    driver = pipeline.start(stop_timeout=LIMIT, storage_deadline="10m")
    assert place.held.wait(PATIENCE)
    return driver


def run_and_lose_its_work(pipeline: Pipeline) -> None:
    first = pipeline.start()
    first.wait_for("step publish.done", times=2)
    pipeline.stop(first)
    pipeline.wipe_work()


def home_freezes_in_a_restore(place: Place, pipeline: Pipeline) -> Driver:
    run_and_lose_its_work(pipeline)
    claimed = threading.Event()

    def is_of_the_restore(seen: Seen) -> bool:
        """Before the claim only the files that describe the query are fetched."""
        if seen.method == "PUT" and "/journal/" in seen.path:
            claimed.set()
        return claimed.is_set() and seen.method == "GET" and "/packs/" in seen.path

    place.freeze(is_of_the_restore)
    driver = pipeline.start(stop_timeout=LIMIT, storage_deadline="10m")
    assert place.held.wait(PATIENCE)
    return driver


def home_goes(place: Place, pipeline: Pipeline) -> Driver:
    """Somebody unmounts it."""
    driver = pipeline.start(stop_timeout=LIMIT, tolerable_failures=0)
    driver.wait_for("step publish.done", times=2)
    pipeline.home.rename(place.root / "away")
    driver.wait_for(f"alarm {FAILING} on")
    return driver


def server_goes(place: Place, pipeline: Pipeline) -> Driver:
    driver = pipeline.start(stop_timeout=LIMIT, tolerable_failures=0, storage_deadline="200ms")
    driver.wait_for("step publish.done", times=2)
    place.proxy.judge = lambda seen: Fate.LOSE_REQUEST
    driver.wait_for(f"alarm {FAILING} on")
    return driver


def alarm_hangs(place: Place, pipeline: Pipeline) -> Driver:
    """Whoever was told that the home was away has not come back since."""
    driver = pipeline.start(alarms_hang=True, stop_timeout="10m", tolerable_failures=0)
    driver.wait_for("step publish.done", times=2)
    pipeline.home.rename(place.root / "away")
    driver.wait_for(f"alarm {FAILING} on")
    place.thaw()
    driver.wait_for("step publish.done")
    return driver


def jvm_is_killed(place: Place, pipeline: Pipeline) -> Driver:
    """A moment before the stop, while batches run."""
    driver = pipeline.start(own_jvm=True, stop_timeout="5m")
    driver.wait_for("step publish.done", times=2)
    (jvm,) = children(driver.process.pid)
    subprocess.run(["kill", "-KILL", jvm], check=True)
    return driver


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


CASES = {
    "first batch": Case(hanging("batch.begin:1"), OVERDUE, "starting or stopping the query"),
    "stage": Case(hanging("written:3"), OVERDUE, "starting or stopping the query"),
    "publish": Case(hanging("publish.begin:2"), OVERDUE, "publishing to the sink"),
    "journal": Case(hanging("checkpoint.manifest:2"), OVERDUE, "a write to the journal"),
    "copy": Case(hanging("checkpoint.planned:2"), OVERDUE, "copying to the home"),
    "start of the sink": Case(hanging("recovery.directory:1", limit="10m"), CLEAN, "stopped while it started"),
    "home frozen": Case(home_freezes, OVERDUE, "unfinished: ", on_a_server=True),
    "home frozen before the claim": Case(
        home_freezes_before_the_claim, OVERDUE, logged="unfinished: comparing the query", on_a_server=True
    ),
    "home frozen in a restore": Case(
        home_freezes_in_a_restore, OVERDUE, logged="unfinished: restoring checkpoint", on_a_server=True
    ),
    "home gone": Case(home_goes, {1, 6}),
    "server gone": Case(server_goes, {1, 6}, on_a_server=True),
    "alarm": Case(alarm_hangs, CLEAN),
    "JVM killed": Case(jvm_is_killed, {0, 1}),
    "signalled twice": Case(
        hanging("batch.begin:3", limit="1h"),
        {-signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGINT},
        signals=(signal.SIGTERM, signal.SIGINT),
    ),
}
LIKE_ANOTHER = ("journal", "copy", "start of the sink", "home frozen before the claim", "server gone", "stage")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server, pytest.MonkeyPatch.context() as environment:
        for name, value in server.environment.items():
            environment.setenv(name, value)
        yield server


@pytest.fixture
def place(tmp_path: Path, server: S3Server) -> Iterator[Place]:
    with proxy_to(server.endpoint) as proxy:
        yield Place(tmp_path, server, proxy)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in LIKE_ANOTHER else []) for name in CASES]
)
def test_it_ends_and_the_next_run_is_exact(place: Place, name: str) -> None:
    case = CASES[name]
    pipeline = place.pipeline(on_a_server=case.on_a_server)
    driver = case.begin(place, pipeline)

    for number in case.signals:
        driver.send(number)
    code, last = driver.end()

    assert code in case.codes, last
    assert case.said in last
    assert case.logged in pipeline.log.read_text()
    place.thaw()
    pipeline.require_nothing_wrong()
    pipeline.finish()
    pipeline.require_exact()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FreezableDisk]:
    with freezable_disk(tmp_path) as disk:
        yield disk


def test_a_frozen_disk_is_named_and_the_next_run_is_exact(tmp_path: Path, disk: FreezableDisk) -> None:
    """The kernel lets a process whose thread waits for a disk go only when that answers: the words come before."""
    (disk.place / "home").mkdir()
    pipeline = Pipeline(tmp_path, files=12, home_url=f"file://{disk.place}/home")
    driver = pipeline.start(stop_timeout=LIMIT, timeout="60s", storage_deadline="10m")
    driver.wait_for("step publish.done", times=2)
    with disk.frozen():
        driver.send(signal.SIGTERM)
        assert "unfinished: " in driver.next_starting("error ")
    assert driver.end()[0] in OVERDUE
    pipeline.require_nothing_wrong()
    pipeline.finish()
    pipeline.require_exact()
