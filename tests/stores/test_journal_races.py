"""Processes that race for one journal on a real store: one linear history, and every attempt known as won or lost."""

import json
import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.repository.entries import AnyEntry, RunStarted
from holdfast.repository.journal import read_entries
from holdfast.storage.urls import open_store
from tests.stores.cutting_proxy import Fate, cutting_proxy
from tests.stores.hdfs_server import HdfsServer
from tests.stores.racer import JOB

ENTRIES = 1000
ENTRIES_OVER_A_BAD_LINE = 150
RACERS = 2


@dataclass(frozen=True)
class Raced:
    history: list[AnyEntry]
    reports: list[dict[str, Any]]

    @property
    def lost(self) -> int:
        return sum(len(report["lost"]) for report in self.reports)

    def require_one_linear_history(self) -> None:
        assert [entry.sequence for entry in self.history] == list(range(1, len(self.history) + 1)), "a gap, or no order"
        owner = None
        for entry in self.history:
            owner = entry.sequence if isinstance(entry, RunStarted) else owner
            assert entry.fencing_epoch == owner, f"entry {entry.sequence} was appended by a run that was fenced"

    def require_every_attempt_known(self) -> None:
        standing = Counter(entry.attempt for entry in self.history)
        won = Counter(attempt for report in self.reports for attempt in report["won"])
        assert standing == won, "an entry is there that nobody knows as won, or one is missing or doubled"
        assert set(standing.values()) == {1}
        assert not standing.keys() & {attempt for report in self.reports for attempt in report["lost"]}


def race(home: str, entries: int, look_at: str | None = None) -> Raced:
    command = [sys.executable, "-m", "tests.stores.racer", home, str(entries)]
    racers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(RACERS)
    ]
    try:
        for racer in racers:
            assert racer.stdout.readline() == "ready\n"
        begun = time.monotonic()
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        reports = [json.loads(racer.communicate()[0]) for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    raced = Raced(list(read_entries(open_store(look_at or home).scoped(JOB))), reports)
    seconds = time.monotonic() - begun
    owners = sum(isinstance(entry, RunStarted) for entry in raced.history)
    print(f"{len(raced.history)} entries, {owners} owners, {raced.lost} lost attempts, {seconds:.1f} s")  # noqa: T201
    return raced


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["local", "hdfs"])
def test_two_processes_race_a_thousand_appends(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    home = {"local": lambda: f"file://{tmp_path}", "hdfs": lambda: home_on_hdfs(request.getfixturevalue("hdfs"))}[
        kind
    ]()
    raced = race(home, ENTRIES)
    raced.require_one_linear_history()
    raced.require_every_attempt_known()
    assert ENTRIES <= len(raced.history) <= ENTRIES + RACERS
    assert raced.lost > 20, "they hardly met"
    assert all(len(report["won"]) > 20 for report in raced.reports), "one of them hardly took part"


@pytest.mark.timeout(300)
def test_answers_are_dropped_on_hdfs(hdfs: HdfsServer) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    with cutting_proxy(hdfs.port, rb"rename2", seed) as proxy:
        home = home_on_hdfs(hdfs)
        raced = race(home.replace(f":{hdfs.port}", f":{proxy.port}"), ENTRIES_OVER_A_BAD_LINE, look_at=home)
    print(f"seed {seed}: {dict(proxy.fates)}")  # noqa: T201
    raced.require_one_linear_history()
    raced.require_every_attempt_known()
    assert proxy.fates[Fate.ANSWER_DROPPED] > 10
    assert proxy.fates[Fate.NEVER_ARRIVES] > 5


def home_on_hdfs(server: HdfsServer) -> str:
    return f"{server.address}/{uuid.uuid4().hex[:12]}"
