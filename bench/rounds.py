"""Plain Spark and Spark with holdfast in turn, in one JVM, so that noise falls on all alike."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from bench.pipeline import Life, Load, Variant
from bench.ratio import Ratio, quantile

EXPECTED_THROUGHPUT = 0.97

DISTURBED = 0.2
"""More cores than this in other hands, on average, and a ratio of times says nothing."""

_LOOK_S = 0.5
_EACH_ROUND: tuple[Variant, ...] = ("plain", "holdfast", "tuned")

Tell = Callable[[str], None]
Figure = Callable[[Sequence[Life]], float]


@dataclass(frozen=True)
class Round:
    """One life of each variant, one after the other."""

    lives: tuple[Life, ...]
    places: dict[Variant, Path]

    def of(self, variant: Variant) -> Life | None:
        return next((life for life in self.lives if life.variant == variant), None)


def order_of(number: int, with_file_sink: bool) -> tuple[Variant, ...]:
    """Who goes first changes from round to round: a machine that warms up or gets busy favours none."""
    first = number % len(_EACH_ROUND)
    turned = _EACH_ROUND[first:] + _EACH_ROUND[:first]
    return (*turned, "file-sink") if with_file_sink else turned


def run_rounds(load: Load, rounds: int, file_sink_rounds: int, place: Path, tell: Tell) -> tuple[Round, ...]:
    """Before the first round, each variant lives once unmeasured: the JVM compiles what matters."""
    warm_up: tuple[Variant, ...] = ("plain", "holdfast")
    orders = [order_of(number, number < file_sink_rounds) for number in range(rounds)]
    lives = _in_one_process([*warm_up, *(variant for order in orders for variant in order)], load, place, tell)
    done, taken = [], len(warm_up)
    for order in orders:
        numbers = range(taken, taken + len(order))
        taken += len(order)
        places = {variant: place / str(number) for number, variant in zip(numbers, order, strict=True)}
        done.append(Round(tuple(lives[number] for number in numbers), places))
    return tuple(done)


def _in_one_process(variants: Sequence[Variant], load: Load, place: Path, tell: Tell) -> list[Life]:
    log = place / "log.txt"
    command = [sys.executable, "-m", "bench.pipeline", str(place), *variants]
    command += ["--load", msgspec.json.encode(load).decode()]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        for number, variant in enumerate(variants):
            tell(f"{number + 1} of {len(variants)}: {variant}")
            while not (place / f"{number}.json").exists() and process.poll() is None:
                time.sleep(_LOOK_S)
    if process.returncode != 0:
        tail = log.read_text(errors="replace").splitlines()[-15:]
        raise RuntimeError("\n".join([f"the pipeline ended with exit code {process.returncode}:", *tail]))
    results = (place / f"{number}.json" for number in range(len(variants)))
    return [msgspec.json.decode(result.read_bytes(), type=Life) for result in results]


def lives_of(rounds: Sequence[Round], variant: Variant) -> tuple[Life, ...]:
    return tuple(life for round in rounds if (life := round.of(variant)) is not None)


def throughput(lives: Sequence[Life]) -> float:
    """Batches per second over all rounds."""
    times = batch_times(lives)
    return len(times) / sum(times)


def batch_times(lives: Sequence[Life]) -> tuple[float, ...]:
    return tuple(seconds for life in lives for seconds in life.batch_seconds)


def processor_per_batch(lives: Sequence[Life]) -> float:
    return median(life.processor_per_batch for life in lives)


def others(rounds: Sequence[Round]) -> float:
    """Cores that other programs kept busy in the life that they disturbed most."""
    return max(life.others for round in rounds for life in round.lives)


def ratios(rounds: Sequence[Round]) -> Iterator[Ratio]:
    holdfast, plain = lives_of(rounds, "holdfast"), lives_of(rounds, "plain")
    disturbed = others(rounds) > DISTURBED

    def against(other: Sequence[Life], name: str, figure: Figure, more: bool, expected: float | None = None) -> Ratio:
        return Ratio(name, figure(holdfast) / figure(other), more, expected, disturbed)

    yield against(plain, "batches/s: plain Spark", throughput, True, EXPECTED_THROUGHPUT)
    yield against(plain, "median batch time: plain", lambda lives: quantile(batch_times(lives), 0.5), False)
    yield against(plain, "p99 batch time: plain", lambda lives: quantile(batch_times(lives), 0.99), False)
    yield against(plain, "processor per batch: plain", processor_per_batch, False)
    if tuned := lives_of(rounds, "tuned"):
        yield against(tuned, "batches/s: plain, tuned", throughput, True)
        yield against(tuned, "processor per batch: plain, tuned", processor_per_batch, False)
    if file_sink := lives_of(rounds, "file-sink"):
        yield against(file_sink, "batches/s: file sink", throughput, True)
