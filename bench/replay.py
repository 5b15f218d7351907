"""How fast planned batches are repeated, and whether a recovery stays within its target: a disk is lost twice.

The first life builds the state and takes a checkpoint. The second runs batches without another one, and is killed and
wiped: the third repeats them all. That one takes checkpoints as `recovery_target` wants them, and is killed and wiped
when the first of these begins, which is the worst moment: the fourth recovers from there. What counts for the target is
the time from the call of holdfast, in a session that exists, to the first new batch.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import processor
from bench.driver import Driver
from bench.ratio import Ratio
from bench.recovery_life import BYTES_PER_KEY
from bench.replay_life import Life
from bench.rounds import DISTURBED

TARGET_S = 60.0
_BATCHES = 15
"""That are repeated the first time."""
_SMALL_BATCH = 1000
_MODULE = "bench.replay_life"


@dataclass(frozen=True)
class Replay:
    megabytes: int
    """Of state in the checkpoint; a batch adds one."""
    ran_per_s: float
    """Batches."""
    repeated: int
    repeated_s: float
    recovered_s: float
    """With all of these."""
    behind: int
    """At the worst moment with a target."""
    estimated_s: float
    within_s: float
    """What the recovery took from there."""
    others: float
    """Cores that other programs kept busy."""

    @property
    def repeated_per_s(self) -> float:
        return self.repeated / self.repeated_s


def measure(place: Path, megabytes: int, tell: Callable[[str], None]) -> Replay:
    place.mkdir(parents=True)
    before = processor.now()
    tell(f"replay: {megabytes} MB of state, building")
    with _driver(Life(str(place), (megabytes << 20) // BYTES_PER_KEY, building=True)) as driver:
        driver.wait_for("checkpoint")
    tell(f"replay: {megabytes} MB of state, running {_BATCHES} batches")
    with _driver(Life(str(place), _SMALL_BATCH)) as driver:
        first, began = _batch(driver)
        last, ended = first, began
        while last < first + _BATCHES - 1:
            last, ended = _batch(driver)
    tell(f"replay: {megabytes} MB of state, repeating")
    with _driver(_on_empty_disk(place)) as driver:
        repeated, repeated_s = driver.wait_for("repeated")
        (recovered_s,) = driver.wait_for("recovered")
        behind, estimated_s = driver.wait_for("behind")
    tell(f"replay: {megabytes} MB of state, within the target")
    with _driver(_on_empty_disk(place)) as driver:
        (within_s,) = driver.wait_for("recovered")
        others = processor.others_between(before, processor.now())
    shutil.rmtree(place, ignore_errors=True)
    return Replay(
        megabytes,
        (last - first) / (ended - began),
        int(repeated),
        float(repeated_s),
        float(recovered_s),
        int(behind),
        float(estimated_s),
        float(within_s),
        others,
    )


def described(measured: Sequence[Replay]) -> Iterator[str]:
    for one in measured:
        yield (
            f"{_name(one)} of state: {one.ran_per_s:.2f} batches/s run, {one.repeated_per_s:.2f} repeated; "
            f"{one.repeated} of them: recovered after {one.recovered_s:.1f} s"
        )
        yield (
            f"{_name(one)} of state, target {TARGET_S:.0f} s: lost with {one.behind} batches behind, estimated "
            f"{one.estimated_s:.1f} s, recovered after {one.within_s:.1f} s; others kept {one.others:.2f} cores busy"
        )


def ratios(measured: Sequence[Replay]) -> Iterator[Ratio]:
    for one in measured:
        disturbed = one.others > DISTURBED
        yield Ratio(f"batches/s repeated, {_name(one)}: run", one.repeated_per_s / one.ran_per_s, True)
        yield Ratio(f"recovery, {_name(one)}: its target", one.within_s / TARGET_S, False, 1.0, disturbed)


def _driver(life: Life) -> Driver:
    return Driver(life.place, _MODULE, life)


def _on_empty_disk(place: Path) -> Life:
    shutil.rmtree(place / "work")
    shutil.rmtree(place / "local", ignore_errors=True)
    return Life(str(place), _SMALL_BATCH, f"{TARGET_S:.0f}s")


def _batch(driver: Driver) -> tuple[int, float]:
    number, at = driver.wait_for("batch")
    return int(number), float(at)


def _name(one: Replay) -> str:
    return f"{one.megabytes} MB"
