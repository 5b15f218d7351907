"""Plain Spark and Spark with holdfast in turn, each life in a fresh process, so that noise falls on all alike."""

from __future__ import annotations

import os
import subprocess
import sys
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
    """Who goes first changes from round to round: a machine that warms up or gets busy favours neither."""
    pair: tuple[Variant, ...] = ("plain", "holdfast") if number % 2 == 0 else ("holdfast", "plain")
    return (*pair, "file-sink") if with_file_sink else pair


def run_rounds(load: Load, rounds: int, file_sink_rounds: int, place: Path, tell: Tell) -> tuple[Round, ...]:
    done = []
    for number in range(rounds):
        lives, places = [], {}
        for variant in order_of(number, number < file_sink_rounds):
            tell(f"round {number + 1} of {rounds}: {variant}")
            places[variant] = place / f"{number}-{variant}"
            lives.append(_in_fresh_process(variant, load, places[variant]))
        done.append(Round(tuple(lives), places))
    return tuple(done)


def _in_fresh_process(variant: Variant, load: Load, place: Path) -> Life:
    place.mkdir(parents=True)
    result, log = place / "life.json", place / "log.txt"
    command = [sys.executable, "-m", "bench.pipeline", variant, str(place), "--to", str(result)]
    command += ["--load", msgspec.json.encode(load).decode()]
    with log.open("wb") as output:
        code = subprocess.run(command, stdout=output, stderr=output, check=False, env=dict(os.environ)).returncode
    if code != 0 or not result.exists():
        tail = log.read_text(errors="replace").splitlines()[-15:]
        raise RuntimeError("\n".join([f"the {variant} pipeline ended with exit code {code}; its last lines:", *tail]))
    return msgspec.json.decode(result.read_bytes(), type=Life)


def lives_of(rounds: Sequence[Round], variant: Variant) -> tuple[Life, ...]:
    return tuple(life for round in rounds if (life := round.of(variant)) is not None)


def throughput(lives: Sequence[Life]) -> float:
    """Batches per second: the median over the rounds."""
    return median(life.batches_per_second for life in lives)


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
    if file_sink := lives_of(rounds, "file-sink"):
        yield against(file_sink, "batches/s: file sink", throughput, True)
