"""`python -m bench [--quick]`: everything, side by side, in one run. Exits 0 also when a promise is not kept."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from bench import (
    cluster,
    coordinator,
    doctor,
    doctor_scan,
    during,
    growth,
    home_bytes,
    inside_store,
    object_store,
    planned,
    recovery,
    replay,
    report,
    report_recovery,
    report_s3,
    restore,
    rounds,
    s3_requests,
)
from bench.pipeline import Load
from bench.ratio import Ratio

_FULL = Load(keys=5_000, windows=20, warm_up=25, batches=40)
_BLOCKS = Load(keys=5_000, windows=20, warm_up=60, batches=12)
_QUICK_BLOCKS = Load(keys=1_000, windows=10, warm_up=10, batches=8)
_REPLAYED = {True: (10,), False: (10, 1024)}
"""MB of state."""
_QUICK = Load(keys=1_000, windows=10, warm_up=10, batches=20)


def main() -> None:
    arguments = _arguments()
    console = Console()
    place = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=arguments.place))
    parts = _PARTS if arguments.only is None else {arguments.only: _PARTS[arguments.only]}
    ratios: list[Ratio] = []
    try:
        for name, part in parts.items():
            try:
                ratios += part(console, place, arguments.quick)
            except pytest.skip.Exception as missing:  # raised where a server of the tests cannot be had
                console.print(f"[yellow]{name} was not measured: {missing}[/]")
    finally:
        if not arguments.keep:
            shutil.rmtree(place, ignore_errors=True)
    if ratios:
        report.summary(console, ratios)
        report.closing(console, ratios)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="What holdfast costs, measured.")
    parser.add_argument("--quick", action="store_true", help="small and short: a first look, not a measurement")
    parser.add_argument("--only", choices=tuple(_PARTS), help="one part instead of all")
    parser.add_argument("--place", type=Path, help="directory to work in (default: the system's temporary one)")
    parser.add_argument("--keep", action="store_true", help="keep what was written")
    return parser.parse_args()


def _pipeline(console: Console, place: Path, quick: bool) -> Sequence[Ratio]:
    load = _QUICK if quick else _FULL
    report.opening(console, load, quick)
    count, file_sinks = (1, 0) if quick else (3, 1)
    with console.status("") as status:
        done = rounds.run_rounds(load, count, file_sinks, place, status.update)
    report.lives(console, done)
    homes = [home_bytes.written(round.places["holdfast"]) for round in done]
    report.home_bytes(console, homes)
    return (*rounds.ratios(done), home_bytes.ratio(homes))


def _restore(console: Console, place: Path, quick: bool) -> Sequence[Ratio]:
    megabytes, count = (64, 2) if quick else (400, 5)
    with console.status("") as status:
        measured = restore.measure(place, megabytes, count, status.update)
    report.restores(console, measured)
    return tuple(restore.ratios(measured))


def _coordinator(console: Console, place: Path, quick: bool) -> Sequence[Ratio]:
    with console.status("coordinator"):
        rows = coordinator.main(quick)
    report.coordinator(console, rows)
    return ()


def _object_store(console: Console, place: Path, quick: bool) -> Sequence[Ratio]:
    megabytes, count = (64, 1) if quick else (1024, 3)
    with console.status("") as status:
        measured = object_store.measure(place / "object-store", megabytes, count, status.update)
    report_s3.transfers(console, measured)
    return tuple(object_store.ratios(measured))


def _requests(console: Console, place: Path, quick: bool) -> Sequence[Ratio]:
    with console.status("requests: plain Spark on S3, then holdfast"):
        counted = s3_requests.measure(place / "requests", s3_requests.QUICK if quick else s3_requests.FULL)
    report_s3.requests(console, *counted)
    return tuple(s3_requests.ratios(*counted, promised=not quick))


def _inside(console: Console, place: Path, quick: bool) -> Sequence[Ratio]:
    with console.status("") as status:
        measured = inside_store.measure(place / "inside", (20, 100) if quick else (100, 2000), status.update)
    report_s3.inside(console, measured)
    return tuple(inside_store.ratios(measured))


def _doctor(console: Console, place: Path, quick: bool) -> Sequence[Ratio]:
    verdicts = doctor.measure()
    report.figures(console, "Doctor: log excerpts", doctor.rows(verdicts))
    return tuple(doctor.ratios(verdicts))


def _doctor_scan(console: Console, place: Path, quick: bool) -> Sequence[Ratio]:
    megabytes, count = (128, 1) if quick else (2048, 3)
    with console.status("") as status:
        measured = doctor_scan.measure(place / "doctor-scan", megabytes, count, status.update)
    report.figures(console, "Doctor: logs of 100 jobs, local[2]", doctor_scan.rows(measured))
    return tuple(doctor_scan.ratios(measured))


def _recovery(console: Console, place: Path, quick: bool) -> Sequence[Ratio]:
    sizes, count = ((32,), 1) if quick else ((100, 1024), 3)
    with console.status("") as status:
        measured = [recovery.measure(place / "recovery", size, count, status.update) for size in sizes]
    report_recovery.recoveries(console, measured)
    return tuple(recovery.ratios(measured))


def _during(console: Console, place: Path, quick: bool) -> Sequence[Ratio]:
    load, blocks = (_QUICK_BLOCKS, 1) if quick else (_BLOCKS, 20)
    with console.status("batches with and without a checkpoint under way"):
        measured = during.measure(load, blocks, place / "during")
    report_recovery.during(console, measured)
    return tuple(during.ratios(measured))


def _cluster(console: Console, place: Path, quick: bool) -> Sequence[Ratio]:
    load, count = (cluster.QUICK, 1) if quick else (cluster.FULL, 2)
    with console.status("cluster: batches with and without checkpoints, in turn"):
        measured = cluster.measure(place / "cluster", load, count)
    report.cluster(console, measured)
    return tuple(cluster.ratios(measured, promised=not quick))


def _plans(console: Console, place: Path, quick: bool) -> Sequence[Ratio]:
    load, count = (_QUICK, 1) if quick else (_FULL, 3)
    with console.status("batches with and without durable plans, home on disk and on S3"):
        lives = planned.measure(place / "plans", load, count)
    for line in planned.described(lives):
        console.print(line)
    return tuple(planned.ratios(lives))


def _replay(console: Console, place: Path, quick: bool) -> Sequence[Ratio]:
    with console.status("") as status:
        measured = [replay.measure(place / f"replay-{size}", size, status.update) for size in _REPLAYED[quick]]
    for line in replay.described(measured):
        console.print(line)
    return tuple(replay.ratios(measured))


def _growth(console: Console, place: Path, quick: bool) -> Sequence[Ratio]:
    with console.status("") as status:
        lines = growth.measure(place / "growth", growth.QUICK if quick else growth.SIZES, status.update)
    growth.show(console, lines)
    return tuple(growth.ratios(lines))


_PARTS = {
    "coordinator": _coordinator,
    "growth": _growth,
    "doctor": _doctor,
    "doctor-scan": _doctor_scan,
    "restore": _restore,
    "object-store": _object_store,
    "requests": _requests,
    "inside": _inside,
    "recovery": _recovery,
    "during": _during,
    "pipeline": _pipeline,
    "cluster": _cluster,
    "plans": _plans,
    "replay": _replay,
}


if __name__ == "__main__":
    main()
