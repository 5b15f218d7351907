"""`python -m bench.peers [--quick]`: every system measured in turn, then each under every fault; then the page."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from bench.peers import record, report
from bench.peers.faults.all import FAULTS
from bench.peers.faults.fault import INTERVAL, SHAPE, Fault, suffer
from bench.peers.measure import Sizes, measure
from bench.peers.pipeline import QUERIES, Query, Shape
from bench.peers.record import RECORDED, Faults, Round, Rounds
from bench.peers.systems.all import SYSTEMS
from bench.peers.systems.our_sink import OurSink
from bench.peers.systems.system import System

FULL = Sizes(Shape(keys=500_000, window_keys=5_000, per_second=10_000, delay=20, batch=100_000), 30, "5s")
QUICK = Sizes(Shape(keys=5_000, window_keys=500, per_second=1_000, delay=5, batch=5_000), 5, "3s")


def main() -> None:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no process of a system and no mount is left
    record.commit()  # before a record is written
    sizes = QUICK if arguments.quick else FULL
    systems = [system for system in SYSTEMS if system.name in arguments.systems]
    place = Path(tempfile.mkdtemp(prefix="holdfast-peers-", dir=arguments.place))
    try:
        if arguments.only in (None, "rounds"):
            _rounds(systems, arguments.queries, sizes, arguments.rounds, place, arguments.record)
        if arguments.only in (None, "faults"):
            for fault in FAULTS:
                for system in systems if fault.name in arguments.faults else ():
                    _suffer(fault, system, place / f"{system.name}-{fault.name}", arguments.record)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    page = report.write(arguments.record, arguments.page)
    _say(f"{page} is written from the records in {arguments.record}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="holdfast, plain Spark and Flink.")
    parser.add_argument("--quick", action="store_true", help="small and short: a first look, not a measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("rounds", "faults"), help="one part instead of both")
    for option, known in (("systems", SYSTEMS), ("faults", FAULTS)):
        names = [each.name for each in known]
        parser.add_argument(f"--{option}", nargs="+", choices=names, default=names)
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=QUERIES)
    parser.add_argument("--place", type=Path, help="directory to work in (default: the system's temporary one)")
    parser.add_argument("--record", type=Path, default=RECORDED, help="directory of the records")
    parser.add_argument("--page", type=Path, default=report.PAGE)
    return parser.parse_args()


def _rounds(systems: list[System], queries: list[Query], sizes: Sizes, rounds: int, place: Path, folder: Path) -> None:
    """Who goes first changes from round to round: a machine that warms up or gets busy favours none."""
    done: dict[str, list[Round]] = {system.name: [] for system in systems}
    for number in range(rounds):
        turn = number % len(systems)
        for query in queries:
            for system in systems[turn:] + systems[:turn]:
                if query == "keyed" and system.name == OurSink.name:
                    continue  # the Files sink takes rows that do not change
                here = place / f"{system.name}-{query}-{number}"
                try:
                    done[system.name].append(measure(system, query, sizes, here, number))
                    _say(f"round {number + 1}, {query}, {system.title}: {done[system.name][-1].per_second:,.0f} rows/s")
                except Exception as error:  # the others are measured all the same
                    _say(f"round {number + 1}, {query}, {system.title} failed: {error}")
                shutil.rmtree(here, ignore_errors=True)
                if done[system.name]:
                    rounds_of = Rounds(record.circumstances(system.version()), tuple(done[system.name]))
                    record.write(folder, rounds_of, system.name)


def _suffer(fault: Fault, system: System, place: Path, folder: Path) -> None:
    """What was recorded of other faults stays."""
    try:
        made = suffer(fault, system, place)
    except Exception as error:  # the others are measured all the same
        _say(f"{fault.title}, {system.title} failed: {error}")
        return
    finally:
        shutil.rmtree(place, ignore_errors=True)
    _say(f"{fault.title}, {system.title}: {made}")
    before = record.read(folder, Faults, system.name)
    each = {one.fault: one for one in (*(before.suffered if before else ()), made)}
    ordered = tuple(each[known.name] for known in FAULTS if known.name in each)
    record.write(folder, Faults(SHAPE, INTERVAL, ordered), system.name)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
