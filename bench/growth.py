"""What grows with what: processor time, requests and memory, each with the exponent of its growth.

    entries    of the journal: `status`, and the reading of a start
    jobs       of one home: `holdfast jobs`
    retained   checkpoints of 2,000 files, 1 % new in each: the index of a start; then retiring all but one
    shards     of one checkpoint
    state      bytes of one checkpoint, and of its restore

Each point is measured in a process of its own (`bench.growth_point`), which tells its processor time: that does not
depend on what else the machine does. The exponent is that of a straight line through the points, both axes being
logarithms.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console

from bench.growth_point import Cost
from bench.ratio import Ratio
from holdfast.cli.figures import spark_line

SIZES: Mapping[str, tuple[int, ...]] = {
    "entries": (100, 1_000, 10_000, 100_000),
    "jobs": (1, 20, 200),
    "retained": (10, 100, 1_000),
    "shards": (10, 200, 2_000),
    "state": (128, 1024),
}
"""Of the state in MiB."""
QUICK: Mapping[str, tuple[int, ...]] = {
    "entries": (100, 1_000),
    "jobs": (1, 20),
    "retained": (10, 50),
    "shards": (10, 100),
    "state": (64, 128),
}
LINEAR = 1.15
"""An exponent up to there counts as linear: points are few, and small ones have a fixed part."""


@dataclass(frozen=True)
class Line:
    """One cost at all sizes."""

    of: str
    """What is measured."""
    by: str
    """What grows."""
    sizes: tuple[int, ...]
    costs: tuple[Cost, ...]

    def exponent(self, value: Callable[[Cost], float]) -> float:
        """Of the larger half: small points show the fixed part."""
        points = [(size, value(cost)) for size, cost in zip(self.sizes, self.costs, strict=True)][-3:]
        return slope([(math.log(size), math.log(max(found, 1e-6))) for size, found in points])


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the straight line with the least squares."""
    if len(points) < 2:
        return 0.0
    x = sum(point[0] for point in points) / len(points)
    y = sum(point[1] for point in points) / len(points)
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def measure(place: Path, sizes: Mapping[str, tuple[int, ...]], tell: Callable[[str], None]) -> list[Line]:
    found: dict[tuple[str, str], list[Cost]] = {}
    for by, points in sizes.items():
        for size in points:
            tell(f"growth: {size:,} {by}")
            for of, cost in _point(place / f"{by}-{size}", by, size).items():
                found.setdefault((by, of), []).append(cost)
    return [Line(of, by, sizes[by], tuple(costs)) for (by, of), costs in found.items()]


def _point(place: Path, by: str, size: int) -> dict[str, Cost]:
    place.mkdir(parents=True)
    try:
        command = [sys.executable, "-m", "bench.growth_point", by, str(size), str(place)]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        told = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment).stdout
        return msgspec.json.decode(told.splitlines()[-1], type=dict[str, Cost])
    finally:
        shutil.rmtree(place, ignore_errors=True)


def show(console: Console, lines: Sequence[Line]) -> None:
    console.print("[bold]Growth[/]: processor time, requests, and memory that was needed meanwhile")
    for line in lines:
        console.print(described(line), soft_wrap=True)


def described(line: Line) -> str:
    seconds, requests = _row(line, "seconds", ".3f"), _row(line, "requests", ",")
    plot = spark_line([round(math.log1p(cost.seconds * 1000) * 100) for cost in line.costs])
    sizes, megabytes = " ".join(f"{size:,}" for size in line.sizes), _row(line, "megabytes", ".0f")
    return (
        f"{line.of}, by {line.by} ({sizes}): {seconds} s, exponent {line.exponent(lambda cost: cost.seconds):.2f} "
        f"{plot}; {requests} requests, exponent {line.exponent(lambda cost: cost.requests):.2f}; {megabytes} MB"
    )


def _row(line: Line, field: str, shape: str) -> str:
    return " ".join(format(getattr(cost, field), shape) for cost in line.costs)


def ratios(lines: Sequence[Line]) -> Iterator[Ratio]:
    for line in lines:
        yield Ratio(f"exponent: {line.of} by {line.by}", line.exponent(lambda cost: cost.seconds), False, LINEAR)
