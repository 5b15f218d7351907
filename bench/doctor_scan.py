"""How long the doctor takes for gigabytes of logs, against Spark counting their lines; twice the logs; memory."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from bench import generated_logs, processor
from bench.ratio import Ratio
from bench.rounds import DISTURBED
from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.reading.inputs import Inputs, resolve
from holdfast.doctor.spark.pipeline import examine
from holdfast.finding import Finding

EXPECTED_AGAINST_COUNTING = 4.0
EXPECTED_FOR_TWICE = 2.2


@dataclass(frozen=True)
class Scans:
    bytes: int
    lines: int
    events: int
    seen: int
    """Events in which a rule saw something."""
    counted: tuple[float, ...]
    """Seconds of `spark.read.text(...).count()`."""
    scanned: tuple[float, ...]
    twice: tuple[float, ...]
    """Seconds for twice the logs."""
    kept: int
    """Sightings that the driver held for twice the logs."""
    worker_bytes: int
    """The most memory that one Python worker had."""
    driver_bytes: int
    """The most memory that the driver's Python had."""
    others: float
    """Cores that other programs kept busy, at most."""


def measure(place: Path, megabytes: int, rounds: int, tell: Callable[[str], None]) -> Scans:
    tell(f"doctor-scan: writing {2 * megabytes} MB of logs")
    for half in ("a", "b"):
        generated_logs.write(place / half, megabytes)
    spark = _session()
    one, both = resolve([str(place / "a")]), resolve([str(place)])
    ways: dict[str, Callable[[], object]] = {
        "counted": lambda: spark.read.text(str(place / "a")).count(),
        "scanned": lambda: _diagnosed(spark, one),
        "twice": lambda: _diagnosed(spark, both),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    others = 0.0
    try:
        for number in range(rounds + 1):
            for name, way in ways.items():
                tell(
                    f"doctor-scan: {name}, round {number} of {rounds}" if number else f"doctor-scan: warming up, {name}"
                )
                seconds, busy = _timed(way)
                if number:
                    times[name].append(seconds)
                    others = max(others, busy)
        found = examine(spark, one, RULES)
        memory = _most_memory()
        kept = len(examine(spark, both, RULES).sightings)
    finally:
        spark.stop()
    return Scans(
        bytes=found.bytes,
        lines=found.lines,
        events=found.events,
        seen=sum(sighting.count for sighting in found.sightings),
        counted=tuple(times["counted"]),
        scanned=tuple(times["scanned"]),
        twice=tuple(times["twice"]),
        kept=kept,
        worker_bytes=memory,
        driver_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        others=others,
    )


def _diagnosed(spark: SparkSession, inputs: Inputs) -> tuple[Finding, ...]:
    return diagnose(examine(spark, inputs, RULES).sightings)


def ratios(scans: Scans) -> Iterator[Ratio]:
    disturbed = scans.others > DISTURBED
    once = median(scans.scanned)
    yield Ratio("doctor: counting lines", once / median(scans.counted), False, EXPECTED_AGAINST_COUNTING, disturbed)
    yield Ratio("doctor: twice the logs", median(scans.twice) / once, False, EXPECTED_FOR_TWICE, disturbed)


def rows(scans: Scans) -> Sequence[tuple[str, str]]:
    def seconds(times: Sequence[float]) -> str:
        return ", ".join(f"{each:.1f}" for each in times)

    return (
        ("logs", f"{scans.bytes / 2**20:,.0f} MB, {scans.lines:,} lines, {scans.events:,} events, {scans.seen:,} seen"),
        ("Spark counts the lines, s", seconds(scans.counted)),
        ("holdfast doctor, s", seconds(scans.scanned)),
        ("holdfast doctor, twice the logs, s", seconds(scans.twice)),
        ("sightings held by the driver, twice the logs", f"{scans.kept:,}"),
        ("most memory of a Python worker", f"{scans.worker_bytes / 2**20:,.0f} MB"),
        ("most memory of the driver's Python", f"{scans.driver_bytes / 2**20:,.0f} MB"),
        ("cores that others kept busy, at most", f"{scans.others:.2f}"),
    )


def _timed(way: Callable[[], object]) -> tuple[float, float]:
    begun, start = processor.now(), time.perf_counter()
    way()
    return time.perf_counter() - start, processor.others_between(begun, processor.now())


def _session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _most_memory() -> int:
    """Spark keeps its Python workers for the next task; the kernel knows the most that each ever had."""
    most = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                    status = (folder / "status").read_text()
                    most = max(most, int(status.split("VmHWM:")[1].split()[0]) * 1024)
            except (OSError, IndexError):
                continue
    return most
