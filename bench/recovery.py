"""From `kill -9` to the first new batch: plain Spark on the directory it left, the same with the quicker way of writing
files that holdfast chooses, holdfast on the directory it left, and holdfast from its home where the disk is empty.

The clock starts with the process of the next life, which is what a supervisor that restarts at once gives it, and stops
when Spark reports the first batch. Each life is killed then. The ways take turns, and who goes first changes from round
to round.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from bench import processor
from bench.driver import Driver
from bench.ratio import Ratio
from bench.recovery_life import BYTES_PER_KEY, Life
from bench.rounds import DISTURBED

Way = Literal["plain", "tuned", "local", "home"]
WAYS: tuple[Way, ...] = ("plain", "tuned", "local", "home")
EXPECTED_LOCAL = 1.1

_SMALL_BATCH = 1000


@dataclass(frozen=True)
class Recoveries:
    """Seconds from the kill to the first new batch, by way and round."""

    state_bytes: int
    """What lies in the directory of plain Spark."""
    seconds: dict[Way, tuple[float, ...]]
    others: float
    """Cores that other programs kept busy in the round that they disturbed most."""

    def ratio(self, way: Way, other: Way, title: str, expected: float | None = None) -> Ratio:
        value = median(self.seconds[way]) / median(self.seconds[other])
        return Ratio(f"kill to batch, {title}", value, False, expected, self.others > DISTURBED)


def measure(place: Path, megabytes: int, rounds: int, tell: Callable[[str], None]) -> Recoveries:
    places: dict[Way, Path] = {way: place / f"{megabytes}-{way}" for way in WAYS}
    for way, folder in places.items():
        tell(f"recovery: {megabytes} MB of state, building: {way}")
        folder.mkdir(parents=True)
        _build(way, folder, (megabytes << 20) // BYTES_PER_KEY)
    seconds: dict[Way, list[float]] = {way: [] for way in WAYS}
    others = 0.0
    for number in range(rounds):
        order = [*WAYS[number % len(WAYS) :], *WAYS[: number % len(WAYS)]]
        for way in order:
            tell(f"recovery: {megabytes} MB of state, round {number + 1} of {rounds}: {way}")
            took, disturbed = _recovered(way, places[way])
            seconds[way].append(took)
            others = max(others, disturbed)
    size = _size(places["plain"] / "checkpoint" / "state")
    for folder in places.values():
        shutil.rmtree(folder, ignore_errors=True)
    return Recoveries(size, {way: tuple(values) for way, values in seconds.items()}, others)


def ratios(measured: Sequence[Recoveries]) -> Iterator[Ratio]:
    for size in measured:
        name = f"{size.state_bytes / (1 << 20):.0f} MB"
        yield size.ratio("local", "plain", f"local, {name}: plain", EXPECTED_LOCAL)
        yield size.ratio("local", "tuned", f"local, {name}: plain, tuned")
        yield size.ratio("home", "plain", f"from home, {name}: plain")


def _build(way: Way, place: Path, rows: int) -> None:
    """One batch with all of the state; under holdfast it is in a checkpoint. Then the life is killed."""
    life = Life(_variant(way), str(place), rows, growing=True)
    with Driver(life.place, "bench.recovery_life", life) as driver:
        driver.wait_for("checkpoint" if life.variant == "holdfast" else "batch")


def _recovered(way: Way, place: Path) -> tuple[float, float]:
    """Seconds, and the cores that other programs kept busy meanwhile."""
    shutil.rmtree(place / "local", ignore_errors=True)  # what Spark keeps outside of its checkpoint
    if way == "home":
        shutil.rmtree(place / "work")
    os.sync()
    begun, before = time.perf_counter(), processor.now()
    with Driver(str(place), "bench.recovery_life", Life(_variant(way), str(place), _SMALL_BATCH)) as driver:
        driver.wait_for("batch")
        took = time.perf_counter() - begun
        # Before the kill: the JVM's time is lost with it.
        return took, processor.others_between(before, processor.now())


def _variant(way: Way) -> Literal["plain", "tuned", "holdfast"]:
    return "holdfast" if way in ("local", "home") else way


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.sst"))
