"""Worlds of hostile acts, one after another: python -m tests.attacks --minutes 10. A world is repeated by its seed."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.attacks.play import play
from tests.attacks.stores import STORES, Homes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, help="this world alone")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--store", choices=STORES, default="file")
    chosen = parser.parse_args()
    directory = chosen.directory or Path(tempfile.mkdtemp(prefix="holdfast-attacks-"))
    directory.mkdir(parents=True, exist_ok=True)
    with STORES[chosen.store](directory) as homes:
        return _attack(chosen, directory, homes)


def _attack(chosen: argparse.Namespace, directory: Path, homes: Homes | None) -> int:
    end = time.monotonic() + chosen.minutes * 60
    seed, worlds, broken = chosen.first if chosen.seed is None else chosen.seed, 0, []
    while time.monotonic() < end:
        began = time.monotonic()
        found = play(seed, directory / str(seed), homes)
        worlds += 1
        if found:
            broken.append(seed)
            sys.stdout.write(f"seed {seed} BROKE: {found}\n   see {directory / str(seed)}/log\n")
        else:
            sys.stdout.write(f"seed {seed} held, {time.monotonic() - began:.0f} s\n")
        sys.stdout.flush()
        if chosen.seed is not None:
            break
        seed += chosen.step
    sys.stdout.write(f"{worlds} worlds, {len(broken)} broken: {broken}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
