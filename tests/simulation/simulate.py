"""`python -m tests.simulation.simulate --seeds N`: many worlds, on all cores; a bad one tells its story."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial

from tests.clean_processes import FORKS
from tests.simulation.operating import simulate
from tests.simulation.outside import ENABLED, KINDS
from tests.simulation.world import Violation, World

_SHOWN = 120


def story(world: World, last: int | None = None) -> str:
    """What happened, oldest first."""
    lines = [f"{at:9.3f}  {who:<12} {what}" for at, who, what in world.trace]
    left_out = max(0, len(lines) - last) if last else 0
    return "\n".join(([f"… {left_out} earlier lines"] if left_out else []) + lines[left_out:])


def verdict(seed: int, outside: frozenset[str] = ENABLED) -> tuple[int, str | None]:
    """None when the seed is clean, else its story and how to see it again."""
    try:
        simulate(seed, outside=outside)
    except Violation as violation:
        message, world = violation.args
        named = "" if outside == ENABLED else f" --outside {','.join(sorted(outside))}"
        again = f"replay: python -m tests.simulation.simulate --seed {seed}{named} --trace"
        return seed, f"seed {seed}: {message}\n{story(world, _SHOWN)}\n{again}\n"
    return seed, None


def verdicts(
    seeds: Sequence[int], processes: int | None = None, outside: frozenset[str] = ENABLED
) -> Iterator[tuple[int, str | None]]:
    if len(seeds) == 1:
        yield verdict(seeds[0], outside)
        return
    with FORKS.Pool(processes, maxtasksperchild=5) as pool:
        yield from pool.imap_unordered(partial(verdict, outside=outside), seeds, chunksize=20)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--trace", action="store_true", help="tell the whole story of --seed")
    parser.add_argument(
        "--outside", help="what the outside world does: names, `all` or `none`; else what it does in CI"
    )
    chosen = parser.parse_args(arguments)
    outside = _named(chosen.outside)
    if chosen.seed is not None:
        return _one(chosen.seed, chosen.trace, outside)
    began = time.monotonic()
    bad = []
    for seed, problem in verdicts(range(chosen.first, chosen.first + chosen.seeds), outside=outside):
        if problem is not None:
            bad.append(seed)
            if len(bad) <= 3:
                _tell(problem)
            else:
                _tell(problem.partition("\n")[0])
    _tell(f"{chosen.seeds} seeds in {time.monotonic() - began:.0f} s, {len(bad)} bad: {sorted(bad)[:30]}")
    return 1 if bad else 0


def _named(outside: str | None) -> frozenset[str]:
    match outside:
        case None:
            return ENABLED
        case "all":
            return KINDS
        case "none":
            return frozenset()
    return frozenset(outside.split(","))


def _one(seed: int, trace: bool, outside: frozenset[str]) -> int:
    try:
        world = simulate(seed, outside=outside)
        message = f"seed {seed} is clean: {world.steps} steps, {world.now:.0f} s"
        bad = 0
    except Violation as violation:
        message, world = violation.args
        bad = 1
    if trace:
        _tell(story(world))
    _tell(message)
    return bad


def _tell(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
