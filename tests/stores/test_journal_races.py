"""Processes that race for one journal on a real store: one linear history, and every attempt known as won or lost."""

import json
import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.repository.entries import AnyEntry, RunStarted
from holdfast.repository.journal import read_entries
from holdfast.storage.urls import open_store
from tests.stores.cutting_proxy import Fate, by_chance, cutting_proxy
from tests.stores.racer import JOB, LONGEST

ENTRIES = 1000
ENTRIES_OVER_A_BAD_LINE = 150
RACERS = 2
CONDITIONAL = {
    "s3": rb"if-none-match: \*",
    "gcs": rb"x-goog-if-generation-match: 0|ifGenerationMatch=0",
    "azure": rb"if-none-match: \*",
}
"""Servers that speak HTTP, by the name of their fixture, and the header that makes a PUT conditional."""
REMOTE = ("s3", "gcs", "azure", "hdfs")
"""There a shorter race over a bad line shows the same; the long one is run by `make long`."""


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


def meetings(entries: int) -> int:
    """So many times all of them claim before there can be that many entries."""
    return entries // (RACERS * LONGEST)


def race(home: str, entries: int, look_at: str | None = None) -> Raced:
    command = [sys.executable, "-m", "tests.stores.racer", home, str(entries), str(meetings(entries))]
    racers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(RACERS)
    ]
    try:
        begun = time.monotonic()
        for _ in range(meetings(entries)):
            for racer in racers:
                assert racer.stdout.readline() == "ready\n"
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


@dataclass(frozen=True)
class Place:
    """A new home on a real server."""

    home: str
    port: int
    through: Callable[[int], str]
    """The same home as it is reached through a proxy on that port."""
    deciding: bytes
    """What the request that creates an entry looks like on the wire."""


def place(kind: str, request: pytest.FixtureRequest) -> Place:
    server, name = request.getfixturevalue(kind), f"races/{uuid.uuid4().hex[:12]}"
    if kind == "hdfs":
        return Place(
            f"{server.address}/{name}", server.port, lambda port: f"hdfs://127.0.0.1:{port}/{name}", rb"rename2"
        )
    port = urlsplit(server.endpoint).port
    proxied = lambda other: server.endpoint.replace(f":{port}", f":{other}")  # noqa: E731
    return Place(server.home(name), port, lambda other: server.home(name, proxied(other)), CONDITIONAL[kind])


@pytest.mark.parametrize("kind", ["local", *(pytest.param(kind, marks=pytest.mark.long) for kind in REMOTE)])
def test_two_processes_race_a_thousand_appends(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    home = f"file://{tmp_path}" if kind == "local" else place(kind, request).home
    raced = race(home, ENTRIES)
    raced.require_one_linear_history()
    raced.require_every_attempt_known()
    assert ENTRIES <= len(raced.history) <= ENTRIES + RACERS
    assert raced.lost >= meetings(ENTRIES), "of those who want the same place one gets it"
    assert all(report["won"] for report in raced.reports), "one of them won nothing"


@pytest.mark.parametrize("kind", [*CONDITIONAL, "hdfs"])
def test_requests_and_answers_are_lost_while_they_race(kind: str, request: pytest.FixtureRequest) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    there = place(kind, request)
    with cutting_proxy(there.port, there.deciding, by_chance(seed)) as proxy:
        raced = race(there.through(proxy.port), ENTRIES_OVER_A_BAD_LINE, look_at=there.home)
    print(f"seed {seed}: {dict(proxy.fates)}")  # noqa: T201
    raced.require_one_linear_history()
    raced.require_every_attempt_known()
    assert proxy.fates[Fate.ANSWER_DROPPED] > 10
    assert proxy.fates[Fate.NEVER_ARRIVES] > 5
